# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person reads of a run: tables, a plot's coordinates, lines for a recipe."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from .compare import ASKED_PERCENT, MOST_ROUNDS, Difference
from .figures import BETTER
from .form import SHOWN
from .owner import RELEASE, community_table

# Of a plot, in its own units.
WIDTH, ROW, LEFT = 640, 26, 170
_MEANINGLESS = 4


def table(run: Mapping[str, Any]) -> list[str]:
    """One line a point: the geometric mean of each figure."""
    heads = ["", *BETTER]
    rows = [
        [point, *(f"{geometric_mean(values[figure]):.4g}" for figure in BETTER)]
        for point, values in run["values"].items()
    ]
    return _lines([heads, *rows])


def derived(run: Mapping[str, Any]) -> list[list[str]]:
    """Heads, and a row for each point, of what follows from the figures: what one request's prefill and decode come
    to, and the means of `SHOWN`. Empty where it can't be told."""
    heads = ["", "prefill tok/s", "decode tok/s", *SHOWN]
    rows = []
    for point in run["points"]:
        speeds = _speeds(run, point)
        shown = run["shown"].get(point["name"], {})
        rows.append(
            [point["name"], *_texts(speeds.values()), *_texts(_mean(shown.get(figure, ())) for figure in SHOWN)]
        )
    return [heads, *rows]


def _texts(values: Iterable[float | None]) -> list[str]:
    return ["" if value is None else f"{value:.4g}" for value in values]


def _mean(values: Sequence[float]) -> float | None:
    return geometric_mean(values) if values and min(values) > 0 else None


def _speeds(run: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, float | None]:
    """Tokens a second of one request. Its prefill is its first token's time only where no other request is before it,
    and its prompt all that is read: with llama-benchy also what comes before it."""
    means = {figure: geometric_mean(run["values"][point["name"]][figure]) for figure in BETTER}
    alone = point["at_once"] == 1 and not point["image"]
    tokens = point["prompt"] + (point["depth"] if run["profile"] == "owner" else 0)
    return {
        "prefill": 1000 * tokens / means["first token ms"] if alone else None,
        "decode": 1000 / means["next token ms"],
    }


def tables(run: Mapping[str, object]) -> list[list[list[str]]]:
    """What is shown beside the figures, each with its heads."""
    return [derived(run), *([community_table(run)] if run["profile"] == "owner" else [])]


def text_tables(run: Mapping[str, object]) -> list[str]:
    """`tables` for a terminal."""
    return [line for rows in tables(run) for line in ("", *_lines(rows))]


def comparison(found: Sequence[Difference]) -> list[str]:
    """One line a figure of a point."""
    heads = ["", "", "before", "after", "ratio", "interval", ""]
    rows = [
        [
            *(item.point, item.figure, f"{item.before:.4g}", f"{item.after:.4g}"),
            *(f"{item.ratio:.3f}", span(item), verdict_text(item)),
        ]
        for item in found
    ]
    return _lines([heads, *rows])


def _round_up(value: float) -> float:
    """The next 1, 1.5, 2, 3, 5 or 7 with zeros behind it."""
    ten = 10.0 ** math.floor(math.log10(value))
    return next(part * ten for part in (1, 1.5, 2, 3, 5, 7, 10) if part * ten >= value)


def span(difference: Difference) -> str:
    """The interval. Its digits mean nothing where its ends lie further apart than `_MEANINGLESS`."""
    low, high = difference.low, difference.high
    return f"{low:.3f} to {high:.3f}" if high <= _MEANINGLESS * low else "too wide"


def verdict_text(difference: Difference) -> str:
    """The verdict, and where it is none what that is worth."""
    if difference.verdict != "no difference shown":
        return difference.verdict
    if difference.rounds == 0:
        return f"{difference.verdict}, and none of {ASKED_PERCENT} %"
    rounds = difference.rounds or f"more than {MOST_ROUNDS}"
    return f"{difference.verdict}; {rounds} rounds of both would show one of {ASKED_PERCENT} %"


def _lines(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def recipe_lines(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Entries for ``measured`` of a recipe: of each point with one request at a time its prefill and decode, of others
    what all requests together are answered, and the time to the first token."""
    found = []
    on = f", {run['conditions']['hosts']} hosts" if run["conditions"]["hosts"] > 1 else ""
    for point in run["points"]:
        values = run["values"][point["name"]]
        speeds = _speeds(run, point)
        lines: list[tuple[str, float | None, str]] = [("prefill", speeds["prefill"], "tok/s")]
        if point["at_once"] == 1:
            lines.append(("decode", speeds["decode"], "tok/s"))
        else:
            lines.append(("decode", geometric_mean(values["tokens/s"]), "tok/s"))
        if speeds["prefill"] is None:
            lines.append(("first token", geometric_mean(values["first token ms"]), "ms"))
        found += [
            {
                "what": what,
                "value": float(f"{value:.4g}"),
                "unit": unit,
                "conditions": f"{_llama_benchy(point) if run['profile'] == 'owner' else _sent(point)}{on}",
                "source": f"own benchmark {run['name']}",
            }
            for what, value, unit in lines
            if value is not None
        ]
    return found


def _llama_benchy(point: Mapping[str, object]) -> str:
    return f"1 request, llama-benchy {RELEASE}, {point['name']}"


def _sent(point: Mapping[str, Any]) -> str:
    count = point["at_once"]
    requests = f"{point['rate']:g} requests a second" if point["rate"] else f"{count} request{'s' if count > 1 else ''}"
    after = f" after {point['depth']} that its requests have in common" if point["depth"] else ""
    image = f" and an image of {point['image']}" if point["image"] else ""
    return f"{requests}, {point['prompt']} random prompt tokens{after}{image}"


def recipe_text(run: Mapping[str, object]) -> str:
    """`recipe_lines` to be pasted: JSON, which YAML reads."""
    return "\n".join(f"- {json.dumps(line)}" for line in recipe_lines(run))


def plots(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One a figure: ``{figure, most, better, height, rows}``, a row ``{label, y, dots, middle}`` for each point of
    each run, in the plot's units; from zero, so that what looks twice as long is."""
    found = []
    for figure, more in BETTER.items():
        most = _round_up(max(value for run in runs for values in run["values"].values() for value in values[figure]))
        scale = (WIDTH - LEFT - 20) / most
        rows = [
            (f"{point['name']}{', ' + name if len(runs) > 1 else ''}", run["values"][point["name"]][figure], side)
            for point in runs[0]["points"]
            for side, (name, run) in enumerate(zip(("before", "after"), runs, strict=False))
        ]
        found.append(
            {
                "figure": figure,
                "most": f"{most:.4g}",
                "better": "more is better" if more else "less is better",
                "height": ROW * len(rows) + 30,
                "rows": [
                    {
                        "label": label,
                        "side": side,
                        "y": ROW * place + ROW,
                        "dots": [round(LEFT + scale * value, 1) for value in values],
                        "middle": round(LEFT + scale * geometric_mean(values), 1),
                    }
                    for place, (label, values, side) in enumerate(rows)
                ],
            }
        )
    return found
