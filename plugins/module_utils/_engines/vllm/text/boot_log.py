# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What vLLM prints about its memory and KV cache when it starts, releases 0.11 to 0.33."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class BootLog:
    """Figures of one start; None where the log has no such line. A group's ranks print the same, so the last counts.

    weights_gib: "Model loading took". available_kv_gib: "Available KV cache memory", on a CPU "Auto set", printed only
    where the pool is sized by utilization. graphs_gib: "Graph capturing finished". kv_cache_tokens: "... KV cache
    size", whose meaning changed in 0.20.1 (docs/kv-sizing.md). max_concurrency: requests of max_model_len tokens.
    release: vLLM's, as it names itself.
    """

    weights_gib: float | None = None
    available_kv_gib: float | None = None
    graphs_gib: float | None = None
    kv_cache_tokens: int | None = None
    max_model_len: int | None = None
    max_concurrency: float | None = None
    release: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


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


def parse_boot_log(text: str) -> BootLog:
    """The figures in a start's log, whatever stands around them."""
    found = {name: (re.findall(pattern, text), read) for name, (pattern, read) in _LINES.items()}
    return BootLog(**{name: read(values[-1]) for name, (values, read) in found.items() if values})
