# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts are updated when, what serves meanwhile, and what happens next on a host whose update was cut off.

Decided: ranks of one group are down together anyway, since none answers without the others. So its service is stopped
once; its hosts are updated one after the other while it is, each proves itself alone (it boots, kernel, driver, GPU)
before the next is touched, and then the group starts and proves itself as a whole. Never are two of its hosts changed
or restarting at once, never does a group compute on hosts that differ, and nobody waits for more than one load of the
model. It costs the restarts one after the other; ``together`` has them at once, and risks all hosts of the group.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..._base.plan import Plan

Next = Literal["begin", "install", "restart", "prove", "put back"]
_SERVING = "serving"


def next_of(record: Mapping[str, object] | None, boot_id: str) -> Next:
    """What a host needs by its record; boot_id: of the boot that it is in."""
    stage = record["stage"] if record else ""
    if stage in ("back", "restored"):
        return "put back"
    if stage == "installed":
        return "restart" if record and record["boot_id"] == boot_id else "prove"
    return "install" if stage == "installing" else "begin"


def wanting(found: Mapping[str, object], restart: bool, firmware: bool) -> bool:
    """Whether there is something to do on a host. restart: one waits."""
    return bool(found["steps"] or found["record"] or restart or (firmware and found["firmware"]))


@dataclass(frozen=True)
class Served:
    """A service, by the plan and by what its head says. others: that serve its model. backend: of the gateway, None
    without one. start_s, limit_s: what its start takes, and may take."""

    name: str
    hosts: tuple[str, ...]
    serves: bool
    others: tuple[str, ...]
    backend: str | None
    start_s: float | None
    limit_s: float


@dataclass(frozen=True)
class UpdateStep:
    """Hosts that are updated without a service in between. turns: those that change at once, one turn after the other.
    hosts: with those of their groups that have nothing to do. services: that stop. alone: those of them whose model
    nobody else serves. nobody_s: for how long; None where an update was never measured. holds: backends whose requests
    wait. gateways: of the hosts."""

    hosts: tuple[str, ...]
    turns: tuple[tuple[str, ...], ...]
    services: tuple[str, ...]
    alone: tuple[str, ...]
    nobody_s: float | None
    holds: tuple[str, ...]
    gateways: tuple[str, ...]


def groups_of(plan: Plan) -> list[tuple[str, ...]]:
    """Hosts whose ranks belong together, over all services that share a host; a host without a group is one of its own.

    plan: of which ``services.<name>.hosts`` are asked, and the names of ``hosts``.
    """
    group = {host: {host} for host in plan["hosts"]}
    for service in plan["services"].values():
        joined = set[str]().union(*(group[host] for host in service["hosts"]))
        group |= dict.fromkeys(joined, joined)
    return sorted({tuple(sorted(hosts)) for hosts in group.values()})


def services_of(plan: Plan, ranks: Mapping[str, Sequence[Mapping[str, Any]]], at_gateway: bool) -> dict[str, Served]:
    """ranks: by host, as `_operations.verify.ranks` reads them."""
    heads = {
        name: next((rank for rank in ranks.get(service["hosts"][0]) or () if rank["service"] == name), None)
        for name, service in plan["services"].items()
    }
    serve = {name: (head or {}).get("health") == _SERVING for name, head in heads.items()}
    rows = (plan["gateway"] or {"models": []})["models"] if at_gateway else []
    found = {}
    for name, service in plan["services"].items():
        last = ((heads[name] or {}).get("supervisor") or {}).get("ready_s")
        found[name] = Served(
            name,
            tuple(service["hosts"]),
            serve[name],
            tuple(
                sorted(
                    other
                    for other, one in plan["services"].items()
                    if other != name and serve[other] and one["served_name"] == service["served_name"]
                )
            ),
            next((row["services"][0] for row in rows if name in row["services"]), None),
            service["costs"]["first_start_s"] if last is None else last,
            service["costs"]["start_limit_s"],
        )
    return found


def steps(
    groups: Iterable[Sequence[str]],
    wanted: Mapping[str, Next],
    services: Mapping[str, Served],
    gateways: Collection[str],
    took_s: float | None,
    together: bool,
) -> list[UpdateStep]:
    """wanted: by host with something to do, what. took_s: what an update of one host last took, with its restart.

    First whatever was cut off, so that no two hosts are under way; then hosts that take nothing from anybody; of the
    rest those without a gateway, those whose models others serve, and small groups, in this order.
    """
    found = []
    for group in groups:
        todo = [host for host in group if host in wanted]
        if not todo:
            continue
        stopped = [service for service in services.values() if {*service.hosts} & {*group}]
        alone = [
            service
            for service in stopped
            if service.serves and not {*service.others} - {other.name for other in stopped}
        ]
        turns = [tuple(todo)] if together else [(host,) for host in _cut_first(todo, wanted)]
        starts = [service.start_s for service in alone]
        known = took_s is not None and None not in starts
        longest = max((start or 0 for start in starts), default=0)
        found.append(
            UpdateStep(
                tuple(group),
                tuple(turns),
                tuple(sorted(service.name for service in stopped)),
                tuple(sorted(service.name for service in alone)),
                (0 if not alone else (took_s or 0) * len(turns) + longest) if known or not alone else None,
                tuple(sorted({service.backend for service in stopped if service.serves and service.backend})),
                tuple(host for host in group if host in gateways),
            )
        )

    def key(step: UpdateStep) -> tuple[Any, ...]:
        is_fresh = all(wanted[host] == "begin" for turn in step.turns for host in turn)
        serving = [name for name in step.services if services[name].serves]
        return (is_fresh, bool(step.gateways), bool(step.alone), bool(serving), len(step.hosts), step.hosts)

    return sorted(found, key=key)


def _cut_first(hosts: Sequence[str], wanted: Mapping[str, Next]) -> list[str]:
    return sorted(hosts, key=lambda host: (wanted[host] == "begin", host))
