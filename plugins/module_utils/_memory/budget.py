# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The memory of one host, which CPU and GPU share, and who gets what of it. All sizes are bytes.

What vLLM does with ``--gpu-memory-utilization u`` on a total of T (v1/worker/gpu_worker.py; docs/memory.md):

* start check: refuses to start unless ceil(T x u) is free (truncated up to 0.13). Free is MemAvailable on a GB10 since
  0.11.1 (psutil's, for compute capability 12.1); before that page cache counted as used. The check holds with
  ``--kv-cache-memory-bytes`` too.
* KV pool: ceil(T x u) - C, where C is what the profiling pass measures: weights + activations + everything that grew
  meanwhile, since 0.21 also an estimate of the CUDA graphs. With ``--kv-cache-memory-bytes n`` the pool is n, whatever
  C is.

C can't be known better than about 2 GiB before a first boot, and a neighbour that starts at the same time enters it. So
a declared workload is met with ``--kv-cache-memory-bytes``, exact in every release, and the utilization is set to what
the service takes at most, so that vLLM itself refuses to start where the memory isn't there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.version import Version
from ansible_collections.gb10.fleet.plugins.module_utils._findings import Finding, error, ordered, warning
from ansible_collections.gb10.fleet.plugins.module_utils._gb10 import fact
from ansible_collections.gb10.fleet.plugins.module_utils._memory.estimate import (
    NOTHING,
    Demand,
    Interval,
    NonKv,
    estimate,
    exactly,
    fact_interval,
    known,
)
from ansible_collections.gb10.fleet.plugins.module_utils._sizes import gib, size

_CONSTANTS = "data/gb10.yml"


@dataclass(frozen=True)
class Share:
    """A service's part of its host: what is decided, and what is known of the rest.

    Decided, and the same whatever a boot has shown: utilization, kv_cache_memory_bytes (None where the pool follows
    from the utilization), reasons of both, footprint: all that it is planned to take, its processes included.
    Known, by its own boot where there was one: non_kv and kv_pool (None where the weights aren't known), taken: like
    footprint. pool_source: what the pool's size comes from.
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


@dataclass(frozen=True)
class Budget:
    """One host: its total, what the system takes, every service's share, what is left when all run."""

    total: int
    reserve: Interval
    shares: Mapping[str, Share]
    left: Interval
    findings: Sequence[Finding]

    def lines(self, service: str) -> dict[str, dict[str, Any]]:
        """The budget as one service sees it, by line: {low, expected, high, source}; see docs/memory.md for the lines.

        The lines add up to the total, save that a pool sized by utilization shrinks where the runtime grows.
        """
        share = self.shares[service]
        others = [other.taken for name, other in self.shares.items() if name != service]
        rows = {
            "processes": (fact_interval("processes_gib"), _CONSTANTS),
            "reserve": (self.reserve, _CONSTANTS),
            "co_tenants": (sum(others, NOTHING), "their own budgets" if others else "no other service"),
            "left": (self.left, "the rest"),
        }
        if share.non_kv is not None:
            rows["weights"] = (exactly(share.non_kv.weights), share.non_kv.weights_source)
            rows["runtime"] = (share.non_kv.runtime, share.non_kv.source)
            rows["graphs"] = (exactly(share.non_kv.graphs), share.non_kv.source)
        if share.kv_pool is not None:
            rows["kv_pool"] = (share.kv_pool, share.pool_source)
        return {name: {**asdict(rows[name][0]), "source": rows[name][1]} for name in sorted(rows)}


def plan_host(host: str, total: int, demands: Sequence[Demand]) -> Budget:
    """Decide the memory of all services of one host together; what doesn't fit is a finding, never an exception."""
    reserve = fact_interval("os_gib")
    alone = {demand.service: _decide(demand, total, total - reserve.high) for demand in demands}
    shares: dict[str, Share] = {}
    findings: list[Finding] = []
    for demand in demands:
        others = sum((alone[name].footprint.high for name in alone if name != demand.service), 0)
        share = _share(demand, total, _decide(demand, total, total - reserve.high - others))
        shares[demand.service] = share
        findings += _share_findings(demand, share, total, total - reserve.expected - others)
        if len(demands) > 1 and share.kv_cache_memory_bytes is None and demand.kv_bytes != 0:
            findings.append(_shared_profile(demand, host))
    blind = [demand for demand in demands if _is_blind(demand)]
    findings += [_crowded(demand, host) for demand in blind if len(blind) > 1]
    left = total - sum((share.taken for share in shares.values()), reserve)
    findings += _host_findings(host, total, shares, left)
    return Budget(total, reserve, shares, left, ordered(findings))


def requested_bytes(total: int, utilization: float, release: Version | None) -> int:
    """What a utilization means: the bytes that must be free at the start, and that the pool is cut from."""
    return math.ceil(total * utilization) if release is None or release.since("0.14") else int(total * utilization)


@dataclass(frozen=True)
class _Decision:
    """The memory options of one service; pinned is None where the pool follows from the utilization."""

    utilization: float
    pinned: int | None
    footprint: Interval
    reasons: Mapping[str, str]


def _decide(demand: Demand, total: int, available: int) -> _Decision:
    """Decide for one service when ``available`` bytes of the host are neither the system's nor another service's."""
    non_kv, pinned = estimate(demand), demand.kv_cache_memory_bytes
    if demand.utilization is not None:
        return _Decision(demand.utilization, pinned, _taken(demand, total, demand.utilization, pinned, non_kv), {})
    wanted = demand.kv_bytes if pinned is None else pinned
    if non_kv is None or wanted is None:
        utilization = _all_that_is_free(demand, total, available)
        why = {"gpu-memory-utilization": "the size of weights or KV pool isn't known: all that is free, within limits"}
        return _Decision(utilization, pinned, _taken(demand, total, utilization, None, None), why)
    most = (non_kv.total + exactly(wanted)).high
    free = available - fact_interval("processes_gib").high
    # what the others may take at most is not what they do: never less than it is expected to need itself
    least = (non_kv.total + exactly(wanted)).expected
    utilization = min(_ratio_up(most, total), max(_ratio_down(free, total), _ratio_up(least, total)))
    utilization = min(max(utilization, demand.limits[0]), demand.limits[1])
    reason = f"what it takes at most, {size(most)}, must be free at the start"
    if free < most:
        beside = "what the system and other services leave"
        reason = f"of the {size(most)} that it takes at most, {beside}; at least {size(least)}"
    reasons = {"gpu-memory-utilization": reason}
    if wanted and pinned is None:
        reasons["kv-cache-memory-bytes"] = "the least pool that holds the workload"
    # vLLM takes 0 for not given; a model without KV cache needs no pool anyway
    return _Decision(utilization, wanted or None, _taken(demand, total, utilization, wanted, non_kv), reasons)


def _all_that_is_free(demand: Demand, total: int, available: int) -> float:
    """Without the weights' or the pool's size: all that is free, up to the limit that hosts are known to bear."""
    bearable = [demand.limits[1], fact("limits", "utilization" if demand.ranks == 1 else "utilization_group")]
    if demand.load_format == "fastsafetensors":
        bearable.append(fact("limits", "utilization_fastsafetensors"))
    most: float = min(*bearable, _ratio_down(available - fact_interval("processes_gib").high, total))
    return max(0.0, most)


def _taken(demand: Demand, total: int, utilization: float, pool: int | None, non_kv: NonKv | None) -> Interval:
    """All that a service takes: what its utilization stands for, or weights, runtime and a pool of a given size."""
    if pool is not None and non_kv is not None:
        vllm = non_kv.total + exactly(pool)
    else:
        vllm = exactly(requested_bytes(total, utilization, demand.release))
    return vllm + fact_interval("processes_gib")


def _share(demand: Demand, total: int, decided: _Decision) -> Share:
    """The decision, and what it comes to as far as it is known."""
    non_kv = known(demand)
    pool = decided.pinned
    if pool is None and demand.utilization is None and demand.kv_bytes == 0:
        pool = 0
    if pool is not None:
        kv_pool: Interval | None = exactly(pool)
    else:
        requested = requested_bytes(total, decided.utilization, demand.release)
        kv_pool = (requested - non_kv.total).at_least(0) if non_kv else None
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
    )


def _pool_source(demand: Demand, decided: _Decision, pool: int | None) -> str:
    if pool is None:
        return f"what a utilization of {decided.utilization:g} leaves"
    if demand.kv_cache_memory_bytes is not None:
        return "kv-cache-memory-bytes, as written"
    return "the workload" if pool else "the model has no KV cache"


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
        yield warning(
            "memory-weights-unknown",
            demand.place,
            found="the size of the weights isn't known, so that no memory can be planned for them",
            expected="model.weights_bytes, a calibration in the recipe, or staged weights",
            remedy="stage the weights first, or write model.weights_bytes",
            source="docs/memory.md",
            kind="memory",
        )
        return
    yield from _boot_differs(demand, share.non_kv)
    if demand.utilization is not None and demand.kv_cache_memory_bytes is None:
        yield from _written_utilization(demand, share, share.non_kv, total)
    extra = gib(fact("limits", "eager_load_extra_gib")) if demand.load_strategy == "eager" else 0
    if extra and share.non_kv.weights + extra > free:
        yield error(
            "memory-load-peak",
            f"{demand.place}.flags.safetensors-load-strategy",
            found=f"eager loading needs {size(share.non_kv.weights + extra)} for a while, {size(free)} are free",
            expected="a load that fits beside what already runs",
            remedy='write "safetensors-load-strategy: lazy"',
            source="docs/memory.md",
            kind="memory",
        )


def _boot_differs(demand: Demand, shown: NonKv) -> Iterator[Finding]:
    """A boot that took more than it was planned to: the start check covers less than it should."""
    planned = estimate(demand)
    if demand.observed and planned and shown.total.expected > planned.total.high:
        yield warning(
            "memory-boot-differs",
            demand.place,
            found=f"{size(shown.total.expected)} beside the KV pool, {shown.source}",
            expected=f"{size(planned.total.high)} at most ({planned.source})",
            remedy="write what the boot has shown into memory.calibrations of a recipe of your own (docs/memory.md)",
            source="docs/memory.md",
            kind="memory",
        )


def _written_utilization(demand: Demand, share: Share, non_kv: NonKv, total: int) -> Iterator[Finding]:
    """A utilization that the owner wrote must cover the weights and runtime, and should hold the workload."""
    requested = requested_bytes(total, share.utilization, demand.release)
    place = f"{demand.place}.flags.gpu-memory-utilization"
    needed = size(non_kv.total.expected)
    found = f"{share.utilization} of {size(total)} is {size(requested)}; weights and runtime take {needed}"
    least = _ratio_up(non_kv.total.high + (demand.kv_bytes or 0), total)
    remedy = f"write at least {least}, or take it out and have it computed from the workload"
    if requested <= non_kv.total.high:
        judged = error if requested <= non_kv.total.expected else warning
        yield judged(
            "memory-utilization-too-low",
            place,
            found=found,
            expected="room for a KV pool",
            remedy=remedy,
            source="docs/memory.md",
            kind="memory",
        )
    elif demand.kv_bytes and requested - non_kv.total.expected < demand.kv_bytes:
        pool = f"{found}, and leave {size(requested - non_kv.total.expected)} for the KV pool"
        yield warning(
            "memory-pool-too-small",
            place,
            found=pool,
            expected=f"{size(demand.kv_bytes)} for the workload",
            remedy=remedy,
            source="docs/memory.md",
            kind="memory",
        )


def _shared_profile(demand: Demand, host: str) -> Finding:
    return warning(
        "memory-shared-profile",
        f"{demand.place}.flags.gpu-memory-utilization",
        found=f"the KV pool is what profiling leaves, on {host}, where other services start as well",
        expected="a pool that a neighbour's start doesn't change",
        remedy="take gpu-memory-utilization out, so that the workload decides, or write kv-cache-memory-bytes",
        source="docs/memory.md",
        kind="memory",
    )


def _crowded(demand: Demand, host: str) -> Finding:
    return error(
        "memory-crowded",
        demand.place,
        found=f"on {host} stands another service too whose weights or KV pool have no known size",
        expected="one such service a host at most, since it gets all that is free",
        remedy="stage the weights first, write model.weights_bytes, or write gpu-memory-utilization for one of them",
        source="docs/memory.md",
        kind="memory",
    )


def _host_findings(host: str, total: int, shares: Mapping[str, Share], left: Interval) -> Iterator[Finding]:
    floor = gib(fact("memory", "floor_gib"))
    taken = ", ".join(f"{name} {size(share.taken.expected)}" for name, share in sorted(shares.items()))
    expected = f"at least {size(floor)} of {size(total)} left"
    remedy = "lower max_model_len or max_num_seqs, or put a service on another host"
    if left.expected < 0:
        found = f"{size(-left.expected)} too little ({taken})"
        yield error(
            "memory-does-not-fit",
            host,
            found=found,
            expected=expected,
            remedy=remedy,
            source="docs/memory.md",
            kind="memory",
        )
    elif left.expected < floor or left.low < 0:
        found = f"{size(left.expected)} left, between {size(left.low)} and {size(left.high)} ({taken})"
        yield warning(
            "memory-tight", host, found=found, expected=expected, remedy=remedy, source="docs/memory.md", kind="memory"
        )
