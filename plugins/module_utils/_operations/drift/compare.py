# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison: plan and readings in, differences out. Pure; what could not be read is unknown, never clean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ..._base.findings import Difference, of_sudo, ordered
from ..._base.received import one_line
from ..._base.subject import Differences, Unknown, View
from ..._subjects.registry import SUBJECTS
from .accepted import Acceptance, sort_out
from .across import of_groups
from .files import of_files, of_json
from .running import of_sysctl, of_units
from .secrets import same_on_all

Judgement = TypeVar("Judgement")
Verdict = Literal["clean", "drift", "unknown"]
EXIT_CODES: dict[Verdict, int] = {"clean": 0, "unknown": 1, "drift": 2}


@dataclass(frozen=True)
class Reading:
    """What one host answered. state: as `host_info` reads it, None when the host could not be read at all, with why.

    unknown: parts that could not be read, each with the reason.
    """

    state: Mapping[str, Any] | None
    unknown: Mapping[str, str]
    why: str = ""

    @classmethod
    def registered(cls, hostvars: Any, host: str) -> Reading:
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
    def verdict(self) -> Verdict:
        """Drift that is certain counts before what is unknown; a hint is no drift."""
        if any(one.severity != "hint" for one in self.differences):
            return "drift"
        return "unknown" if self.unknown or not self.hosts else "clean"

    def verdict_of(self, host: str) -> Verdict:
        mine = [one for one in self.differences if one.host == host]
        return Result((host,), tuple(mine), (), tuple(one for one in self.unknown if one.host == host)).verdict


def compare(
    plan: Mapping[str, Any],
    readings: Mapping[str, Reading],
    today: str,
    service: str = "",
    more: Iterable[Difference | Unknown] = (),
) -> Result:
    """readings: by host, of all hosts that were asked. today: ``2026-11-21``, for acceptances that end.

    service: only what concerns this one; empty for everything. more: what was found beside the readings.
    """
    found = [
        *(one for one in _found(plan, readings) if _concerns(one, service)),
        *(one for one in more if one.host in readings and _concerns(one, service)),
    ]
    differences = _by_host(one for one in found if isinstance(one, Difference))
    unknown = sorted({one for one in found if isinstance(one, Unknown)}, key=lambda one: (one.host, one.part))
    counted, accepted = sort_out(differences, plan["drift"]["accept"], today)
    return Result(tuple(sorted(readings)), tuple(counted), tuple(accepted), tuple(unknown))


def judged(readings: Mapping[str, Reading], judge: Callable[[Mapping[str, Reading]], Judgement]) -> Judgement:
    """What ``judge`` makes of the readings; a host whose answer it can't be made of counts as one without an answer.

    judge: everything that is done with the readings, up to the last report. A host that was taken over may answer
    anything, and must not keep the others from being judged.
    """
    try:
        return judge(readings)
    except Exception:
        return judge({host: _usable(host, reading, judge) for host, reading in readings.items()})


def _usable(host: str, reading: Reading, judge: Callable[[Mapping[str, Reading]], Judgement]) -> Reading:
    try:
        judge({host: reading})
    except Exception as problem:
        why = one_line(f"its answer is not what this collection reads ({type(problem).__name__}: {problem})", 200)
        return Reading(None, {}, why)
    return reading


def _by_host(differences: Iterable[Difference]) -> list[Difference]:
    return sorted(ordered(differences), key=lambda one: one.host)


def _concerns(one: Difference | Unknown, service: str) -> bool:
    return not service or isinstance(one, Unknown) or one.service == service


def _found(plan: Mapping[str, Any], readings: Mapping[str, Reading]) -> Differences:
    states = {host: reading.state for host, reading in readings.items() if reading.state is not None}
    silent = readings.keys() - states.keys()
    for host, reading in readings.items():
        if reading.state is None:
            yield Unknown(host, "the host", "; ".join(filter(None, (reading.why, of_sudo(reading.why)))))
            continue
        yield from (Unknown(host, part, why) for part, why in reading.unknown.items())
        yield from _of_host(View(host, plan, states, silent))
    yield from of_groups(plan, states)
    yield from same_on_all(plan, states)


def _of_host(view: View) -> Differences:
    for check in (of_files, of_json, of_sysctl, of_units, *(subject.differences for subject in SUBJECTS)):
        yield from check(view)
