# SPDX-License-Identifier: GPL-3.0-or-later
"""What a search has found, how sure that is, and what to write for it."""

import difflib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from ..._engines.interface import Choice
from ..bench.compare import student
from .goal import SearchGoal
from .search import Candidate, Run, best_of, untried
from .state import RefusedCandidate, SearchState, proved, refused, searched, settings

# Of one comparison of two equal services, planned before: one in twenty may name a difference.
_WRONG = 0.05
_LEAST_PAIRS = 2


@dataclass(frozen=True)
class Ratio:
    """Of a figure, the best's to that of what serves now, with its interval."""

    ratio: float
    low: float
    high: float
    pairs: int


def patched(service: Mapping[str, Any], space: Sequence[Choice], candidate: Candidate) -> dict[str, Any]:
    """``fleet_services.NAME`` with what a candidate writes otherwise."""
    found = dict(service)
    for choice, place in zip(space, candidate, strict=True):
        for part, values in choice.values[place].items():
            found[part] = {**(found.get(part) or {}), **values}
    return found


def words(space: Sequence[Choice], candidate: Candidate) -> str:
    """What of a candidate is otherwise than now."""
    changed = [f"{one.name} {one.words[place]}" for one, place in zip(space, candidate, strict=True) if place]
    return ", ".join(changed) or "as it is"


def compared(before: Sequence[Run], after: Sequence[Run], figure: str) -> Ratio | None:
    """Student's interval of the pairs' logarithms; None with fewer than two pairs. before, after: the n-th of both
    started one after the other."""
    found = [math.log(two.figures[figure] / one.figures[figure]) for one, two in zip(before, after, strict=False)]
    if len(found) < _LEAST_PAIRS:
        return None
    half = student(len(found) - 1, _WRONG) * stdev(found) / math.sqrt(len(found))
    middle = fmean(found)
    return Ratio(math.exp(middle), math.exp(middle - half), math.exp(middle + half), len(found))


def verdict(
    state: SearchState, space: Sequence[Choice], asked: SearchGoal, service: Mapping[str, object]
) -> dict[str, Any]:
    """``{better, candidate, text}``. better: whether the best was shown to be better. service: as it is declared."""
    runs, goal = searched(state), asked.goal
    start: Candidate = (0,) * len(space)
    best = best_of(runs, goal, refused(state)) if runs else None
    lines = [f"{state['service']}: {asked.text}", *_table(space, runs, asked)]
    lines += _refused(space, state["refused"])
    if best is None:
        lines.append("nothing that was tried holds what was asked" if runs else "nothing was measured")
        return {"better": False, "candidate": None, "text": "\n".join(lines)}
    count = len(untried(settings(space), runs, best, refused(state)))
    left = "each" if not count else f"all but {count}"
    lines.append(f"of what differs from the best of these in one setting, {left} was tried")
    if best == start:
        return {
            "better": False,
            "candidate": None,
            "text": "\n".join([*lines, "what serves now is the best: leave it"]),
        }
    ratio = compared(proved(state, start), proved(state, best), goal.figure)
    better = ratio is not None and (ratio.low > 1 if goal.more else ratio.high < 1)
    lines.append(f"the best: {words(space, best)}")
    lines.append(_sure(ratio, goal.figure, better))
    lines += [f"before you keep it: {one.note}" for one, place in zip(space, best, strict=True) if place and one.note]
    if better:
        lines += ["", *difference(state["service"], service, patched(service, space, best))]
    return {"better": better, "candidate": list(best), "text": "\n".join(lines)}


def _sure(ratio: Ratio | None, figure: str, better: bool) -> str:
    if ratio is None:
        return "not proved: it was ended before two pairs of starts were measured"
    interval = f"{ratio.low:.3f} to {ratio.high:.3f}"
    shown = f"{figure} {ratio.ratio:.3f} times what serves now ({interval}, 95 % of {ratio.pairs} pairs of starts)"
    return shown if better else f"{shown}: no difference shown, leave it as it is"


def _refused(space: Sequence[Choice], found: Sequence[RefusedCandidate]) -> list[str]:
    """Of those that the plan refused by one rule of one place, the first; each that did not start or answer."""
    alike: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for item in found:
        key = (
            ("", str(item["candidate"]))
            if item["tried"]
            else (item["why"].partition(": ")[0], item["why"].rpartition(" [")[2])
        )
        alike.setdefault(key, []).append(item)
    return [
        f"{'failed' if first['tried'] else 'not tried'}, {words(space, tuple(first['candidate']))}"
        f"{f' and {len(more)} others' if more else ''}: {first['why']}"
        for first, *more in alike.values()
    ]


def _table(space: Sequence[Choice], runs: Sequence[Run], asked: SearchGoal) -> list[str]:
    rows = [["", *asked.figures], *([words(space, run.candidate), *_cells(run, asked)] for run in runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cells(run: Run, asked: SearchGoal) -> list[str]:
    limits = {limit.figure: limit.most for limit in asked.goal.limits}
    return [
        f"{run.figures[name]:.4g}{' (too much)' if run.figures[name] > limits.get(name, math.inf) else ''}"
        for name in asked.figures
    ]


def difference(name: str, before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """What to write into ``fleet_services``, as a unified diff; the values are JSON, which YAML reads."""
    old, new = _text(name, before), _text(name, after)
    return list(difflib.unified_diff(old, new, "fleet_services", "fleet_services", lineterm="", n=len(old)))


def _text(name: str, service: Mapping[str, Any]) -> list[str]:
    lines = [f"{name}:"]
    for part in ("workload", "flags"):
        values = service.get(part) or {}
        lines += [f"  {part}:"] * bool(values)
        lines += [f"    {key}: {json.dumps(value)}" for key, value in values.items()]
    return lines
