# SPDX-License-Identifier: GPL-3.0-or-later
"""Dashboards for Grafana, from ``data/dashboards.yml``: what its provisioning reads, without a plugin, and with our
names alone.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ..._base import layout
from ..._base.gb10 import data_file, data_table
from .rules import is_recorded

FOLDER = f"{layout.MONITORING}/dashboards"
# What a Grafana takes as its folder of provisioning.
PROVISIONING = f"{layout.MONITORING}/grafana"
SOURCE = {"type": "prometheus", "uid": "gb10-fleet"}
_COLUMNS = 24
_HEIGHTS = {"timeseries": 8, "stat": 4}
# What is the same of all dashboards, and of all their variables.
_BOARD, _VARIABLE = data_table("grafana_board"), data_table("grafana_variable")


@dataclass(frozen=True)
class Query:
    """expr: PromQL. legend: of a series, with its labels in double braces."""

    expr: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """unit: Grafana's. width: of 24 columns. kind: ``timeseries`` or ``stat``. words: for 0 and 1, in red and green."""

    title: str
    unit: str
    queries: Sequence[Query]
    width: int = 12
    kind: str = "timeseries"
    words: Sequence[str] = ()


@dataclass(frozen=True)
class Dashboard:
    """name: of its file, and its id. variables: ``{name: PromQL of label_values}``."""

    name: str
    title: str
    panels: Sequence[Panel]
    variables: Sequence[tuple[str, str]]


@cache
def _all() -> Sequence[Dashboard]:
    """``data/dashboards.yml``, with what it leaves out."""
    rows = data_file("dashboards")
    return [
        Dashboard(
            row["name"],
            row["title"],
            [Panel(**panel | {"queries": [Query(**query) for query in panel["queries"]]}) for panel in row["panels"]],
            [*row["variables"].items()],
        )
        for row in rows
    ]


def boards(recorded: Collection[str]) -> list[Dashboard]:
    """All of them, without what no engine tells (`rules.is_recorded`)."""
    return [replace(board, panels=[*_reported(board.panels, recorded)]) for board in _all()]


def _reported(panels: Sequence[Panel], recorded: Collection[str]) -> Iterator[Panel]:
    for panel in panels:
        reported = [query for query in panel.queries if is_recorded(query.expr, recorded)]
        if reported:
            yield replace(panel, queries=reported)


def provisioning(prometheus: str) -> dict[str, str]:
    """Files by which a Grafana finds the dashboards and their data source, by path (JSON is YAML). prometheus: its URL.

    Grafana's documentation, provisioning: the same since release 5.
    """
    source = {**SOURCE, "name": "gb10.fleet", "access": "proxy", "url": prometheus, "editable": False}
    provider = {"name": "gb10.fleet", "folder": "gb10.fleet", "type": "file", "options": {"path": FOLDER}}
    written = {
        "datasources": {"apiVersion": 1, "datasources": [source]},
        "dashboards": {"apiVersion": 1, "providers": [provider]},
    }
    return {f"{PROVISIONING}/{kind}/gb10-fleet.yml": f"{json.dumps(of, indent=1)}\n" for kind, of in written.items()}


def as_text(board: Dashboard) -> str:
    """Grafana's own form."""
    return json.dumps(_model(board), indent=1, sort_keys=True) + "\n"


def _model(board: Dashboard) -> dict[str, Any]:
    own = {"uid": board.name, "title": board.title, "panels": [*_placed(board.panels)]}
    variables = [
        {**_VARIABLE, "name": name, "label": name, "datasource": SOURCE, "query": {"query": query, "refId": name}}
        for name, query in board.variables
    ]
    return {**_BOARD, **own, "templating": {"list": variables}}


def _words(panel: Panel) -> list[dict[str, Any]]:
    shown = zip(("0", "1"), panel.words, ("red", "green"), strict=False)
    values = {value: {"text": text, "color": colour, "index": int(value)} for value, text, colour in shown}
    return [{"type": "value", "options": values}] if values else []


def _placed(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    """From left to right, in rows of 24 columns."""
    x = y = below = 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > _COLUMNS:
            x, y = 0, below
        below = max(below, y + _HEIGHTS[panel.kind])
        yield {
            "id": number,
            "type": panel.kind,
            "title": panel.title,
            "datasource": SOURCE,
            "gridPos": {"h": _HEIGHTS[panel.kind], "w": panel.width, "x": x, "y": y},
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "mappings": _words(panel)}, "overrides": []},
            "targets": [
                {
                    "refId": chr(ord("A") + at),
                    "expr": query.expr,
                    "legendFormat": query.legend,
                    "datasource": SOURCE,
                    # over a range, the last value of what is long over would be shown as if it were now
                    "instant": panel.kind == "stat",
                    "range": panel.kind != "stat",
                }
                for at, query in enumerate(panel.queries)
            ],
        }
        x += panel.width
