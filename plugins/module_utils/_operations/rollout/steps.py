# SPDX-License-Identifier: GPL-3.0-or-later
"""Which replicas move, one after the other, and what keeps them from it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, did_you_mean, error
from ..._base.place import Place
from ..._base.plan import Plan
from ..._base.ranks import head_of

_SERVING = "serving"
# What clients and gateways know a service by.
_ENDPOINT = ("url", "model", "key_file", "certificate")


@dataclass(frozen=True)
class Replica:
    """One service of those that share a model's requests.

    hosts: of its ranks, head first. wanted, start: the plan's definition and start; found: the definition of each
    host, None where it has none. unproved: a rollout that was cut off changed it.
    serves: its head answers. endpoint: of the head, as it is and as it is planned; None where it isn't known.
    start_s: what its last or a measured start took; limit_s: what one may take.
    """

    service: str
    hosts: Sequence[str]
    wanted: str
    start: str
    found: Mapping[str, str | None]
    unproved: bool
    serves: bool
    endpoint: Mapping[str, Any] | None
    planned: Mapping[str, Any] | None
    start_s: float | None
    limit_s: float

    @property
    def moves(self) -> bool:
        return self.unproved or any(definition != self.wanted for definition in self.found.values())


@dataclass(frozen=True)
class RolloutStep:
    """One replica moves. others: those that serve meanwhile. nobody_s: how long nobody does, None where that isn't
    known; limit_s: at the longest. holds: the gateway's backend whose requests wait while nobody does, also where the
    others are lost meanwhile; None where a step takes nobody away, and without a gateway.
    """

    service: str
    hosts: Sequence[str]
    serves: bool
    others: Sequence[str]
    nobody_s: float | None
    limit_s: float
    holds: str | None


def chosen(plan: Plan, name: str, hosts: Collection[str]) -> tuple[list[str], list[Finding]]:
    """The services that share the requests of this one, or of the model of this name; or why they can't move.

    hosts: that the run is about.
    """
    models = {service: one["served_name"] for service, one in plan["services"].items()}
    model = models.get(name, name)
    found = [service for service, served in models.items() if served == model]
    if found:
        return found, [*_left_out(plan, found, hosts)]
    remedy = did_you_mean(name, [*models, *models.values()]) if name else "write -e service=NAME"
    words = f'no service or model "{name}"' if name else "not given"
    return [], [error("service-unknown", "service", found=words, expected="a service or model", remedy=remedy)]


def _left_out(plan: Plan, services: Iterable[str], hosts: Collection[str]) -> Iterator[Finding]:
    for name in services:
        away = [host for host in plan["services"][name]["hosts"] if host not in hosts]
        if away:
            yield worded.error("rollout-limit", Place(service=name), away=", ".join(away))


def steps(replicas: Iterable[Replica], backend: str | None) -> list[RolloutStep]:
    """Those that don't serve move first, which costs nobody anything; then by name. backend: of the gateway, None
    without one."""
    known = sorted(replicas, key=lambda replica: (replica.serves, replica.service))
    serving = [item.service for item in known if item.serves]
    found: list[RolloutStep] = []
    for one in (item for item in known if item.moves):
        others = sorted({*serving} - {one.service})
        alone = not others and one.serves
        found.append(
            RolloutStep(
                one.service,
                tuple(one.hosts),
                one.serves,
                tuple(others),
                one.start_s if alone else 0,
                one.limit_s if alone else 0,
                backend if one.serves else None,
            )
        )
        # it is proved before the next one moves
        serving = sorted({*serving, one.service})
    return found


def obstacles(replicas: Iterable[Replica]) -> Iterator[Finding]:
    """What a rollout is not for, before anything changes."""
    for replica in replicas:
        place = Place(service=replica.service)
        absent = sorted(host for host, definition in replica.found.items() if definition is None)
        if absent:
            yield worded.error("rollout-new", place, service=replica.service, absent=", ".join(absent))
        changed = [key for key in _ENDPOINT if (replica.endpoint or {}).get(key) != (replica.planned or {}).get(key)]
        if replica.moves and replica.endpoint and replica.planned and changed:
            yield worded.error("rollout-endpoint", place, changed=" and ".join(changed))


def replicas_of(
    plan: Plan, services: Sequence[str], ranks: Mapping[str, Sequence[Mapping[str, object]]]
) -> list[Replica]:
    """ranks: by host, as `_operations.verify.ranks` reads them; a host that was not read has none."""
    return [_replica(plan, name, ranks) for name in sorted(services)]


def _replica(plan: Plan, name: str, ranks: Mapping[str, Sequence[Mapping[str, Any]]]) -> Replica:
    service = plan["services"][name]
    hosts = list(service["hosts"])
    here = {host: next((rank for rank in ranks.get(host) or () if rank["service"] == name), None) for host in hosts}
    planned = head_of(plan, name)
    head = here[hosts[0]] or {}
    costs = service["costs"]
    last = (head.get("supervisor") or {}).get("ready_s")
    return Replica(
        service=name,
        hosts=hosts,
        wanted=planned["definition"],
        start=planned["start"],
        found={host: rank["definition"] if rank else None for host, rank in here.items()},
        unproved=any(rank["unproved"] for rank in here.values() if rank),
        serves=head.get("health") == _SERVING,
        endpoint=head.get("endpoint"),
        planned=planned["supervisor"]["endpoint"],
        start_s=costs["first_start_s"] if last is None else last,
        limit_s=costs["start_limit_s"],
    )


def page(replicas: Sequence[Replica], order: Sequence[RolloutStep]) -> str:
    """What moves, in which order, and how long nobody serves."""
    lines = [f"{replica.service}: goes by the plan already" for replica in replicas if not replica.moves]
    for number, step in enumerate(order, 1):
        lines.append(f"{number}. {step.service} on {', '.join(step.hosts)}: {_meanwhile(step)}")
    if not order:
        return "\n".join([*lines, "nothing moves"])
    words = "each lets its answers end first, and must prove itself before the next moves; if not, it goes back"
    return "\n".join([*lines, words])


def _meanwhile(step: RolloutStep) -> str:
    if step.others:
        return f"{', '.join(step.others)} {'serves' if len(step.others) == 1 else 'serve'} meanwhile"
    if not step.serves:
        return "it does not serve now"
    about = f"at most {step.limit_s:.0f} s" if step.nobody_s is None else f"about {step.nobody_s:.0f} s"
    held = "requests wait at the gateway" if step.holds else "requests are refused"
    return f"nobody serves for {about}, and {held}"
