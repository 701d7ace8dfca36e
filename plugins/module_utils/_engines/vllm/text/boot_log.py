# SPDX-License-Identifier: GPL-3.0-or-later
"""What vLLM prints about its memory and KV cache when it starts, releases 0.11 to 0.33."""

import re
from collections.abc import Callable
from typing import Any

from ...memory.boots import BootLog

# vllm/v1/worker/{gpu_model_runner,gpu/model_runner,gpu_worker,cpu_worker}.py, vllm/v1/core/kv_cache_utils.py and
# vllm/v1/engine/core.py. 0.33 prints the pool's size and the concurrency in one line, and names the device (CPU, GPU)
# before it, or several pools.
_LINES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "weights_gib": (r"Model loading took ([\d.]+) GiB", float),
    "available_kv_gib": (r"(?:Available KV cache memory: |Auto set \()(-?[\d.]+)[ /]", float),
    "graphs_gib": (r"Graph capturing finished in \d+ secs, took (-?[\d.]+) GiB", float),
    "kv_cache_tokens": (r"KV cache size: ([\d,]+) tokens", lambda text: int(text.replace(",", ""))),
    "max_model_len": (r"Maximum concurrency for ([\d,]+) tokens", lambda text: int(text.replace(",", ""))),
    "max_concurrency": (r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x", float),
    "release": (r"LLM engine \(v([^)\s]+)\)", str),
}

# What it computes with: vllm/platforms/cuda.py, fused_moe/oracle, kernels/linear. A drafter's come after the model's.
_KERNELS = {
    "attention": r"Using (\w{1,60}) attention backend",
    "MoE": r"Using '?(\w{1,60})'? [\w ()-]{0,40}MoE backend",
    "GEMM": r"Using (\w{1,60}) for \w{1,20} GEMM",
}
_MOST_KERNELS = 8

# Any of them, for who reads a log where no engine is known.
LINES = "|".join([*(pattern for pattern, _read in _LINES.values()), *_KERNELS.values()])


def parse_boot_log(log: str) -> BootLog:
    """The figures in a start's log, whatever stands around them."""
    found = {name: (re.findall(pattern, log), read) for name, (pattern, read) in _LINES.items()}
    kernels = dict.fromkeys(f"{name} {kind}" for kind, pattern in _KERNELS.items() for name in re.findall(pattern, log))
    shown = ", ".join([*kernels][:_MOST_KERNELS]) or None
    return BootLog(kernels=shown, **{name: read(values[-1]) for name, (values, read) in found.items() if values})
