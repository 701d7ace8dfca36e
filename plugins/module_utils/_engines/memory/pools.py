# SPDX-License-Identifier: GPL-3.0-or-later
"""How large the KV pool of each service of a host is. All sizes are bytes of one rank.

A pool is as declared, or `least`: what its workload needs at once at full length, or `rest`: what is left above the
host's floor. One of which nothing is declared is `least` where that fits, else it shares the rest with the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..._base.gb10 import fact
from ..._base.sizes import gib
from .estimate import Demand, Interval, beside_engine, estimate, exactly


@dataclass(frozen=True)
class Pool:
    """A decided pool. gives_way: nothing was declared, and it is smaller than its workload needs. with_rest: the size
    that it would have as the only one to take what is left."""

    size: int
    gives_way: bool
    with_rest: int


@dataclass(frozen=True)
class _Range:
    """The sizes that a pool may have, and its part of what is shared out."""

    least: int
    most: int
    weight: int


def pools(demands: Sequence[Demand], total: int, reserve: Interval, agreed: Mapping[str, int]) -> dict[str, Pool]:
    """The pools of a host's services, by service; a service that isn't sized, or that is by a utilization, has none.

    reserve: what the host takes before any service starts. agreed: pools that are decided already, since another rank's
    host has no room for more.
    """
    room = _room(demands, total, reserve)
    free = min(room.expected, room.low + gib(fact("memory", "floor_gib")))
    sized = {demand.service: demand for demand in demands if _needs_pool(demand)}
    ranges = {name: _range(demand, total, agreed) for name, demand in sized.items()}
    undeclared = [name for name, demand in sized.items() if _is_open(demand) and name not in agreed]
    at_least = {name: _Range(one.most, one.most, 1) if name in undeclared else one for name, one in ranges.items()}
    whole = all(ranges[name].most == sized[name].kv_bytes for name in undeclared)
    if whole and sum(need.least for need in at_least.values()) <= room.expected:
        ranges = at_least
    sizes = _shared_out(free, ranges)
    spare = max(0, free - sum(sizes.values()))
    return {
        name: Pool(
            sizes[name],
            gives_way=_is_open(demand) and sizes[name] < (demand.kv_bytes or 0),
            with_rest=max(sizes[name], min(sizes[name] + spare, _bearable(demand, total))),
        )
        for name, demand in sized.items()
    }


def _needs_pool(demand: Demand) -> bool:
    if demand.sized_by_utilization or estimate(demand) is None:
        return False
    return bool(demand.kv_cache_memory_bytes or demand.kv_bytes)


def _is_open(demand: Demand) -> bool:
    """Whether nothing is declared of its pool."""
    return demand.kv_cache_memory_bytes is None and not demand.takes_rest


def _range(demand: Demand, total: int, agreed: Mapping[str, int]) -> _Range:
    fixed = agreed.get(demand.service, demand.kv_cache_memory_bytes)
    if fixed is not None:
        return _Range(fixed, fixed, 1)
    wanted = demand.kv_bytes or 0
    start = wanted if demand.kv_start is None else demand.kv_start
    most = _bearable(demand, total)
    return _Range(start, max(start, most if demand.takes_rest else min(wanted, most)), demand.pool_weight)


def _bearable(demand: Demand, total: int) -> int:
    """The pool with which the service stays below the utilization that hosts are known to bear."""
    non_kv = estimate(demand)
    return int(total * bearable_utilization(demand)) - (non_kv.total.expected if non_kv else 0)


def bearable_utilization(demand: Demand) -> float:
    """The utilization that a service of this kind is never sized beyond, unless its owner writes it."""
    if demand.limits[1] < 1:  # somebody has run this very recipe so
        return min(demand.limits[1], float(fact("limits", "utilization_froze")))
    bearable: float = fact("limits", "utilization" if demand.ranks == 1 else "utilization_group")
    if demand.load_format == "fastsafetensors":
        bearable = min(bearable, fact("limits", "utilization_fastsafetensors"))
    return bearable


def _room(demands: Sequence[Demand], total: int, reserve: Interval) -> Interval:
    """What the pools may take together above the floor. An unsized service counts for the weights that are known: it
    gets what the others leave."""
    taken = reserve + exactly(gib(fact("memory", "floor_gib")))
    for demand in demands:
        taken = taken + beside_engine(demand) + _beside_its_pool(demand, total)
    return total - taken


def _beside_its_pool(demand: Demand, total: int) -> Interval:
    non_kv = estimate(demand)
    if demand.sized_by_utilization:
        return exactly(demand.requested(total, demand.utilization or 0.0))
    return non_kv.total if non_kv else exactly(0)


def _shared_out(free: int, ranges: Mapping[str, _Range]) -> dict[str, int]:
    """Sizes within their ranges that come to ``free`` bytes as nearly as that goes, by weight."""

    def sizes(unit: int) -> dict[str, int]:
        return {name: min(max(unit * one.weight, one.least), one.most) for name, one in ranges.items()}

    low, high = 0, max(free, 0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(sizes(middle).values()) <= free:
            low = middle
        else:
            high = middle - 1
    return sizes(low)
