# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of `trtllm-serve` by release, with dashes for its underscores: ``data/trtllm_catalogue.json``.

The one entry is the list of its source at commit 00209af149e7 (tensorrt_llm/commands/serve.py), which belongs to no
release: images are not judged by it. Releases come in by ``tools/engine_catalogue.py``, from their images.
"""

import functools
from collections.abc import Mapping
from pathlib import Path

from ..interface import EngineSpec, KeyFile
from ..options import Option, Release, releases_of
from ..tables import table_of

TENSOR = ("tp-size", "tensor-parallel-size")
PIPELINE = ("pp-size", "pipeline-parallel-size")
# What trtllm-serve reads from a file instead: a map here.
EXTRA = "extra-llm-api-options"
AT_ONCE, BATCHED = 4, 8192
WITHOUT_MEMORY = frozenset({"host", "port", EXTRA})

_TABLE = table_of("trtllm")
_TABLE["calculated_flags"] |= {name: {"type": "int", "min": 1} for name in (*TENSOR, *PIPELINE)}
# it asks for no key (TensorRT-LLM, issue 9950)
SPEC = EngineSpec(name="trtllm", key=KeyFile("", "%t\n"), **_TABLE)


DATA = Path(__file__).resolve().parents[4] / "data" / "trtllm_catalogue.json"
NEWEST = "0.0.0+main.00209af149e7"


@functools.cache
def load() -> Mapping[str, Release[Option]]:
    """The catalogued releases by version."""
    return releases_of(DATA.read_text("utf-8"))
