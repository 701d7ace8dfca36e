# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for TensorRT-LLM whatever the service."""

import re

from ..interface import EngineSpec, KeyFile

_TAKE_OUT = "take it out"
_BY_OPTIONS = "write kv_cache_config.free_gpu_memory_fraction in extra-llm-api-options, a map"

TENSOR = ("tp-size", "tensor-parallel-size")
PIPELINE = ("pp-size", "pipeline-parallel-size")
# What trtllm-serve reads from a file instead: a map here.
EXTRA = "extra-llm-api-options"
AT_ONCE, BATCHED = 4, 8192
WITHOUT_MEMORY = frozenset({"host", "port", EXTRA})

_IMAGE = re.compile(r"nvcr\.io/nvidia/tensorrt-llm/release:(?P<release>\d+\.\d+\.\d+\w*)?.*")

SPEC = EngineSpec(
    name="trtllm",
    title="TensorRT-LLM",
    families=("ngc", "custom"),
    calculated_flags={
        EXTRA: {"type": "map"},
        "max-batch-size": {"type": "int", "min": 1},
        "max-num-tokens": {"type": "count", "min": 1},
        "max-seq-len": {"type": "count", "min": 1},
        **{name: {"type": "int", "min": 1} for name in (*TENSOR, *PIPELINE)},
    },
    planned_flags={
        **dict.fromkeys(("host", "port", "revision", "served-model-name"), _TAKE_OUT),
        "config": f"write {EXTRA}, a map",
        **dict.fromkeys(("free-gpu-memory-fraction", "kv-cache-free-gpu-memory-fraction"), _BY_OPTIONS),
        **dict.fromkeys(("server-role", "metadata-server-config-file", "disagg-cluster-uri", "grpc"), _TAKE_OUT),
        "otlp-traces-endpoint": "take it out; traces of this engine are not known here",
    },
    planned_env={},
    secrets={},
    # it asks for none (TensorRT-LLM, issue 9950)
    key=KeyFile("", "%t\n"),
    caches={"flashinfer": "/root/.cache/flashinfer", "triton": "/root/.triton"},
    boot_lines=r"for max tokens in paged KV cache|max_seq_len=\d+, max_num_requests=|TensorRT-LLM version:",
    code_flags=("trust-remote-code",),
    code_names=dict.fromkeys(("custom-module-dirs", "custom-tokenizer"), ""),
    abbreviates=False,
)


def image_facts(reference: str) -> dict[str, str | None]:
    """NVIDIA's images have their release as the tag."""
    if found := _IMAGE.fullmatch(reference):
        return {"reference": reference, "family": "ngc", "release": found["release"]}
    return {"reference": reference}
