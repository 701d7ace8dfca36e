# SPDX-License-Identifier: GPL-3.0-or-later
"""What one rank of a service takes beside its KV pool: as a boot has shown it, else predicted within bounds.

C = weights + activations + CUDA context and NCCL + CUDA graphs, as vLLM's profiling pass sees it.
docs/explanation/memory.md holds the formula against the boot logs that it was made from. All sizes are bytes.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..._base.gb10 import fact
from ..._base.place import Place
from ..._base.sizes import gib


@dataclass(frozen=True)
class Interval:
    """A size that is known between two bounds."""

    low: int
    expected: int
    high: int

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def __rsub__(self, whole: int) -> "Interval":
        """What is left of a whole: the bounds change sides."""
        return Interval(whole - self.high, whole - self.expected, whole - self.low)

    def at_least(self, least: int) -> "Interval":
        return Interval(max(self.low, least), max(self.expected, least), max(self.high, least))


NOTHING = Interval(0, 0, 0)
# Batched tokens up to which boots agree best; sequences whose graphs were read small, and whose graphs were read large.
_FEW_TOKENS = 8192
_FEW_SEQUENCES, _MANY_SEQUENCES = 8, 64


def exactly(size: int) -> Interval:
    return Interval(size, size, size)


def around(size: int, tolerance: int) -> Interval:
    return Interval(size - tolerance, size, size + tolerance)


def fact_interval(key: str) -> Interval:
    """An entry of ``memory`` in data/gb10.yml that has bounds."""
    value = fact("memory", key)
    return Interval(gib(value["low"]), gib(value["expected"]), gib(value["high"]))


@dataclass(frozen=True)
class Calibration:
    """What a boot has shown; None for what its log doesn't say. weights: of one rank. non_kv: C, if the pool was sized
    by utilization.

    tolerance: 0 for a record of this host, image, flags and model; else how far another host or build may be off.
    """

    weights: int | None
    non_kv: int | None
    graphs: int | None
    tolerance: int
    source: str


@dataclass(frozen=True)
class Demand:
    """What one rank of a service asks of its host; one rank a host.

    requested: what a utilization of a total means to its engine: the bytes that must be free at the start, and that
    the pool is cut from. weights_bytes: of the whole model. weights_bounds: between what they are, where
    weights_bytes is counted from config.json instead of read. weights_source: where they are from. weights_files:
    where an owner finds their size. weights_copied: the part of them that every rank holds, None where not known.
    rank_weights: what this rank holds of them, where ranks hold different layers.
    reads_layers: whether a drafter reads the model's layers. drafts_recurrent: whether a model with recurrent layers
    drafts. in_flight: what the engine keeps for further batches. adapters: what it sets aside for them beside the
    weights. offload: what options keep in the host's memory. on_disk: what of the weights stays there, in words.
    kv_bytes: the least pool that holds the
    workload, 0 for a model without KV cache, None where it isn't known. kv_start: the least that it starts with,
    which holds one request of full length; as kv_bytes where None. takes_rest, pool_weight: the pool is declared to
    be what is left, and its part of that. utilization, kv_cache_memory_bytes: what the owner declared, else None.
    own_processes: what the server's processes take beside all that, where its engine knows it. limits: utilizations
    between which the recipe is known to work. share_option, pool_option: by which an owner declares a utilization and
    a pool. head: whether it is a group's first rank.
    proven_on: numbers of hosts on which the recipe has run. proven: the pool of a rank that its author ran on as many
    hosts, with who says so.
    flashinfer: whether FlashInfer's kernels compute NVFP4 experts. estimates_graphs: whether the engine takes an
    estimate of the CUDA graphs from a pool that it sizes itself. calibration: of the recipe. observed: of a boot of
    this very service on this host; it makes the figures exact, and decides nothing, so that a boot changes no command
    line.
    """

    service: str
    requested: Callable[[int, float], int]
    ranks: int
    enforce_eager: bool
    max_num_seqs: int
    max_num_batched_tokens: int
    vocab_size: int
    weights_bytes: int | None
    calibration: Calibration | None
    kv_bytes: int | None
    head: bool = False
    flashinfer: bool = False
    estimates_graphs: bool = False
    weights_bounds: tuple[int, int] | None = None
    weights_source: str = "model.weights_bytes"
    weights_copied: int | None = None
    rank_weights: Interval | None = None
    activations: int | None = None
    takes_images: bool = False
    reads_layers: bool = False
    drafts_recurrent: bool = False
    in_flight: Interval = NOTHING
    adapters: int = 0
    offload: int = 0
    on_disk: str = ""
    kv_start: int | None = None
    takes_rest: bool = False
    pool_weight: int = 1
    observed: Calibration | None = None
    utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    limits: tuple[float, float] = (0.0, 1.0)
    load_format: str = "auto"
    load_strategy: str = "lazy"
    proven_on: Sequence[int] = ()
    proven: tuple[int, str] | None = None
    own_processes: Interval | None = None
    share_option: str = "gpu-memory-utilization"
    weights_files: str = "the sum of the safetensors files that the hub shows"
    pool_option: str = "kv-cache-memory-bytes"

    @property
    def place(self) -> Place:
        return Place(service=self.service)

    @property
    def sized_by_utilization(self) -> bool:
        """Whether the pool is what a utilization leaves, by the owner's word."""
        return self.utilization is not None and self.kv_cache_memory_bytes is None


@dataclass(frozen=True)
class NonKv:
    """What a rank takes beside its KV pool, as vLLM counts it; the whole uncertainty is in runtime.

    source: of runtime and graphs. weights_source: of the weights. adapters: 0 where the weights of a boot contain
    what is set aside for them.
    """

    weights: int
    runtime: Interval
    graphs: int
    source: str
    weights_source: str
    adapters: int = 0

    @property
    def total(self) -> Interval:
        return self.runtime + exactly(self.weights + self.adapters + self.graphs)


def estimate(demand: Demand) -> NonKv | None:
    """What decisions take a rank's non-KV memory for: the recipe's record, else a formula; None without weights."""
    found = _estimate(demand, demand.calibration)
    return replace(found, adapters=demand.adapters) if found else None


def known(demand: Demand) -> NonKv | None:
    """The non-KV memory of one rank as far as it is known: by its own boot, where that says it."""
    own, decided = demand.observed, estimate(demand)
    if own is None:
        return decided
    if own.non_kv is not None or decided is None:
        return _estimate(demand, own)
    # a boot with a pinned pool shows weights and graphs alone
    if own.weights is not None:
        decided = replace(decided, weights=own.weights, weights_source=own.source, adapters=0)
    return decided if own.graphs is None else replace(decided, graphs=own.graphs)


def _estimate(demand: Demand, shown: Calibration | None) -> NonKv | None:
    weights = shown.weights if shown and shown.weights is not None else _rank_weights(demand)
    graphs = 0 if demand.enforce_eager else gib(fact("memory", "graphs_gib"))
    if shown and shown.graphs is not None:
        graphs = shown.graphs
    if shown and shown.non_kv is not None:
        # where a log says the sum alone, the weights are no more than a part of it
        weights = min(shown.non_kv, 0 if weights is None else weights)
        graphs = min(graphs, shown.non_kv - weights)
        runtime = around(shown.non_kv - weights - graphs, shown.tolerance).at_least(0)
        return NonKv(weights, runtime, graphs, shown.source, shown.source)
    if weights is None:
        return None
    less = more = _tolerance(demand)
    if demand.weights_bounds and not (shown and shown.weights is not None):
        low, high = (_of_rank(demand, bound) for bound in demand.weights_bounds)
        if demand.rank_weights:
            low, high = demand.rank_weights.low, demand.rank_weights.high
        less, more = less + weights - low, more + high - weights
    elif demand.ranks == 1 and demand.sized_by_utilization and not (shown and shown.weights is not None):
        more += int(weights * fact("memory", "weights_loaded_more"))
    if not demand.enforce_eager and not (shown and shown.graphs is not None):
        more += _graphs_of_many(demand)
    predicted = _predicted_runtime(demand)
    runtime = Interval(predicted - less, predicted, predicted + more).at_least(0)
    weights_source = shown.source if shown and shown.weights is not None else demand.weights_source
    return NonKv(weights, runtime, graphs, "predicted (docs/explanation/memory.md)", weights_source)


def _rank_weights(demand: Demand) -> int | None:
    if demand.rank_weights:
        return demand.rank_weights.expected
    return None if demand.weights_bytes is None else _of_rank(demand, demand.weights_bytes)


def _of_rank(demand: Demand, weights: int) -> int:
    """Norms, routers and the vision tower are held by every rank: without a config.json about 3 % more than its share
    (kv-sizing 8)."""
    if demand.ranks == 1:
        return weights
    if demand.weights_copied is None:
        return math.ceil(weights / demand.ranks * 1.03)
    return math.ceil((weights - demand.weights_copied) / demand.ranks) + demand.weights_copied


def _tolerance(demand: Demand) -> int:
    """How much less or more than predicted a rank may take."""
    name = "tolerance_formula_gib" if demand.activations is not None else "tolerance_gib"
    if demand.ranks > 1 or (demand.max_num_batched_tokens > _FEW_TOKENS and demand.activations is None):
        name = "tolerance_wide_gib"
    return gib(fact("memory", name))


def _graphs_of_many(demand: Demand) -> int:
    """What CUDA graphs may take beyond what those of few sequences do."""
    part = (demand.max_num_seqs - _FEW_SEQUENCES) / (_MANY_SEQUENCES - _FEW_SEQUENCES)
    return gib(fact("memory", "graphs_many_gib") * min(max(part, 0), 1))


def _predicted_runtime(demand: Demand) -> int:
    """The peak of the profiling pass, what a loader keeps, and what vLLM counts besides: on a memory that CPU and GPU
    share, what the engine's process itself grows by meanwhile."""
    parts = ["base_image_gib" if demand.takes_images and demand.ranks == 1 else "base_gib"]
    # engines that profile no batch are not known to grow by it
    parts += ["compile_gib"] if demand.max_num_batched_tokens and not demand.enforce_eager else []
    parts += ["drafter_gib"] if demand.reads_layers else []
    parts += ["instanttensor_gib"] if demand.load_format == "instanttensor" else []
    return _activations(demand) + sum(gib(fact("memory", part)) for part in parts)


def _activations(demand: Demand) -> int:
    if demand.activations is not None:
        return demand.activations
    activations = gib(fact("memory", "activation_gib"))
    activations += gib(demand.max_num_batched_tokens * fact("memory", "activation_mib_per_token") / 1024)
    return activations + demand.max_num_seqs * demand.vocab_size * 4


def slack(demand: Demand) -> Interval:
    """What large prefills take beyond the profiling pass, for good: allocator slack, buffers that the pass skips."""
    if not demand.max_num_batched_tokens:
        return NOTHING
    share = demand.max_num_batched_tokens / _FEW_TOKENS
    always, batch = fact("memory", "slack_gib"), fact("memory", "slack_batch_gib")
    found = Interval(*(gib(always[bound] + batch[bound] * share) for bound in ("low", "expected", "high")))
    drafts = fact_interval("slack_recurrent_drafter_gib") if demand.drafts_recurrent else NOTHING
    return found + demand.in_flight + drafts


def graphs_estimate(demand: Demand) -> Interval:
    """What the engine takes its CUDA graphs for while it sizes the pool; not what they take."""
    return fact_interval("graphs_estimate_gib") if demand.estimates_graphs else NOTHING


def reserve(desktop: bool) -> Interval:
    """What a host takes before any service starts."""
    return fact_interval("os_desktop_gib" if desktop else "os_gib")


def processes(demand: Demand) -> Interval:
    """The server's own processes, of several kinds that hold for it the larger figures."""
    if demand.own_processes is not None:
        return demand.own_processes
    kinds = ["processes_gib"]
    if demand.ranks > 1:
        kinds.append("processes_group_gib")
    if demand.ranks > 1 and demand.takes_images:
        kinds.append("processes_head_gib" if demand.head else "processes_worker_gib")
    if demand.flashinfer:
        kinds.append("processes_flashinfer_gib")
    each = [fact_interval(kind) for kind in kinds]
    return Interval(*(max(getattr(one, bound) for one in each) for bound in ("low", "expected", "high")))


def beside_engine(demand: Demand) -> Interval:
    """What a service takes beside what its utilization stands for."""
    return processes(demand) + slack(demand) + exactly(demand.offload)


# The option that a record of the non-KV part has to name.
BATCHED = "max-num-batched-tokens"

# --- what boots have shown -------------------------------------------------------------------------------------------


def published_calibration(
    records: Iterable[Mapping[str, Any]], ranks: int, flags: Mapping[str, Any], batched: str = BATCHED
) -> Calibration | None:
    """The recipe's own record (``memory.calibrations``) that is nearest to this launch, if it has one for these ranks.

    flags: the launch's. batched: the option for the batched tokens. The record's non-KV part counts only where all
    options that it names are the launch's, and it names the batched tokens, which decide most of it.
    """
    fitting = [record for record in records if record["hosts"] == ranks]
    for record in fitting:
        named = {"enforce-eager": False, **record["flags"]}
        same = all(flags.get(name, False) == value for name, value in named.items())
        if record["non_kv_gib"] is not None and batched in named and same:
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
