# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What one rank of a service takes beside its KV pool: as a boot has shown it, else predicted within bounds.

C = weights + activations + CUDA context and NCCL + CUDA graphs, as vLLM's profiling pass sees it. docs/memory.md holds
the formula against the boot logs that it was made from. All sizes are bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._gb10 import fact
from ansible_collections.gb10.fleet.plugins.module_utils._vllm.boot_log import BootLog

GIB = 1 << 30
Release = tuple[int, ...]


@dataclass(frozen=True)
class Interval:
    """A size that is known between two bounds."""

    low: int
    expected: int
    high: int

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def __rsub__(self, whole: int) -> Interval:
        """What is left of a whole: the bounds change sides."""
        return Interval(whole - self.high, whole - self.expected, whole - self.low)

    def at_least(self, least: int) -> Interval:
        return Interval(max(self.low, least), max(self.expected, least), max(self.high, least))


NOTHING = Interval(0, 0, 0)


def exactly(size: int) -> Interval:
    return Interval(size, size, size)


def around(size: int, tolerance: int) -> Interval:
    return Interval(size - tolerance, size, size + tolerance)


def gib(value: float) -> int:
    return round(value * GIB)


def fact_interval(key: str) -> Interval:
    """An entry of ``memory`` in data/gb10.yml that has bounds."""
    value = fact("memory", key)
    return Interval(gib(value["low"]), gib(value["expected"]), gib(value["high"]))


@dataclass(frozen=True)
class Calibration:
    """What a boot has shown. weights: of one rank. non_kv: C, if the pool was sized by utilization.

    tolerance: 0 for a record of this host, image, flags and model; else how far another host or build may be off.
    """

    weights: int
    non_kv: int | None
    graphs: int | None
    tolerance: int
    source: str


@dataclass(frozen=True)
class Demand:
    """What one rank of a service asks of its host; one rank a host.

    release: of vLLM, such as (0, 24, 0). weights_bytes: of the whole model. kv_bytes: the least pool that holds the
    workload, 0 for a model without KV cache, None where it isn't known. utilization, kv_cache_memory_bytes: what the
    owner wrote, else None. limits: utilizations between which the recipe is known to work.
    """

    service: str
    release: Release
    ranks: int
    enforce_eager: bool
    max_num_seqs: int
    max_num_batched_tokens: int
    vocab_size: int
    weights_bytes: int | None
    calibration: Calibration | None
    kv_bytes: int | None
    utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    limits: tuple[float, float] = (0.0, 1.0)
    load_format: str = "auto"
    load_strategy: str = "lazy"

    @property
    def place(self) -> str:
        return f"fleet_services.{self.service}"


@dataclass(frozen=True)
class NonKv:
    """What a rank takes beside its KV pool, as vLLM counts it; the whole uncertainty is in runtime."""

    weights: int
    runtime: Interval
    graphs: int
    source: str

    @property
    def total(self) -> Interval:
        return self.runtime + exactly(self.weights + self.graphs)


def estimate(demand: Demand) -> NonKv | None:
    """The non-KV memory of one rank: measured here, else measured elsewhere, else by formula; None without weights."""
    known = demand.calibration
    weights = known.weights if known else _rank_weights(demand)
    if weights is None:
        return None
    graphs = 0 if demand.enforce_eager else gib(fact("memory", "graphs_gib"))
    if known and known.graphs is not None:
        graphs = known.graphs
    if known and known.non_kv is not None:
        runtime = around(known.non_kv - weights - graphs, known.tolerance).at_least(0)
        return NonKv(weights, runtime, graphs, known.source)
    tolerance = "tolerance_gib" if demand.ranks == 1 and demand.max_num_batched_tokens <= 8192 else "tolerance_wide_gib"
    source = (known.source + " for the weights, the rest " if known else "") + "predicted (docs/memory.md)"
    runtime = around(_predicted_runtime(demand), gib(fact("memory", tolerance))).at_least(0)
    return NonKv(weights, runtime, graphs, source)


def _rank_weights(demand: Demand) -> int | None:
    """Norms, routers and the vision tower are held by every rank: about 3 % more than its share (kv-sizing 8)."""
    if demand.weights_bytes is None or demand.ranks == 1:
        return demand.weights_bytes
    return math.ceil(demand.weights_bytes / demand.ranks * 1.03)


def _predicted_runtime(demand: Demand) -> int:
    """Activations of the profiling pass, the sampler's logits in float32, what a loader keeps, CUDA context, NCCL."""
    activations = gib(fact("memory", "activation_gib"))
    activations += gib(demand.max_num_batched_tokens * fact("memory", "activation_mib_per_token") / 1024)
    activations += demand.max_num_seqs * demand.vocab_size * 4
    loader = gib(fact("memory", "instanttensor_gib")) if demand.load_format == "instanttensor" else 0
    return activations + loader + gib(fact("memory", "base_gib" if demand.ranks == 1 else "base_group_gib"))


# --- what boots have shown -------------------------------------------------------------------------------------------

# Flags that move the pool or the endpoint, and not what the rank takes beside the pool.
_WITHOUT_EFFECT = frozenset(
    {"config", "gpu-memory-utilization", "host", "kv-cache-memory-bytes", "port", "served-model-name"}
)


def published_calibration(
    records: Iterable[Mapping[str, Any]], ranks: int, enforce_eager: bool, max_num_batched_tokens: int
) -> Calibration | None:
    """The recipe's own record (``memory.calibrations``) that is nearest to this launch, if it has one for these ranks.

    Its non-KV part counts only with the same graphs and, where the record names them, the same batched tokens.
    """
    fitting = [record for record in records if record["hosts"] == ranks]
    for record in fitting:
        flags = record["flags"]
        same_graphs = flags.get("enforce-eager", False) == enforce_eager
        same_tokens = flags.get("max-num-batched-tokens", max_num_batched_tokens) == max_num_batched_tokens
        if record["non_kv_gib"] is not None and same_graphs and same_tokens:
            return _calibration(record, record["non_kv_gib"])
    return _calibration(fitting[0], None) if fitting else None


def _calibration(record: Mapping[str, Any], non_kv_gib: float | None) -> Calibration:
    return Calibration(
        weights=gib(record["weights_gib"]),
        non_kv=None if non_kv_gib is None else gib(non_kv_gib),
        graphs=None if record["graphs_gib"] is None else gib(record["graphs_gib"]),
        tolerance=gib(fact("memory", "calibration_tolerance_gib")),
        source=record["source"],
    )


def calibration_key(image: str, repository: str, revision: str | None, flags: Mapping[str, Any], ranks: int) -> str:
    """Under which a host keeps what a boot has shown: the same key means the same memory beside the pool.

    image: its digest, or the reference where it isn't pinned. flags: the decided ones.
    """
    relevant = {name: value for name, value in flags.items() if name not in _WITHOUT_EFFECT}
    text = json.dumps([image, repository, revision, ranks, relevant], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def boot_record(boot: BootLog, requested: int) -> dict[str, int | None] | None:
    """What a host keeps of a boot: ``{weights_bytes, non_kv_bytes, graphs_bytes}``; None if the log lacks the weights.

    requested: the bytes that the utilization stood for. C is that less "Available KV cache memory", which vLLM prints
    only where the pool is sized by utilization.
    """
    if boot.weights_gib is None:
        return None
    return {
        "weights_bytes": gib(boot.weights_gib),
        "non_kv_bytes": None if boot.available_kv_gib is None else requested - gib(boot.available_kv_gib),
        "graphs_bytes": None if boot.graphs_gib is None else max(0, gib(boot.graphs_gib)),
    }


def own_calibration(record: Mapping[str, Any]) -> Calibration:
    """A record of this host, for the same image, flags and model: exact."""
    source = "this host's last boot"
    return Calibration(record["weights_bytes"], record["non_kv_bytes"], record["graphs_bytes"], 0, source)
