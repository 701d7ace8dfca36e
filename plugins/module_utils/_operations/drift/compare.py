# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison: plan and readings in, differences out. Pure; what could not be read is unknown, never clean."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..._base.faults import Fault, guarded
from ..._base.findings import Difference, of_sudo, ordered
from ..._base.plan import Plan
from ..._base.reading import State
from ..._base.subject import Differences, DriftContext, Unknown
from ..._subjects.registry import SUBJECTS
from ..._subjects.services.subject import taken_back
from .accepted import Acceptance, sort_out
from .across import of_groups
from .document import Verdict
from .files import of_files, of_json, of_owned
from .running import of_sysctl, of_units
from .secrets import same_on_all

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
    differences = _by_host(item for item in found if isinstance(item, Difference))
    unknown = sorted({item for item in found if isinstance(item, Unknown)}, key=lambda item: (item.host, item.part))
    counted, accepted = sort_out(differences, plan["drift"]["accept"], today)
    return Result(tuple(sorted(readings)), tuple(counted), tuple(accepted), tuple(unknown))


def _by_host(differences: Iterable[Difference]) -> list[Difference]:
    return sorted(ordered(differences), key=lambda item: item.host)


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
        for item in guarded(view.host, part, partial(check, view)):
            if not (isinstance(item, Difference) and item.service in back and item.rule.startswith(_BY_DEFINITION)):
                yield item
