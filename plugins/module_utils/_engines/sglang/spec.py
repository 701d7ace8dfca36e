# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for SGLang whatever the service."""

import re

from ..interface import EngineSpec, KeyFile, TlsFiles
from ..tables import table_of

# What an option is called in one release or another; the first is in all that are catalogued.
TENSOR = ("tp-size", "tensor-parallel-size")
PIPELINE = ("pp-size", "pipeline-parallel-size")
# SGLang's own default of a GB10's memory (server_args.py, 0.5.9; arg_groups/memory_hook.py, 0.5.23).
CHUNK = 8192
AT_ONCE = 4
# What no option of its own sets: pool, and where it is reached.
WITHOUT_MEMORY = frozenset(
    {"config", "host", "max-total-tokens", "mem-fraction-static", "port", "served-model-name", "model-path"}
)

_IMAGES = (
    (re.compile(r"(docker\.io/)?lmsysorg/sglang:spark"), "upstream", "0.5.3.post3"),  # sglang, issue 12134
    (re.compile(r"(docker\.io/)?lmsysorg/sglang:v(?P<release>\d+\.\d+\.\d+(\.post\d+)?)(-.*)?"), "upstream", None),
    (re.compile(r"(docker\.io/)?lmsysorg/sglang(:.*)?"), "upstream", None),
    (re.compile(r"nvcr\.io/nvidia/sglang(:.*)?"), "ngc", None),
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


def image_facts(reference: str) -> dict[str, str | None]:
    """family and release of an image, as far as its name says them."""
    for pattern, family, release in _IMAGES:
        if found := pattern.fullmatch(reference):
            named = found.groupdict().get("release")
            return {"reference": reference, "family": family, "release": release or named}
    return {"reference": reference}
