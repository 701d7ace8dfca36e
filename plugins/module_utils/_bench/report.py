# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What a person reads of a run: tables, a plot's coordinates, lines for a recipe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._bench.compare import Difference
from ansible_collections.gb10.fleet.plugins.module_utils._bench.form import BETTER

# Of a plot, in its own units.
WIDTH, ROW, LEFT = 640, 26, 170


def table(run: Mapping[str, Any]) -> list[str]:
    """One line a point: the geometric mean of each figure."""
    heads = ["", *BETTER]
    rows = [
        [point, *(f"{geometric_mean(values[figure]):.4g}" for figure in BETTER)]
        for point, values in run["values"].items()
    ]
    return _lines([heads, *rows])


def comparison(found: Sequence[Difference]) -> list[str]:
    """One line a figure of a point."""
    heads = ["", "", "before", "after", "ratio", "interval", ""]
    rows = [
        [
            *(one.point, one.figure, f"{one.before:.4g}", f"{one.after:.4g}"),
            *(f"{one.ratio:.3f}", f"{one.low:.3f} to {one.high:.3f}", one.verdict),
        ]
        for one in found
    ]
    return _lines([heads, *rows])


def _lines(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def recipe_lines(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Entries for ``measured`` of a recipe: prefill and decode of each point with one request at a time."""
    found = []
    for point in (one for one in run["points"] if one["at_once"] == 1):
        means = {figure: geometric_mean(values) for figure, values in run["values"][point["name"]].items()}
        on = f", {run['conditions']['hosts']} hosts" if run["conditions"]["hosts"] > 1 else ""
        conditions = f"1 request, {point['prompt']} random prompt tokens{on}"
        speeds = {"prefill": point["prompt"] / means["first token ms"], "decode": 1 / means["next token ms"]}
        found += [
            {
                "what": what,
                "value": float(f"{1000 * speed:.4g}"),
                "unit": "tok/s",
                "conditions": conditions,
                "source": f"own benchmark {run['name']}",
            }
            for what, speed in speeds.items()
        ]
    return found


def recipe_text(run: Mapping[str, Any]) -> str:
    """`recipe_lines` to be pasted: JSON, which YAML reads."""
    return "\n".join(f"- {json.dumps(line)}" for line in recipe_lines(run))


def plots(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One a figure: ``{figure, most, better, height, rows}``, a row ``{label, y, dots, middle}`` for each point of
    each run, in the plot's units; from zero, so that what looks twice as long is."""
    found = []
    for figure, more in BETTER.items():
        most = max(value for run in runs for values in run["values"].values() for value in values[figure])
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
