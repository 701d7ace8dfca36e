#!/usr/bin/env python3
# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``draw_dashboards.py URL DASHBOARD.json``: what a Grafana would show of it, as a page on stdout.

An imitation of Grafana, which no package registry has: the places, queries, legends and units are the dashboard's own,
the values a real Prometheus' at URL; colours and axes are ours. A series is drawn where it has samples. For pictures in
the docs: ``chromium --headless --screenshot=OUT.png --window-size=1400,1000 PAGE.html``.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

_COLUMN, _ROW = 56, 30  # pixels of a Grafana's grid
_SECONDS, _STEP = 1800, 15
_COLOURS = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#b877d9", "#f2495c", "#8ab8ff", "#c4162a")
_RED, _GREEN = "#f2495c", "#73bf69"
_GREY = 'fill="#8e8e99" font-size="11"'
_Series = tuple[str, list[tuple[float, float]]]
_BINARY = ((2**40, " TiB"), (2**30, " GiB"), (2**20, " MiB"), (1024, " KiB"))
_DECIMAL = ((1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"))
_LEFT = 84  # of a panel's lines, for the values of their axis
_STYLE = """\
body { background: #111217; color: #ccccdc; font: 13px system-ui, "DejaVu Sans", sans-serif; margin: 16px }
h1 { font-size: 20px; font-weight: 500 } main { position: relative }
section { position: absolute; padding: 6px 10px; background: #181b1f; border: 1px solid #2c3235; overflow: hidden }
h2 { font-size: 13px; font-weight: 500; margin: 0 0 4px } .legend { font-size: 11px; line-height: 1.5 }
.legend span { margin-right: 12px; white-space: nowrap } .tile { display: inline-block; margin: 6px 18px 0 0 }
.tile b { display: block; font-size: 30px; font-weight: 500; color: #73bf69 } .none { color: #8e8e99 }"""


def shown(value: float, unit: str) -> str:
    """As Grafana writes a value of these units."""
    if unit in ("bytes", "Bps"):
        sizes, least = (_BINARY, " B") if unit == "bytes" else (_DECIMAL, " B/s")
        size = next(((value / many, word) for many, word in sizes if abs(value) >= many), (value, least))
        return f"{size[0]:.3g}{size[1]}"
    if unit == "percentunit":
        return f"{value * 100:.3g}%"
    if unit == "s":
        return (
            f"{value * 1000:.3g} ms"
            if abs(value) < 1
            else f"{value:.3g} s"
            if abs(value) < 60
            else f"{value / 60:.3g} min"
        )
    many, word = {"hertz": (1e9, " GHz"), "celsius": (1, " °C"), "watt": (1, " W")}.get(unit, (1, ""))
    return f"{value:,.0f}{word}" if many == 1 and abs(value) >= 1000 else f"{value / many:.3g}{word}"


def named(legend: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: labels.get(match[1], ""), legend)


def asked(url: str, expr: str, instant: bool) -> list[dict[str, Any]]:
    """Prometheus' own form of a result, an instant's values as those of a range."""
    now = int(time.time()) // _STEP * _STEP
    times = {"time": now} if instant else {"start": now - _SECONDS, "end": now, "step": _STEP}
    words = urlencode({"query": expr, **times})
    with urllib.request.urlopen(f"{url}/api/v1/query{'' if instant else '_range'}?{words}", timeout=30) as reply:
        found: list[dict[str, Any]] = json.load(reply)["data"]["result"]
    return [{**one, "values": [one["value"]]} for one in found] if instant else found


def series_of(panel: Mapping[str, Any], ask: Callable[[str, bool], list[dict[str, Any]]]) -> list[_Series]:
    """Each series that the panel shows, by its legend, as ``(time, value)``; variables are what they are at first."""
    found = []
    for target in panel["targets"]:
        for one in ask(re.sub(r"\$\w+", ".*", target["expr"]), target["instant"]):
            points = [(float(at), float(value)) for at, value in one["values"] if value not in ("NaN", "+Inf")]
            found.append((named(target["legendFormat"], one["metric"]), points))
    known = [one for one in found if one[1]]
    return known if panel["type"] == "stat" else sorted(known)


def drawn(panel: Mapping[str, Any], series: Sequence[_Series]) -> str:
    place, unit = panel["gridPos"], panel["fieldConfig"]["defaults"]["unit"]
    width, height = place["w"] * _COLUMN - 8, place["h"] * _ROW - 8
    left, top = place["x"] * _COLUMN, place["y"] * _ROW
    if not series:
        inner = '<p class="none">No data</p>'
    elif panel["type"] == "stat":
        words = panel["fieldConfig"]["defaults"].get("mappings") or [{"options": {}}]
        inner = "".join(_tile(name, points[-1][1], unit, words[0]["options"]) for name, points in series)
    else:
        inner = _lines(series, unit, width - 20, height - 70) + _legend(series, unit)
    style = f"box-sizing:border-box;left:{left}px;top:{top}px;width:{width}px;height:{height}px"
    return f'<section style="{style}"><h2>{escape(panel["title"])}</h2>{inner}</section>'


def _tile(name: str, value: float, unit: str, words: Mapping[str, Mapping[str, Any]]) -> str:
    """words: what the panel says for a value, and in which colour."""
    word = words.get(f"{value:g}", {"text": shown(value, unit), "color": "green"})
    colour = _RED if word["color"] == "red" else _GREEN
    return f'<div class="tile">{escape(name)}<b style="color:{colour}">{escape(str(word["text"]))}</b></div>'


def ticks(most: float, unit: str) -> list[float]:
    """Round values from 0 to one not below most, at most six of them, as Grafana draws an axis."""
    rounds = [1.0] if unit == "bytes" else [1.0, 2.0, 2.5, 5.0]
    sizes = [2.0**power for power in range(50)] if unit == "bytes" else [10.0**power for power in range(-9, 13)]
    step = min(round_ * size for round_ in rounds for size in sizes if round_ * size * 5 >= most)
    return [step * number for number in range(math.ceil(most / step - 1e-9) + 1)]


def _lines(series: Sequence[_Series], unit: str, width: int, height: int) -> str:
    values = [value for _, points in series for _, value in points]
    marks = ticks(max(values) or 1.0, unit)
    least, most = 0.0, marks[-1]
    end = max(at for _, points in series for at, _ in points)

    def x(at: float) -> float:
        return _LEFT + (at - end + _SECONDS) / _SECONDS * (width - _LEFT - 4)

    def y(value: float) -> float:
        return height - 18 - (value - least) / (most - least) * (height - 26)

    parts = []
    for value in marks:
        parts.append(f'<line x1="{_LEFT}" x2="{width}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#2c3235"/>')
        label = escape(shown(value, unit))
        parts.append(f'<text x="{_LEFT - 4}" y="{y(value) + 4:.1f}" text-anchor="end" {_GREY}>{label}</text>')
    for minutes in range(5, _SECONDS // 60, 5):
        at = end - minutes * 60
        label = time.strftime("%H:%M", time.gmtime(at))
        parts.append(f'<text x="{x(at) - 14:.1f}" y="{height - 2}" {_GREY}>{label}</text>')
    for number, (_, points) in enumerate(series):
        colour = _COLOURS[number % len(_COLOURS)]
        for part in _unbroken(points):
            path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in part)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return f'<svg width="{width}" height="{height}">{"".join(parts)}</svg>'


def _unbroken(points: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """A line ends where a sample is missing."""
    parts: list[list[tuple[float, float]]] = []
    for point in points:
        if parts and point[0] - parts[-1][-1][0] <= _STEP:
            parts[-1].append(point)
        else:
            parts.append([point])
    return parts


def _legend(series: Sequence[_Series], unit: str) -> str:
    words = []
    for number, (name, points) in enumerate(series):
        mark = f'<i style="color:{_COLOURS[number % len(_COLOURS)]}">━</i>'
        words.append(f"<span>{mark} {escape(name)}: {shown(points[-1][1], unit)}</span>")
    return f'<div class="legend">{" ".join(words)}</div>'


def page(board: Mapping[str, Any], ask: Callable[[str, bool], list[dict[str, Any]]]) -> str:
    panels = "\n".join(drawn(panel, series_of(panel, ask)) for panel in board["panels"])
    title = escape(board["title"])
    return f"""\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
{_STYLE}
</style></head><body><h1>{title}</h1><main>
{panels}
</main></body></html>
"""


if __name__ == "__main__":
    sys.stdout.write(page(json.loads(Path(sys.argv[2]).read_text("utf-8")), lambda *words: asked(sys.argv[1], *words)))
