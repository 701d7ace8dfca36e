# SPDX-License-Identifier: GPL-3.0-or-later
"""What a service's own start has shown of its memory: the record that its host keeps, and what the plan reads in it."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..._base.forms import forms
from ..._base.sizes import gib
from .estimate import Calibration


@dataclass(frozen=True)
class BootLog:
    """Figures that an engine prints of one start; None where its log has no such line. A group's ranks print the same,
    so the last counts.

    weights_gib: of one rank. available_kv_gib: for the KV cache, where its size follows from what else is taken.
    graphs_gib: of CUDA graphs. kv_cache_tokens: that the cache holds. max_concurrency: requests of max_model_len
    tokens. release: the engine's, as it names itself. kernels: those that it chose, as "MARLIN MoE, TRITON attention".
    """

    weights_gib: float | None = None
    available_kv_gib: float | None = None
    graphs_gib: float | None = None
    kv_cache_tokens: int | None = None
    max_model_len: int | None = None
    max_concurrency: float | None = None
    release: str | None = None
    kernels: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


# Options that move the pool or the endpoint, and not what the rank takes beside the pool.
_WITHOUT_EFFECT = frozenset(
    {"config", "gpu-memory-utilization", "host", "kv-cache-memory-bytes", "port", "served-model-name"}
)
# vLLM prints GiB with two digits.
_HALF_DIGIT_GIB = 0.005

RECORD = forms("boot")["boot"]


def boot_key(
    image: str,
    repository: str,
    revision: str | None,
    flags: Mapping[str, object],
    environment: Mapping[str, object],
    ranks: int,
) -> str:
    """Under which a host keeps what a boot has shown: the same key means the same memory beside the pool.

    image: its digest, or the reference where it isn't pinned. flags, environment: the decided ones.
    """
    relevant = {name: value for name, value in flags.items() if name not in _WITHOUT_EFFECT}
    text = json.dumps([image, repository, revision, ranks, relevant, dict(environment)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def boot_record(
    boot: BootLog,
    service: str,
    booted: str,
    requested: int,
    memory_total: int | None = None,
    planned_total: int | None = None,
) -> dict[str, Any] | None:
    """What a host keeps of a start, as `RECORD` describes it; None if its log says nothing about memory.

    booted: the day of the start. requested: the bytes that the utilization stands for on planned_total. memory_total:
    the host's bytes, which differ between machines of 2025 and 2026, and by its firmware's settings: of these the
    engine took its share.
    """
    if memory_total and planned_total:
        requested = -(-requested * memory_total // planned_total)
    if boot.weights_gib is None and boot.available_kv_gib is None:
        return None
    return {
        "service": service,
        "booted": booted,
        "requested_bytes": requested,
        "memory_total_bytes": memory_total,
        "log": boot.as_dict(),
    }


def own_calibration(record: Mapping[str, Any], tokens_of: Callable[[int], int | None] | None) -> Calibration:
    """What a record says: exact. record: checked by `RECORD`. tokens_of: the tokens that a pool of so many bytes has.

    C is what the utilization stood for less "Available KV cache memory", which vLLM prints only where the pool is sized
    by utilization.
    """
    log = record["log"]
    weights, graphs, available = (log[name] for name in ("weights_gib", "graphs_gib", "available_kv_gib"))
    pool = None if available is None else _pool_bytes(available, log["kv_cache_tokens"], tokens_of)
    return Calibration(
        weights=None if weights is None else gib(weights),
        non_kv=None if pool is None else max(0, record["requested_bytes"] - pool),
        graphs=None if graphs is None else max(0, gib(graphs)),
        tolerance=0,
        source=f"calibrated by the boot of {record['booted']}",
    )


def _pool_bytes(printed_gib: float, tokens: int | None, tokens_of: Callable[[int], int | None] | None) -> int:
    """The pool's bytes: what was printed, with the digits that only the printed tokens still show.

    The least size within half a printed digit whose tokens are the printed ones; none has them if another rank's pool
    was smaller, or the model is sized otherwise than by the plan.
    """
    printed = gib(printed_gib)
    if tokens is None or tokens_of is None:
        return printed
    low, high = gib(printed_gib - _HALF_DIGIT_GIB), gib(printed_gib + _HALF_DIGIT_GIB)
    while low < high:
        middle = (low + high) // 2
        if (tokens_of(middle) or 0) < tokens:
            low = middle + 1
        else:
            high = middle
    return low if tokens_of(low) == tokens else printed
