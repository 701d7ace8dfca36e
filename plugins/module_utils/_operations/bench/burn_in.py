# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is asked for its burn-in, and what an hour under load comes to: judged as doctor judges a machine, by
what it has shown since."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, TypedDict, cast

from ..._base import worded
from ..._base.findings import Finding, ordered
from ..._base.place import Place
from ..._base.plan import Plan
from ..._base.reading import State
from ..._base.received import one_line
from ..._base.subject import PreflightContext
from ..._engines.registry import ENGINES
from ..._subjects.health.subject import HEALTH
from ..._subjects.system.next_boot import judged
from .of_plan import load_of
from .sweep import points, words

_PROMPTS, _ANSWER, _AT_ONCE, _SECONDS, _LOADED = (64, 2048), 256, (4, 16), 60, 50
# 60 % of what owners measure (data/findings.yml, burn-in-slow): the clock may be capped to two thirds.
_LEAST = {"gb_s": 130.0, "tflops": 55.0}
_MOST_WORDS = 1000
_WHAT = ("use", "clock", "power", "heat")


class Minute(TypedDict):
    by: str
    rows: list[list[float]]
    figures: dict[str, float]


def burn_in_order(plan: Plan, host: str, image: str, program: str) -> dict[str, Any]:
    """`work`'s order for one minute. image: of the owner's choice, in place of those that the plan has here."""
    mine = plan["hosts"][host]
    order: dict[str, Any] = {"seconds": _SECONDS, "load": {}, "words": [], "program": program}
    for name in (service["name"] for service in mine["services"]):
        service = plan["services"][name]
        kv = service["kv"]
        fitting = points(kv["context"], kv["max_concurrency"], _PROMPTS, _AT_ONCE, _ANSWER)
        if service["hosts"][0] == host and ENGINES[service["engine"]].spec.load and fitting:
            load = load_of(plan, name)
            order |= {"load": load, "words": words(load, fitting[-1], "{seed}")}
    ranks = {service["name"]: service["container"]["name"] for service in mine["services"]}
    return {**order, "ranks": ranks, "images": [image] if image else [stored["reference"] for stored in mine["images"]]}


def burn_in_verdict(
    plan: Plan,
    host: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any] | None,
    minutes: Sequence[Minute],
    most: int,
) -> dict[str, Any]:
    """``{verdict, found, figures, by, rows}`` for the page. before, after: `host_info`'s states; None where the host no
    longer answers. minutes: the answers of `work`. most: how many were asked for."""
    worked = [minute for minute in minutes if "rows" in minute]
    ends = [one_line(str(minute["msg"])) for minute in cast(Sequence[Mapping[str, Any]], minutes) if minute.get("msg")]
    why = f": {'; '.join(ends)[:_MOST_WORDS]}" if ends else ""
    look = PreflightContext(host, plan["hosts"][host], _since(plan, host, before, after or before, worked))
    shown = HEALTH.obstacles(look) if after else ()
    found = [judged(look, finding) for finding in (*_under_load(Place(host=host), worked, most, why), *shown)]
    rules = dict.fromkeys(finding.rule for finding in ordered(found))
    return {
        "verdict": f"failed, by {', '.join(rules)}" if rules else "passed",
        "found": [finding.sentence() for finding in ordered(found)],
        "figures": _summed(worked),
        "by": next((minute["by"] for minute in worked if minute["by"]), "the endpoint's host"),
        "rows": [_row(minute) for minute in worked],
    }


def _row(minute: Minute) -> dict[str, str]:
    """The least, the middle and the most of what the GPU has shown, and what was done."""
    columns = zip(_WHAT, zip(*minute["rows"], strict=True), strict=False)
    shown = {name: f"{min(column):.0f} {median(column):.0f} {max(column):.0f}" for name, column in columns}
    return shown | {name: f"{value:.1f}" for name, value in sorted(minute["figures"].items())}


def _under_load(at: Place, minutes: Sequence[Minute], most: int, why: str) -> Iterator[Finding]:
    if len(minutes) < most:
        yield worded.host_error("burn-in-ended", at, minute=len(minutes) + 1, asked=most, why=why)
    use = [row[0] for minute in minutes for row in minute["rows"]]
    if minutes and (not use or median(use) < _LOADED):
        shown = f"{median(use):.0f} %" if use else "no figure of nvidia-smi"
        yield worded.host_warning("burn-in-idle", at, found=shown)
    figures = _summed(minutes)
    if figures.get("wrong"):
        yield worded.host_error("burn-in-wrong", at, wrong=f"{figures['wrong']:.0f}")
    for name, least in _LEAST.items():
        if figures.get(name, least) < least:
            yield worded.host_error(
                "burn-in-slow", at, found=f"{figures[name]:.1f} {name}", least=f"{least:.0f} {name}"
            )


def _summed(minutes: Sequence[Minute]) -> dict[str, float]:
    """The middle of each figure, and the sum of wrong products."""
    values: dict[str, list[float]] = {}
    for name, value in (figure for minute in minutes for figure in minute["figures"].items()):
        values.setdefault(name, []).append(value)
    return {name: sum(each) if name == "wrong" else median(each) for name, each in sorted(values.items())}


def _since(
    plan: Plan, host: str, before: Mapping[str, Any], after: Mapping[str, Any], minutes: Sequence[Minute]
) -> State:
    """The later reading with the figures of the load in place of the moment's, and without what was there before."""
    rows = [row for minute in minutes for row in minute["rows"] if len(row) == len(_WHAT)]
    gpu = {**(after.get("gpu") or {})}
    if rows:
        use, clock, power, heat = zip(*rows, strict=True)
        figures = {
            "use_percent": median(use),
            "clock_mhz": median(clock),
            "power_w": median(power),
            "heat_c": max(heat),
        }
        # a clock that nobody declared is held back, whoever does it
        held = [] if plan["hosts"][host]["gpu"]["clock_max_mhz"] else ["what nvidia-smi -q -d PERFORMANCE names"]
        gpu |= {"figures": figures, "held_back": held}
    lines, earlier = ((state.get("health") or {}).get("lines", {}) for state in (after, before))
    new = {kind: one["count"] - earlier.get(kind, {"count": 0})["count"] for kind, one in lines.items()}
    complaints = {kind: {**one, "count": new[kind], "today": new[kind]} for kind, one in lines.items() if new[kind] > 0}
    sensors, cold = ((state.get("sensors") or {"errors": {}}) for state in (after, before))
    errors = {
        name: {kind: count - cold["errors"].get(name, {}).get(kind, 0) for kind, count in counts.items()}
        for name, counts in sensors["errors"].items()
    }
    parts = {"gpu": gpu, "health": {"lines": complaints}, "sensors": {**sensors, "errors": errors}, "watchdogs": []}
    return cast(State, {**after, **parts})
