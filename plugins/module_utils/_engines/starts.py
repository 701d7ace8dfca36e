# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of starts: the lines that end their phases, what a host keeps, and which one was slow."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any

from .._base import worded
from .._base.findings import Finding
from .._base.forms import forms
from .._base.gb10 import data_file
from .._base.place import Place

_DATA: Mapping[str, Any] = data_file("starts")
PHASES: tuple[str, ...] = tuple(_DATA["phases"])
CAUSES: Mapping[str, str] = _DATA["causes"]
RECORD = forms("verify")["kept_starts"]
# Slow is what takes longer than usual by both; of fewer starts nothing is usual.
_TIMES, _MORE_S, _LIKE = 1.5, 30.0, 2
_NEAR_S = 60.0
Start = Mapping[str, Any]


def rows(engine: str) -> list[dict[str, Any]]:
    """Of data/starts.yml for an engine, those of our own supervisor first."""
    return [*_DATA["rows"]["ours"], *_DATA["rows"].get(engine, [])]


def last_words(starts: Sequence[Start]) -> str:
    """The last start in a few words, its longest phases first; empty without one."""
    if not starts:
        return ""
    last = starts[-1]
    shown = sorted(((took, phase) for phase, took in last["phases"].items() if took >= 1), reverse=True)
    parts = ", ".join(f"{phase} {took:.0f}" for took, phase in shown if phase in PHASES)
    caches = f", with {last['caches']} caches" if last["caches"] else ""
    return f"started in {last['seconds']:.0f} s{caches}" + (f": {parts} s" if parts else "")


def is_current(starts: Sequence[Start], since: str | None) -> bool:
    """Whether the last start is that of what serves since then: a host keeps what was proved, and may have started
    again by itself."""
    if not starts or not since:
        return False
    try:
        began, now = (datetime.fromisoformat(time).timestamp() for time in (starts[-1]["began"], since))
    except (ValueError, OverflowError):
        return False
    return abs(now - began - float(starts[-1]["seconds"])) < _NEAR_S


def slow_start(service: str, starts: Sequence[Start]) -> Iterator[Finding]:
    """The last start, where it took much longer than the ones before it on this machine, of the same image, model and
    options: by the phase that grew most, and what that usually comes from."""
    *before, last = starts or [{}]
    if len(before) < _LIKE:
        return
    usual = median(start["seconds"] for start in before)
    if last["seconds"] <= max(_TIMES * usual, usual + _MORE_S):
        return
    grown = {phase: took - _usual(before, phase) for phase, took in last["phases"].items() if phase in PHASES}
    phase = max(grown, key=lambda name: grown[name], default="other")
    yield worded.hint(
        "start-slow",
        Place(service=service),
        kind="host",
        seconds=last["seconds"],
        usual=usual,
        count=len(before),
        phase=phase,
        took=last["phases"].get(phase, 0.0),
        usually=_usual(before, phase),
        cause=CAUSES[phase],
    )


def _usual(starts: Sequence[Start], phase: str) -> float:
    return median(float(start["phases"].get(phase, 0.0)) for start in starts)
