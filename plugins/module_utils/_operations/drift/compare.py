# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison: plan and readings in, differences out. Pure; what could not be read is unknown, never clean."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from ..._base.faults import Fault, guarded
from ..._base.findings import Difference, of_sudo, ordered
from ..._base.place import Place
from ..._base.plan import Plan
from ..._base.reading import State
from ..._base.subject import Differences, DriftContext, Unknown
from ..._subjects.registry import SUBJECTS
from ..._subjects.services.subject import taken_back
from ..._subjects.system.known_bad import versions
from ..._subjects.system.next_boot import judged
from .document import Verdict
from .files import of_files, of_json, of_owned
from .running import of_sysctl, of_units
from .secrets import same_on_all

_EQUAL = ("kernel", "driver", "nic_firmware", "docker")


def of_groups(plan: Plan, states: Mapping[str, State]) -> Iterator[Difference]:
    """Each rank's host against the head's, for those that could be read."""
    for name, service in plan["services"].items():
        head, *others = service["hosts"]
        facts = {host: _facts(plan, host, states[host]) for host in (head, *others) if host in states}
        for host in others if head in facts else ():
            if host in facts:
                yield from _pair(name, head, host, facts)


def _pair(service: str, head: str, host: str, facts: Mapping[str, Mapping[str, str | None]]) -> Iterator[Difference]:
    wanted, found = facts[head], facts[host]
    for what in sorted(wanted.keys() & found.keys()):
        if None not in (wanted[what], found[what]) and wanted[what] != found[what]:
            yield Difference(
                rule="rank-differs",
                severity="error",
                at=Place(host=host, service=service, thing=f"rank of {service}: {what}"),
                found=str(found[what]),
                expected=f"{wanted[what]}, as on {head}",
                remedy=f"bring both hosts to the same {what}",
                reason="ranks of one service that differ hang, or answer wrongly",
            )


def _facts(plan: Plan, host: str, state: State) -> dict[str, str | None]:
    facts = {name: value for name, value in versions(state).items() if name in _EQUAL}
    for reference, image in (state["images"] or {}).items():
        facts[f"image {reference}"] = image["identity"].removeprefix("sha256:")[:12] if image else None
    for repository, model in (state["models"]["models"] if state["models"] else {}).items():
        facts[f"weights {repository}"] = model["seal"] and model["seal"][:12]
    return facts


@dataclass(frozen=True)
class Acceptance:
    """host, resource, rule: patterns. until: the last day that it holds, ``2026-12-31``."""

    host: str
    resource: str
    rule: str
    reason: str
    until: str

    def fits(self, difference: Difference) -> bool:
        patterns = ((difference.host, self.host), (difference.place, self.resource), (difference.rule, self.rule))
        return all(fnmatchcase(value, pattern) for value, pattern in patterns)


def sort_out(
    differences: Iterable[Difference], accept: Iterable[Mapping[str, Any]], today: str
) -> tuple[list[Difference], list[tuple[Difference, Acceptance]]]:
    """What counts, and what is accepted today. One whose acceptance has ended counts again, and says so."""
    known = [Acceptance(**item) for item in accept]
    counted, accepted = [], []
    for difference in differences:
        fitting = [acceptance for acceptance in known if acceptance.fits(difference)]
        valid = next((acceptance for acceptance in fitting if acceptance.until >= today), None)
        if valid:
            accepted.append((difference, valid))
        elif fitting:
            ended = f"its acceptance ended on {fitting[0].until} ({fitting[0].reason})"
            counted.append(replace(difference, reason="; ".join(filter(None, (difference.reason, ended)))))
        else:
            counted.append(difference)
    return counted, accepted


EXIT_CODES: dict[Verdict, int] = {"clean": 0, "unknown": 1, "drift": 2}


@dataclass(frozen=True)
class Reading:
    """What one host answered, as `_subjects.form` took it. state: None when the host could not be read, with why.

    unknown: parts that could not be read, each with the reason.
    """

    state: State | None
    unknown: Mapping[str, str]
    why: str = ""

    @classmethod
    def registered(cls, hostvars: Any, host: str) -> "Reading":
        """What the role `drift` has kept of `drift_info`'s answer; without one, the host ran out of the task's time."""
        answer = hostvars.raw_get(host).get("drift_reading") or {}
        if "state" not in answer:
            return cls(None, {}, str(answer.get("msg") or "no answer in time"))
        return cls(answer["state"], answer["unknown"], answer["why"])


@dataclass(frozen=True)
class Result:
    """hosts: all that were asked. accepted: differences that somebody accepted, each with the acceptance."""

    hosts: tuple[str, ...]
    differences: tuple[Difference, ...]
    accepted: tuple[tuple[Difference, Acceptance], ...]
    unknown: tuple[Unknown, ...]

    @property
    def faults(self) -> list[Fault]:
        """What was not judged by a slip of ours."""
        return [item for item in self.unknown if isinstance(item, Fault)]

    @property
    def verdict(self) -> Verdict:
        """Drift that is certain counts before what is unknown; a hint is no drift."""
        if any(difference.severity != "hint" for difference in self.differences):
            return "drift"
        return "unknown" if self.unknown or not self.hosts else "clean"

    def verdict_of(self, host: str) -> Verdict:
        mine = [difference for difference in self.differences if difference.host == host]
        return Result((host,), tuple(mine), (), tuple(item for item in self.unknown if item.host == host)).verdict


def compare(
    plan: Plan,
    readings: Mapping[str, Reading],
    today: str,
    service: str = "",
    more: Iterable[Difference | Unknown] = (),
) -> Result:
    """readings: by host, of all hosts that were asked. today: ``2026-11-21``, for acceptances that end.

    service: only what concerns this one; empty for everything. more: what was found beside the readings.
    """
    found = [
        *(item for item in _found(plan, readings) if _concerns(item, service)),
        *(line for line in more if line.host in readings and _concerns(line, service)),
    ]
    differences = sorted(ordered(item for item in found if isinstance(item, Difference)), key=lambda item: item.host)
    unknown = sorted({item for item in found if isinstance(item, Unknown)}, key=lambda item: (item.host, item.part))
    counted, accepted = sort_out(differences, plan["drift"]["accept"], today)
    return Result(tuple(sorted(readings)), tuple(counted), tuple(accepted), tuple(unknown))


def _concerns(difference: Difference | Unknown, service: str) -> bool:
    return not service or isinstance(difference, Unknown) or difference.service == service


def _found(plan: Plan, readings: Mapping[str, Reading]) -> Differences:
    states = {host: reading.state for host, reading in readings.items() if reading.state is not None}
    silent = readings.keys() - states.keys()
    for host, reading in readings.items():
        if reading.state is None:
            yield Unknown(host, "the host", "; ".join(filter(None, (reading.why, of_sudo(reading.why)))))
            continue
        yield from (Unknown(host, part, why) for part, why in reading.unknown.items())
        yield from _of_host(DriftContext(host, plan, states, silent))
    for part, judge in _OF_ALL.items():
        for item in guarded("", part, partial(judge, plan, states)):
            yield from (replace(item, host=host) for host in sorted(states)) if isinstance(item, Fault) else (item,)


# Rules that compare what a service's definition decides.
_BY_DEFINITION = ("file-content", "file-kind", "container-", "json-key", "port-closed")
_OF_ALL: Mapping[str, Callable[[Plan, Mapping[str, State]], Iterator[Difference]]] = {
    "what a group shares": of_groups,
    "the secrets of groups": same_on_all,
}
_OF_HOST: Mapping[str, Callable[[DriftContext], Differences]] = {
    "files": of_files,
    "files that nobody declares": of_owned,
    "keys of JSON files": of_json,
    "kernel settings": of_sysctl,
    "units": of_units,
    **{subject.name: subject.differences for subject in SUBJECTS},
}


def _of_host(view: DriftContext) -> Differences:
    """Each comparison by itself: a fault in one of them ends none of the others.

    A service whose planned definition was taken back goes by another one, and what differs by that is one difference.
    """
    back = taken_back(view.slice, view.state)
    for part, check in _OF_HOST.items():
        for item in guarded(view.host, part, partial(_advised, check, view)):
            if not (isinstance(item, Difference) and item.service in back and item.rule.startswith(_BY_DEFINITION)):
                yield item


def _advised(check: Callable[[DriftContext], Differences], view: DriftContext) -> Differences:
    yield from (judged(view.look, item) if isinstance(item, Difference) else item for item in check(view))
