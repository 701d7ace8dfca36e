# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory of one host, which CPU and GPU share, and who gets what of it. All sizes are bytes.

What vLLM does with ``--gpu-memory-utilization u`` on a total of T (gpu_worker.py; docs/explanation/memory.md):

* start check: refuses to start unless ceil(T x u) is free (truncated up to 0.13). Free is MemAvailable on a GB10 since
  0.11.1 (psutil's, for compute capability 12.1); before that page cache counted as used. The check holds with
  ``--kv-cache-memory-bytes`` too.
* KV pool: ceil(T x u) - C, where C is what the profiling pass measures: weights + activations + everything that grew
  meanwhile. From 0.20 on it also takes an estimate of the CUDA graphs off, which on a GB10 is wrong by tens of GiB to
  either side; the plan turns that off (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS). With ``--kv-cache-memory-bytes n``
  the pool is n, whatever C is.

C can't be known better than about 2 GiB before a first boot, and a neighbour that starts at the same time enters it. So
a declared workload is met with ``--kv-cache-memory-bytes``, exact in every release, and the utilization is set to what
the service takes at most, so that vLLM itself refuses to start where the memory isn't there.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, memory_error, memory_hint, memory_warning, ordered
from ..._base.gb10 import fact
from ..._base.place import Place
from ..._base.sizes import gib, size
from .estimate import (
    NOTHING,
    Demand,
    Interval,
    NonKv,
    beside_engine,
    estimate,
    exactly,
    graphs_estimate,
    known,
    processes,
    reserve,
    slack,
)
from .pools import Pool, bearable_utilization, pools

_CONSTANTS = "data/gb10.yml"
error, warning, hint = (
    partial(build, source="docs/explanation/memory.md") for build in (memory_error, memory_warning, memory_hint)
)


@dataclass(frozen=True)
class Share:
    """A service's part of its host: what is decided, and what is known of the rest.

    Decided, and the same whatever a boot has shown: utilization, kv_cache_memory_bytes (None where the pool follows
    from the utilization), reasons of both, footprint: all that it is planned to take, its processes included.
    Known, by its own boot where there was one: non_kv and kv_pool (None where the weights aren't known), taken: like
    footprint. pool_source: what the pool's size comes from. workload_bytes: the pool that would hold the workload,
    where nobody declared less; enough: the utilization for it. with_rest: the pool with all that is left, or None.
    total: the host's bytes. free: those of them that neither the system nor other services take at the most.
    """

    service: str
    utilization: float
    kv_cache_memory_bytes: int | None
    reasons: Mapping[str, str]
    footprint: Interval
    non_kv: NonKv | None
    kv_pool: Interval | None
    taken: Interval
    pool_source: str
    workload_bytes: int | None = None
    enough: float | None = None
    with_rest: int | None = None
    total: int = 0
    free: int = 0
    slack: Interval = NOTHING
    processes: Interval = NOTHING
    offload: int = 0
    on_disk: str = ""


@dataclass(frozen=True)
class Budget:
    """One host: its total, what the system takes (of it kept_free, which its kernel never gives), every service's
    share, what is left when all run."""

    total: int
    reserve: Interval
    shares: Mapping[str, Share]
    left: Interval
    findings: Sequence[Finding]
    kept_free: int = 0

    @property
    def planned_left(self) -> int:
        """What is expected to be left by what was decided alone, whatever boots have shown; less than 0: too little."""
        return self.total - self.reserve.expected - sum(share.footprint.expected for share in self.shares.values())

    def lines(self, service: str) -> dict[str, dict[str, Any]]:
        """The budget as one service sees it, by line: {low, expected, high, source} (docs/explanation/memory.md).

        The lines add up to the total, save that a pool sized by utilization shrinks where the runtime grows.
        """
        share = self.shares[service]
        others = [other.taken for name, other in self.shares.items() if name != service]
        rows = {
            "processes": (share.processes, _CONSTANTS),
            "slack": (share.slack, _CONSTANTS),
            "reserve": (self.reserve + exactly(-self.kept_free), _CONSTANTS),
            "co_tenants": (sum(others, NOTHING), "their own budgets" if others else "no other service"),
            "left": (self.left, "the rest"),
        }
        if self.kept_free:
            rows["kept_free"] = (exactly(self.kept_free), "host_tuning.sysctl, vm.min_free_kbytes")
        if share.offload:
            rows["offload"] = (exactly(share.offload), "options that keep data in the host's memory")
        if share.on_disk:
            rows["on_disk"] = (NOTHING, share.on_disk)
        if share.non_kv is not None:
            rows["weights"] = (exactly(share.non_kv.weights), share.non_kv.weights_source)
            if share.non_kv.adapters:
                rows["adapters"] = (exactly(share.non_kv.adapters), "enable-lora, its places and rank")
            rows["runtime"] = (share.non_kv.runtime, share.non_kv.source)
            rows["graphs"] = (exactly(share.non_kv.graphs), share.non_kv.source)
        if share.kv_pool is not None:
            rows["kv_pool"] = (share.kv_pool, share.pool_source)
        return {name: {**asdict(rows[name][0]), "source": rows[name][1]} for name in sorted(rows)}


def plan_hosts(
    totals: Mapping[str, int],
    demands: Mapping[str, Sequence[Demand]],
    desktops: Collection[str] = (),
    kept: Mapping[str, int] | None = None,
) -> dict[str, Budget]:
    """Decide the memory of all hosts; of a service on several, all ranks have the pool that the fullest host has room
    for. totals, demands: by host. desktops: the hosts that have one. kept: bytes that a host's kernel keeps free."""
    free = {host: (kept or {}).get(host, 0) for host in demands}
    systems = {host: reserve(host in desktops) + exactly(free[host]) for host in demands}
    decided = {host: pools(here, totals[host], systems[host], {}) for host, here in demands.items()}
    agreed: dict[str, int] = {}
    for host, here in demands.items():
        for service in (rank.service for rank in here if rank.ranks > 1 and rank.service in decided[host]):
            agreed[service] = min(decided[host][service].size, agreed.get(service, decided[host][service].size))
    for host in (host for host, pool in decided.items() if agreed.keys() & pool):
        decided[host] = pools(demands[host], totals[host], systems[host], agreed)
    return {
        host: plan_host(host, totals[host], here, decided[host], host in desktops, free[host])
        for host, here in demands.items()
    }


def plan_host(
    host: str,
    total: int,
    demands: Sequence[Demand],
    decided: Mapping[str, Pool] | None = None,
    desktop: bool = False,
    kept: int = 0,
) -> Budget:
    """Decide the memory of all services of one host together; what doesn't fit is a finding, never an exception.

    decided: the pools, where services have ranks on other hosts too. desktop: whether the host has one. kept:
    bytes that its kernel keeps free.
    """
    system = reserve(desktop) + exactly(kept)
    floor = gib(fact("memory", "floor_gib"))
    decided = pools(demands, total, system, {}) if decided is None else decided
    alone = {one.service: _decide(one, total, total - system.high, decided.get(one.service)) for one in demands}
    shares: dict[str, Share] = {}
    findings: list[Finding] = []
    for demand in demands:
        others = sum((alone[name].footprint for name in alone if name != demand.service), NOTHING)
        available = total - system.high - others.high
        if _is_blind(demand):
            available = min(available, total - system.expected - others.expected - floor)
        share = _share(demand, total, available, _decide(demand, total, available, decided.get(demand.service)))
        shares[demand.service] = share
        findings += _share_findings(demand, share, total, total - system.expected - others.high)
        if len(demands) > 1 and share.kv_cache_memory_bytes is None and demand.kv_bytes != 0:
            findings.append(_shared_profile(demand, host))
    short = {name for name, pool in decided.items() if pool.gives_way}
    blind = [demand for demand in demands if _is_blind(demand) or demand.takes_rest or demand.service in short]
    if any(map(_is_blind, blind)):
        findings += [_crowded(demand, host) for demand in blind if len(blind) > 1]
    left = total - sum((share.taken for share in shares.values()), system)
    findings += _host_findings(host, total, demands, shares, left)
    return Budget(total, system, shares, left, ordered(findings), kept)


@dataclass(frozen=True)
class _Decision:
    """The memory options of one service; pool is None where it follows from the utilization."""

    utilization: float
    pool: Pool | None
    footprint: Interval
    reasons: Mapping[str, str]

    @property
    def pinned(self) -> int | None:
        return self.pool.size if self.pool else None


def _decide(demand: Demand, total: int, available: int, pool: Pool | None) -> _Decision:
    """Decide for one service when ``available`` bytes of the host are neither the system's nor another service's."""
    non_kv, pinned = estimate(demand), demand.kv_cache_memory_bytes
    pool = pool or (None if pinned is None else Pool(pinned, gives_way=False, with_rest=pinned))
    if demand.utilization is not None:
        taken = _taken(demand, total, demand.utilization, pool.size if pool else None, non_kv)
        return _Decision(demand.utilization, pool, taken, {})
    wanted = pool.size if pool else demand.kv_bytes
    if non_kv is None or wanted is None:
        utilization = _all_that_is_free(demand, total, available)
        why = {"gpu-memory-utilization": "the size of weights or KV pool isn't known: all that is free, within limits"}
        return _Decision(utilization, pool, _taken(demand, total, utilization, None, None), why)
    most = (non_kv.total + exactly(wanted)).high
    free = available - beside_engine(demand).high
    # what the others may take at most is not what they do: never less than it is expected to need itself
    least = (non_kv.total + exactly(wanted)).expected
    utilization = min(_ratio_up(most, total), max(_ratio_down(free, total), _ratio_up(least, total)))
    if least <= int(total * bearable_utilization(demand)):
        utilization = min(utilization, bearable_utilization(demand))
    utilization = min(max(utilization, demand.limits[0]), demand.limits[1])
    reason = f"what it takes at most, {size(most)}, must be free at the start"
    if free < most:
        beside = "what the system and other services leave"
        reason = f"of the {size(most)} that it takes at most, {beside}; at least {size(least)}"
    reasons = {"gpu-memory-utilization": reason}
    if pool:
        reasons["kv-cache-memory-bytes"] = _pool_reason(demand, pool)
    return _Decision(utilization, pool, _taken(demand, total, utilization, wanted, non_kv), reasons)


def _pool_reason(demand: Demand, pool: Pool) -> str:
    if demand.takes_rest or pool.gives_way:
        return "what is left above the host's floor"
    if demand.kv_cache_memory_bytes is not None:
        return "as declared"
    return "the least pool that holds the workload"


def _all_that_is_free(demand: Demand, total: int, available: int) -> float:
    """Without the weights' or the pool's size: all that is free, up to the limit that hosts are known to bear; where
    somebody has run this very recipe with a share, what it needs comes before what may be taken beside it."""
    beside, non_kv = beside_engine(demand), estimate(demand)
    free = available - beside.high
    if demand.limits[1] < 1 and non_kv and free <= non_kv.total.high:
        free = available - beside.expected
    return max(0.0, min(bearable_utilization(demand), _ratio_down(free, total)))


def _taken(demand: Demand, total: int, utilization: float, pool: int | None, non_kv: NonKv | None) -> Interval:
    """All that a service takes: what its utilization stands for, or weights, runtime and a pool of a given size."""
    if pool is not None and non_kv is not None:
        vllm = non_kv.total + exactly(pool)
    else:
        vllm = exactly(demand.requested(total, utilization))
    return vllm + beside_engine(demand)


def _share(demand: Demand, total: int, available: int, decided: _Decision) -> Share:
    """The decision, and what it comes to as far as it is known."""
    non_kv = known(demand)
    pool = decided.pinned
    if pool is None and demand.utilization is None and demand.kv_bytes == 0:
        pool = 0
    if pool is not None:
        kv_pool: Interval | None = exactly(pool)
    else:
        requested = demand.requested(total, decided.utilization)
        kv_pool = (requested - (non_kv.total + graphs_estimate(demand))).at_least(0) if non_kv else None
    taken = _taken(demand, total, decided.utilization, pool, non_kv)
    return Share(
        demand.service,
        decided.utilization,
        decided.pinned,
        decided.reasons,
        decided.footprint,
        non_kv,
        kv_pool,
        taken,
        _pool_source(demand, decided, pool),
        workload_bytes=_wanted_pool(demand, decided, kv_pool),
        enough=_enough(demand, non_kv, total),
        with_rest=decided.pool.with_rest if decided.pool and not demand.takes_rest else None,
        total=total,
        free=available,
        slack=slack(demand),
        processes=processes(demand),
        offload=demand.offload,
        on_disk=demand.on_disk,
    )


def _wanted_pool(demand: Demand, decided: _Decision, pool: Interval | None) -> int | None:
    """The pool that the workload needs, where it has a smaller one that nobody declared to be smaller."""
    if not demand.kv_bytes or demand.takes_rest or pool is None or pool.expected >= demand.kv_bytes:
        return None
    return demand.kv_bytes if demand.sized_by_utilization or (decided.pool and decided.pool.gives_way) else None


def _enough(demand: Demand, non_kv: NonKv | None, total: int) -> float | None:
    """The utilization that would hold the workload, where a host bears it."""
    if non_kv is None or not demand.sized_by_utilization:
        return None
    enough = _ratio_up(non_kv.total.high + (demand.kv_bytes or 0), total)
    return enough if enough <= bearable_utilization(demand) else None


def _pool_source(demand: Demand, decided: _Decision, pool: int | None) -> str:
    if pool is None:
        return f"what a utilization of {decided.utilization:g} leaves"
    if decided.pool is None:
        return "the model has no KV cache"
    if demand.kv_cache_memory_bytes is not None:
        return "as declared"
    return "what is left above the floor" if demand.takes_rest or decided.pool.gives_way else "the workload"


def _is_blind(demand: Demand) -> bool:
    """Whether it gets all that is free, for want of a size."""
    pool = demand.kv_cache_memory_bytes if demand.kv_cache_memory_bytes is not None else demand.kv_bytes
    return demand.utilization is None and (pool is None or estimate(demand) is None)


def _ratio_up(size: int, total: int) -> float:
    return -(-size * 10_000 // total) / 10_000


def _ratio_down(size: int, total: int) -> float:
    return size * 10_000 // total / 10_000


def _share_findings(demand: Demand, share: Share, total: int, free: int) -> Iterator[Finding]:
    """What is wrong with one service's share; ``free``: bytes that the system and the other services leave."""
    if share.non_kv is None:
        weights_files = demand.weights_files
        yield worded.memory_warning("memory-weights-unknown", demand.place, weights_files=weights_files)
        return
    if share.non_kv.weights_source == demand.weights_source and demand.weights_bounds:
        low, high = (size(bound) for bound in demand.weights_bounds)
        found = f"about {size(demand.weights_bytes or 0)} of weights, between {low} and {high}: {demand.weights_source}"
        yield worded.memory_hint("memory-weights-estimated", demand.place, found=found)
    yield from _boot_differs(demand, share.non_kv)
    # without a cache nothing is cut from it; one of a known size is pinned
    is_cut = demand.kv_bytes is None or (demand.utilization is not None and demand.kv_bytes > 0)
    if demand.kv_cache_memory_bytes is None and is_cut:
        yield from _utilization_too_low(demand, share, share.non_kv, total)
    extra = gib(fact("limits", "eager_load_extra_gib")) if demand.load_strategy == "eager" else 0
    if extra and share.non_kv.weights + extra > free:
        found = f"eager loading needs {size(share.non_kv.weights + extra)} for a while, {size(free)} are free"
        yield worded.memory_error(
            "memory-load-peak", demand.place.below("flags", "safetensors-load-strategy"), found=found
        )


def _boot_differs(demand: Demand, shown: NonKv) -> Iterator[Finding]:
    """A boot that took more than it was planned to: the start check covers less than it should."""
    planned = estimate(demand)
    if demand.observed and planned and shown.total.expected > planned.total.high:
        found = f"{size(shown.total.expected)} beside the KV pool, {shown.source}"
        expected = f"{size(planned.total.high)} at most ({planned.source})"
        yield worded.memory_warning("memory-boot-differs", demand.place, found=found, expected=expected)


def _utilization_too_low(demand: Demand, share: Share, non_kv: NonKv, total: int) -> Iterator[Finding]:
    """What the pool is cut from, as the owner wrote it or as all that is free, must cover weights and runtime."""
    requested = demand.requested(total, share.utilization)
    otherwise = "write image.release and model.config, so that the workload sizes the pool"
    place, remedy = demand.place, next(_on_more(demand), otherwise)
    if demand.utilization is not None:
        place = demand.place.below("flags", demand.share_option)
        remedy = "take it out, and have it computed from the workload"
        if share.enough is not None:
            remedy = f"write at least {share.enough}, or {remedy}"
    if requested <= non_kv.total.high:
        judged = error if requested <= _at_least(demand, non_kv) else warning
        yield judged(
            "memory-utilization-too-low",
            place,
            found=f"{share.utilization} of {size(total)} is {size(requested)}; weights and runtime take "
            f"{size(non_kv.total.expected)}",
            expected="room for a KV pool",
            remedy=remedy,
        )


def _on_more(demand: Demand) -> Iterator[str]:
    """The remedy where others run the model on more hosts."""
    for count in [count for count in demand.proven_on if count > demand.ranks][:1]:
        yield f"name {count} hosts in {demand.service}, on which its recipe runs"


def _at_least(demand: Demand, non_kv: NonKv) -> int:
    """What weights and runtime surely take: an estimate of weights proves no more than its lower bound."""
    if demand.weights_bounds is None or not demand.weights_bytes:
        return non_kv.total.expected
    return non_kv.total.low - round(non_kv.weights * (1 - demand.weights_bounds[0] / demand.weights_bytes))


def _shared_profile(demand: Demand, host: str) -> Finding:
    remedy = f"take {demand.share_option} out, so that the workload decides, or write {demand.pool_option}"
    at = demand.place.below("flags", demand.share_option)
    return worded.memory_warning("memory-shared-profile", at, remedy=remedy, host=host)


def _crowded(demand: Demand, host: str) -> Finding:
    share_option = demand.share_option
    return worded.memory_error("memory-crowded", demand.place, host=host, share_option=share_option)


def _host_findings(
    host: str, total: int, demands: Sequence[Demand], shares: Mapping[str, Share], left: Interval
) -> Iterator[Finding]:
    floor = gib(fact("memory", "floor_gib"))
    taken = ", ".join(f"{name} {size(share.taken.expected)}" for name, share in sorted(shares.items()))
    remedy = "; ".join([*_smaller(demands, shares, -left.expected), "put a service on another host"])
    expected = f"at least {size(floor)} of {size(total)} left"
    starved = [name for name, share in sorted(shares.items()) if share.workload_bytes and share.offload]
    stores = sum(shares[name].offload for name in starved)
    found = f"{size(-left.expected)} too little ({taken})"
    # a cache beside the pool is worth nothing where it takes what pool and host need
    starves = 0 <= left.expected < floor <= left.expected + stores
    if starves:
        found = f"{size(left.expected)} left ({taken}), of which {size(stores)} are caches that options keep in the "
        found += "host's memory"
        remedy = f"make that cache of {' and '.join(starved)} smaller by {size(floor - left.low)}, or take it out"
    if left.expected < 0 and (proof := _proof(total, demands, shares, left)):
        remedy = f"write model.weights_bytes ({demands[0].weights_files}), so that the plan knows"
        yield warning("memory-tight", Place(host=host), found=f"{found}, {proof}", expected=expected, remedy=remedy)
    elif starves or left.expected < 0:
        yield error("memory-does-not-fit", Place(host=host), found=found, expected=expected, remedy=remedy)
    elif left.expected < floor or left.low < 0:
        yield warning(
            "memory-tight",
            Place(host=host),
            found=f"{size(left.expected)} left, between {size(left.low)} and {size(left.high)} ({taken})",
            expected=f"{expected}, and nothing missing where all takes the most",
            remedy=remedy,
        )


def _proof(total: int, demands: Sequence[Demand], shares: Mapping[str, Share], left: Interval) -> str:
    """Who ran what does not fit by an estimate: the one service of a usual host, with a pool no larger than his, whose
    weights nobody has read, and would fit by their lower bound. Empty where nobody did."""
    if len(demands) != 1 or total < fact("hardware", "memory_total_kib") * 1024:
        return ""
    [demand] = demands
    if demand.proven is None or demand.weights_bounds is None:
        return ""
    pool, source = demand.proven
    fits = left.high >= gib(fact("memory", "floor_gib")) and (shares[demand.service].kv_cache_memory_bytes or 0) <= pool
    words = f"by an estimate of the weights, but {source}, ran it on so many hosts with a pool of {size(pool)}"
    return words if fits else ""


def _smaller(demands: Sequence[Demand], shares: Mapping[str, Share], missing: int) -> Iterator[str]:
    """What would take less of a host: one clause for each way, with the services that it holds for. missing: bytes."""
    written = [demand for demand in demands if demand.utilization is not None]
    blind = sorted(demand.service for demand in demands if _is_blind(demand))
    pooled = sorted(demand.service for demand in demands if shares[demand.service].kv_cache_memory_bytes)
    for option in sorted({demand.share_option for demand in written}):
        of = sorted(demand.service for demand in written if demand.share_option == option)
        yield f"take {option} out of {' and '.join(of)}, so that the plan sizes it"
    if blind:
        yield f"let the plan size {' and '.join(blind)}: model.config and model.weights_bytes (docs/how-to/recipes.md)"
    if pooled and sum(shares[name].kv_cache_memory_bytes or 0 for name in pooled) < missing:
        yield f"no pool of {' or '.join(pooled)} is small enough for that: take a smaller model, or fewer bits a weight"
    elif pooled:
        yield f"lower max_model_len, max_num_seqs or pool of {' or '.join(pooled)}"
    for demand in demands:
        yield from _on_more(demand)
