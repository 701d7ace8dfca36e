# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of `sglang.launch_server` by release, as its own parser has them: ``data/sglang_catalogue.json``."""

import functools
from collections.abc import Mapping
from pathlib import Path

from ..interface import EngineSpec, KeyFile, TlsFiles
from ..options import Option, Release, releases_of
from ..tables import table_of

# What an option is called in one release or another; the first is in all that are catalogued.
TENSOR = ("tp-size", "tensor-parallel-size")
PIPELINE = ("pp-size", "pipeline-parallel-size")
DRAFT = ("speculative-draft-model-path", "speculative-draft-model")
# SGLang's own default of a GB10's memory (server_args.py, 0.5.9; arg_groups/memory_hook.py, 0.5.23).
CHUNK = 8192
AT_ONCE = 4
# What no option of its own sets: pool, and where it is reached.
WITHOUT_MEMORY = frozenset(
    {"config", "host", "max-total-tokens", "mem-fraction-static", "port", "served-model-name", "model-path"}
)

_TABLE = table_of("sglang")
_TABLE["calculated_flags"] |= {name: {"type": "int", "min": 1} for name in (*TENSOR, *PIPELINE)}
SPEC = EngineSpec(
    name="sglang",
    # --config: YAML, which reads JSON as well. SGLang prints its options as it starts, the key among them: Docker keeps
    # no log, and the supervisor hides the key in what it passes on.
    key=KeyFile("/run/secrets/sglang.yaml", "api-key: %s\n"),
    tls=TlsFiles("/run/secrets/tls.crt", "/run/secrets/tls.key"),
    **_TABLE,
)


DATA = Path(__file__).resolve().parents[4] / "data" / "sglang_catalogue.json"
NEWEST = "0.5.23"


@functools.cache
def load() -> Mapping[str, Release[Option]]:
    """The catalogued releases by version."""
    return releases_of(DATA.read_text("utf-8"))
