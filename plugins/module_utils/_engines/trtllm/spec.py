# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for TensorRT-LLM whatever the service."""

from ..interface import EngineSpec, KeyFile
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
