# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a service is slow, from what its hosts show now: one cause with its number, then what else was seen."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._base import worded
from ..._base.findings import Finding
from ..._base.place import Place
from ..._base.plan import Plan
from ..._base.reading import State
from ..._base.subject import DriftContext
from ..._engines.speed.served import expected_total, least_share
from ..._subjects.fabric.subject import FABRIC
from ..._subjects.health.subject import HEALTH
from .ranks import SERVING

# Of its clock, beside another rank's, of ranks so busy (%); of the KV pool; of the time that prompts take.
_SLOWER, _BUSY, _FULL, _MOST_PROMPTS = 0.85, 50, 0.9, 0.5
# What makes answers slow; any other illness of a machine is named after it.
_SLOWS = ("why-", "gpu-", "fabric-", "machine-hot", "kernel-warns")


def why(
    plan: Plan,
    name: str,
    ranks: Mapping[str, Sequence[Mapping[str, Any]]],
    states: Mapping[str, State],
    gateways: Mapping[str, Mapping[str, Any] | None],
    counts: Sequence[Mapping[str, float] | None],
) -> str:
    """The page. ranks: by host, of `rank_info`. states: by host, as a drift check reads them. gateways: by host, of
    `gateway_info`. counts: tokens of prompts and answers since its start, at two moments."""
    hosts = plan["services"][name]["hosts"]
    mine = {host: rank for host in hosts for rank in ranks.get(host, ()) if rank["service"] == name}
    head: Mapping[str, Any] = (mine.get(hosts[0]) or {}).get("supervisor") or {}
    causes = [*_not_serving(name, hosts, mine), *_machines(plan, hosts, states), *_uneven(hosts, states)]
    causes += [*_at_gateway(plan, name, gateways), *_load(plan, name, head, counts)]
    slow = [one for one in causes if one.rule.startswith(_SLOWS)] or [worded.hint("why-idle", Place(service=name))]
    first, *others = [one.sentence() for one in (*slow, *(one for one in causes if not one.rule.startswith(_SLOWS)))]
    return "\n".join([first, *(f"  also: {other}" for other in dict.fromkeys(others))])


def _not_serving(name: str, hosts: Sequence[str], mine: Mapping[str, Mapping[str, object]]) -> Iterator[Finding]:
    for number, host in enumerate(hosts):
        health = mine[host]["health"] if host in mine else "not read"
        if health != SERVING:
            yield worded.warning(
                "why-not-serving", Place(service=name), number=number, host=host, health=health, service=name
            )


def _machines(plan: Plan, hosts: Sequence[str], states: Mapping[str, State]) -> Iterator[Finding]:
    """Heat, low power and cables: what the checks of machines and links find on its hosts."""
    for host in hosts:
        if host in states:
            view = DriftContext(host, plan, states, [other for other in hosts if other not in states])
            found = [view.of_finding(one) for one in HEALTH.obstacles(view.look)]
            found += [one for one in FABRIC.differences(view) if isinstance(one, Finding) and len(hosts) > 1]
            yield from (one for one in found if one.severity != "hint")


def _uneven(hosts: Sequence[str], states: Mapping[str, State]) -> Iterator[Finding]:
    """A group goes at the pace of its slowest rank."""
    shown = {host: gpu.get("figures", {}) for host in hosts if host in states and (gpu := states[host]["gpu"])}
    clocks = {host: one.get("clock_mhz", 0) for host, one in shown.items() if one.get("use_percent", 0) >= _BUSY}
    fastest = max(clocks, key=lambda host: clocks[host], default="")
    for host, clock in clocks.items():
        if clock < _SLOWER * clocks[fastest]:
            yield worded.warning(
                "why-rank", Place(host=host), clock=f"{clock:.0f}", other=fastest, faster=f"{clocks[fastest]:.0f}"
            )


def _at_gateway(plan: Plan, name: str, gateways: Mapping[str, Mapping[str, Any] | None]) -> Iterator[Finding]:
    for host, read in gateways.items():
        for backend, servers in plan["hosts"][host]["gateway"].get("servers", {}).items():
            total = (((read or {}).get("servers") or {}).get(backend) or {}).get("BACKEND")
            if name in servers and total and total["waiting"]:
                running = total["running"] - total["waiting"]
                yield worded.warning(
                    "why-gateway", Place(service=name), waiting=total["waiting"], host=host, running=running
                )


def _load(
    plan: Plan, name: str, head: Mapping[str, float | None], counts: Sequence[Mapping[str, float] | None]
) -> Iterator[Finding]:
    """What the engine itself shows: a full pool, a queue, prompts, and the rate beside the forecast."""
    place, speed = Place(service=name), plan["services"][name]["speed"]
    running, waiting, use = (head.get(key) or 0 for key in ("running", "waiting", "kv_use"))
    rate, expected = head.get("tokens_per_s"), expected_total(speed, running, use)
    if waiting and use >= _FULL:
        yield worded.warning("why-pool", place, waiting=f"{waiting:.0f}", use=f"{use:.0%}")
    elif waiting:
        yield worded.warning("why-waits", place, waiting=f"{waiting:.0f}", running=f"{running:.0f}")
    before, after = counts if len(counts) == 2 else (None, None)
    if before and after and speed and running:
        prompted, answered = (after[key] - before[key] for key in ("prompted", "answered"))
        reading = prompted * speed["alone"]["ttft_s"] / speed["prompt"]
        share = reading / ((reading + answered / (expected or speed["alone"]["total"])) or 1)
        if share > _MOST_PROMPTS and prompted > 0 and answered >= 0:
            tokens = (f"{prompted:,.0f}", f"{answered:,.0f}")
            yield worded.warning("why-prompts", place, share=f"{share:.0%}", prompted=tokens[0], answered=tokens[1])
    if rate is None or not running:
        return
    pace, busy = f"{rate:.1f}", f"{running:.0f}"
    if speed is None or expected is None:
        yield worded.hint("why-rate", place, rate=pace, running=busy)
    elif rate < expected * least_share(speed, True):
        yield worded.hint("why-below", place, rate=pace, running=busy, about=f"{expected:.0f}")
    else:
        each = f"{rate / running:.1f}"
        yield worded.hint("why-as-expected", place, rate=pace, running=busy, each=each, about=f"{expected:.0f}")
