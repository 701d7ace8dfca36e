# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of starts: the lines that end their phases, what a host keeps, and which one was slow."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import exp, log, sqrt
from statistics import fmean, median, stdev
from typing import Any

from .._base import worded
from .._base.findings import Finding
from .._base.forms import forms
from .._base.gb10 import data_file
from .._base.place import Place

_DATA: Mapping[str, Any] = data_file("starts")
PUBLISHED: str = _DATA["published"]
PHASES: tuple[str, ...] = tuple(_DATA["phases"])
CAUSES: Mapping[str, str] = _DATA["causes"]
RECORD = forms("verify")["kept_starts"]
# Slow is what takes longer than usual by both; of fewer starts nothing is usual.
_TIMES, _MORE_S, _LIKE = 1.5, 30.0, 2
_NEAR_S = 60.0
BOOTS: Sequence[Mapping[str, Any]] = _DATA["boots"]
LOADERS: Mapping[str, str] = _DATA["loaders"]
# Around what was seen of the same service on its host, and of one like it elsewhere; how far beyond the published sizes
# another is like them.
_CLOSE, _LIKE_IT, _SIZES = (0.8, 1.3), (0.6, 1.6), (0.25, 2.0)
# How what was seen in this fleet is named, which tells more than what a recipe has of others.
SEEN = ("by its last", "by those of this image and model on")
_LEAST_REST_S, _EIGHT_OF_TEN, _ONE_WIDE, _EQUAL = 15.0, 1.28, 2.0, 0.1
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


@dataclass(frozen=True)
class Expected:
    """Between how many seconds a start lies, eight of ten times, and what that rests on."""

    low: float
    high: float
    basis: str


def forecast(
    kept: Mapping[str, Mapping[str, Mapping[str, Any]]],
    host: str,
    key: str,
    image: str,
    model: str,
    unseen: Expected | None,
) -> Expected | None:
    """How long the next start of a service takes: by what it has shown on its host, else by what others of its image
    and model have shown, else what holds for its class. kept: `RECORD` by host and key. unseen: of `of_class`."""
    own = [start["seconds"] for start in kept.get(host, {}).get(key, {}).get("starts", ())]
    if own:
        return Expected(_CLOSE[0] * min(own), _CLOSE[1] * max(own), f"{SEEN[0]} {len(own)} on {host}")
    like = {
        (other, name): record["starts"][0]["seconds"]
        for other, records in kept.items()
        for name, record in records.items()
        if record["starts"] and (record["image"], record["model"]) == (image, model)
    }
    # the same options tell more than others with the same image
    same = {place: took for place, took in like.items() if place[1] == key} or like
    if same:
        hosts = ", ".join(sorted({other for other, _ in same}))
        return Expected(_LIKE_IT[0] * min(same.values()), _LIKE_IT[1] * max(same.values()), f"{SEEN[1]} {hosts}")
    return unseen


def seconds_a_gb(records: Mapping[str, Mapping[str, Any]], loader: str | None) -> list[float]:
    """How a host's disk has read weights with this loader, in all starts that it keeps. records: of the host."""
    return [
        start["phases"]["weights"] / record["gb"]
        for record in records.values()
        if record["gb"] and record["loader"] == loader
        for start in record["starts"]
        if start["phases"].get("weights")
    ]


def of_class(
    gb: float, loader: str, caches: str, boots: Sequence[Mapping[str, Any]] = BOOTS, own: Sequence[float] = ()
) -> Expected | None:
    """A start that nobody has seen yet. gb: of weights that a host reads, in 10^9 bytes. loader: lazy or direct.
    caches: of compiled code, warm or cold. own: of `seconds_a_gb`. None where no published start is like it."""
    reading = {
        kind: [row["weights"] / row["gb"] for row in boots if row["loader"] == kind and "weights" in row]
        for kind in ("lazy", "direct")
    }
    sizes = [row["gb"] for row in boots]
    if not all(reading.values()) or not _SIZES[0] * min(sizes) <= gb <= _SIZES[1] * max(sizes):
        return None
    usual = {kind: exp(fmean(map(log, found))) for kind, found in reading.items()}
    rest = [
        max(_LEAST_REST_S, row["seconds"] - row.get("weights", usual[row["loader"]] * row["gb"]))
        for row in boots
        if row.get("caches") == caches and "seconds" in row
    ]
    if len(rest) < _LIKE:
        return None
    parts = [_spread([each * gb for each in own or reading[loader]]), _spread(rest)]
    low, high = (sum(part[side] for part in parts) for side in (0, 1))
    if own:
        return Expected(low, high, f"by how this host has read weights, and {len(rest)} published starts")
    return Expected(low, high, f"by {len(rest) + len(reading[loader])} published starts")


def _spread(found: Sequence[float]) -> tuple[float, float]:
    """Between which eight of ten lie, for figures whose logarithms are spread evenly around a mean."""
    logs = [*map(log, found)]
    wide = log(_ONE_WIDE) if len(logs) < _LIKE else _EIGHT_OF_TEN * max(stdev(logs), _EQUAL) * sqrt(1 + 1 / len(logs))
    return exp(fmean(logs) - wide), exp(fmean(logs) + wide)
