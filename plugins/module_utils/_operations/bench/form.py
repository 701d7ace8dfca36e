# SPDX-License-Identifier: GPL-3.0-or-later
"""What a load generator and an earlier run say, taken only in their form; what a run is kept as."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..._base.forms import forms
from ..._base.received import checked, is_map, parsed
from .figures import BETTER, VALUES
from .sweep import Point

MOST_BYTES = 8 << 20
# Shown and not compared: they follow from the others, or one moment makes them. prompt tokens/s: of all that the engine
# read meanwhile, what an image became among it. tokens a step: with the engine's own and the accepted drafts.
GPU = ("GPU MHz", "GPU W", "GPU C")
SHOWN = ("request ms", "requests/s", "peak tokens/s", "prompt tokens/s", "tokens a step", *GPU)
_FORMS = forms("bench", values=VALUES)
_LOAD, ANSWER, RUN = _FORMS["load"], _FORMS["answer"], _FORMS["run"]


class NotWholeError(ValueError):
    """A run that does not count, in a sentence."""


class BusyError(NotWholeError):
    """Others ask the service, so that no figure would say anything."""


def idle(answer: Mapping[str, Any]) -> None:
    """answer: as `ANSWER`. BusyError where requests of others run."""
    if answer["before"] and answer["before"]["busy"]:
        count = answer["before"]["busy"]
        raise BusyError(f"{count:.0f} requests of others run there, expected none: measure when nobody asks")


def measured(point: Point, answer: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """``{figures, shown, raw}`` of one run of a point. answer: as `ANSWER`, whose result is the load generator's JSON
    text. keys: of `EngineSpec.load_keys`.

    NotWholeError where not every request was answered whole, BusyError where others asked before or beside it;
    ValueError for what is no result.
    """
    idle(answer)
    raw = parsed(answer["result"].encode(), MOST_BYTES, "what the load generator wrote")
    if not is_map(raw):
        raise ValueError("what the load generator wrote is no map")
    given = {key: raw[name] for key, name in keys.items() if name in raw}
    found = checked(_LOAD, given, "what the load generator wrote")
    if found["failed"] or found["completed"] != point.requests:
        raise NotWholeError(f"{found['completed']} of {point.requests} requests were answered, expected all")
    if found["answered"] != point.requests * point.answer:
        raise NotWholeError(f"{found['answered']} tokens were answered, expected {point.requests * point.answer}")
    silent = [figure for figure in BETTER if not found[figure]]
    if silent:
        raise NotWholeError(f"the load generator measured no {silent[0]}")
    if answer["before"] is None or answer["after"] is None:
        raise NotWholeError("nobody knows whether others asked in that time")
    alone(answer["before"], answer["after"], found["answered"], point.answer + answer["seconds"])
    prompted = answer["after"]["prompted"] - answer["before"]["prompted"]
    if found["duration"]:
        found["prompt tokens/s"] = prompted / found["duration"]
    found |= tokens_a_step(answer["before"], answer["after"])
    found.update(zip(GPU, answer["gpu"], strict=False))
    return {
        "figures": {figure: float(found[figure]) for figure in BETTER},
        "shown": {figure: float(found[figure]) for figure in SHOWN if found.get(figure) is not None},
        "raw": raw,
    }


def tokens_a_step(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What drafts have come to between two looks, by the engine's own word; empty where it says nothing."""
    steps = after.get("steps", 0) - before.get("steps", 0)
    if steps > 0:
        return {"tokens a step": 1 + (after["accepted"] - before["accepted"]) / steps}
    return {"tokens a step": after["a_step"]} if after.get("a_step") else {}


def alone(before: Mapping[str, float], after: Mapping[str, float], own: float, spare: float) -> None:
    """BusyError where others were answered between two looks. own: tokens that the benchmark was answered. spare: a
    request of its own before it begins, and those of one token by which the supervisor sees each second that it
    lives."""
    foreign = after["answered"] - before["answered"] - own
    if foreign > spare:
        raise BusyError(f"others were answered {foreign:.0f} tokens meanwhile, expected none")


def values_of(results: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """By point, then by figure, the values of all rounds but the one to warm up. results: as of `run`, each point a
    map."""
    found: dict[str, dict[str, list[float]]] = {}
    for result in results:
        if result["round"]:
            point = found.setdefault(result["point"]["name"], {figure: [] for figure in BETTER})
            for figure, values in point.items():
                values.append(result["figures"][figure])
    return found


def run(
    name: str,
    at: str,
    service: Mapping[str, Any],
    conditions: Mapping[str, Any],
    results: Sequence[Mapping[str, Any]],
    profile: str = "load",
) -> dict[str, Any]:
    """What is kept of one side. service: ``{name, definition}``. results: ``{point, round, figures, shown,
    raw}`` in the order of the rounds, of which round 0 does not count: it is kept in ``raw`` alone."""
    counted = [result for result in results if result["round"]]
    measured_points = {result["point"].name: result["point"] for result in counted}
    return {
        "name": name,
        "service": service["name"],
        "at": at,
        "profile": profile,
        "definition": service["definition"],
        "conditions": dict(conditions),
        "points": [asdict(point) for point in measured_points.values()],
        "values": values_of([{**one, "point": asdict(one["point"])} for one in results]),
        "shown": {
            point: {
                figure: [
                    one["shown"][figure] for one in counted if one["point"].name == point and figure in one["shown"]
                ]
                for figure in SHOWN
            }
            for point in measured_points
        },
        "raw": [{"point": one["point"].name, "round": one["round"], "result": one["raw"]} for one in results],
    }


def earlier(content: bytes, what: str) -> dict[str, Any]:
    """A run that was kept. ValueError with a sentence for what is none."""
    found: dict[str, Any] = checked(RUN, parsed(content, MOST_BYTES, what), what)
    names = {point["name"] for point in found["points"]}
    if names != {*found["values"]}:
        raise ValueError(f"{what} has other points than values")
    return found
