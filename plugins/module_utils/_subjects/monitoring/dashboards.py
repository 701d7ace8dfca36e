# SPDX-License-Identifier: GPL-3.0-or-later
"""Dashboards for Grafana, from typed panels: what its provisioning reads, without a plugin, and with our names alone.

The variables ``$host`` and ``$service`` are regular expressions, all at first.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..._base import layout
from .rules import is_recorded

FOLDER = f"{layout.MONITORING}/dashboards"
# What a Grafana takes as its folder of provisioning.
PROVISIONING = f"{layout.MONITORING}/grafana"
SOURCE = {"type": "prometheus", "uid": "gb10-fleet"}
_COLUMNS = 24
_HEIGHTS = {"timeseries": 8, "stat": 4}
_SCHEMA = 39


@dataclass(frozen=True)
class Query:
    """expr: PromQL. legend: of a series, with its labels in double braces."""

    expr: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """unit: Grafana's. width: of 24 columns. kind: ``timeseries`` or ``stat``."""

    title: str
    unit: str
    queries: Sequence[Query]
    width: int = 12
    kind: str = "timeseries"


@dataclass(frozen=True)
class Dashboard:
    """name: of its file, and its id. variables: ``{name: PromQL of label_values}``."""

    name: str
    title: str
    panels: Sequence[Panel]
    variables: Sequence[tuple[str, str]] = (("host", "label_values(up, host)"),)


_HOST, _SERVICE = 'host=~"$host"', 'host=~"$host",service=~"$service"'
_BY_HOST, _BY_SERVICE = "{{host}}", "{{service}} on {{host}}"

_FLEET = Dashboard(
    "gb10-fleet",
    "gb10.fleet",
    [
        Panel("Serving", "none", [Query(f"gb10_service_serving{{{_HOST}}}", _BY_SERVICE)], 12, "stat"),
        Panel("Hosts that answer", "none", [Query(f'up{{job="host",{_HOST}}}', _BY_HOST)], 12, "stat"),
        Panel(
            "Memory left, and the floor",
            "bytes",
            [
                Query(f"node_memory_MemAvailable_bytes{{{_HOST}}}", _BY_HOST),
                Query(f"gb10_memory_floor_bytes{{{_HOST}}}", "floor of {{host}}"),
            ],
        ),
        Panel("Tokens a second", "none", [Query(f"gb10:generated_tokens:rate5m{{{_HOST}}}", _BY_SERVICE)]),
        Panel("GPU at work", "percentunit", [Query(f"gb10_gpu_utilization_ratio{{{_HOST}}}", _BY_HOST)]),
        Panel("GPU temperature", "celsius", [Query(f"gb10_gpu_temperature_celsius{{{_HOST}}}", _BY_HOST)]),
        Panel("GPU power", "watt", [Query(f"gb10_gpu_power_watts{{{_HOST}}}", _BY_HOST)]),
        Panel("GPU clock", "hertz", [Query(f"gb10_gpu_sm_clock_hertz{{{_HOST}}}", _BY_HOST)]),
        Panel("Disk left", "bytes", [Query(f"gb10_disk_free_bytes{{{_HOST}}}", "{{path}} of {{host}}")]),
        Panel("Load", "none", [Query(f"node_load1{{{_HOST}}}", _BY_HOST)]),
    ],
)
_SERVICES = Dashboard(
    "gb10-service",
    "gb10.fleet: a service",
    [
        Panel(
            "Requests",
            "none",
            [
                Query(f"gb10:requests_running{{{_SERVICE}}}", f"running: {_BY_SERVICE}"),
                Query(f"gb10:requests_waiting{{{_SERVICE}}}", f"waiting: {_BY_SERVICE}"),
            ],
        ),
        Panel("KV pool in use", "percentunit", [Query(f"gb10:kv_use:ratio{{{_SERVICE}}}", _BY_SERVICE)]),
        Panel(
            "Tokens a second",
            "none",
            [
                Query(f"gb10:prompt_tokens:rate5m{{{_SERVICE}}}", f"prompts: {_BY_SERVICE}"),
                Query(f"gb10:generated_tokens:rate5m{{{_SERVICE}}}", f"answers: {_BY_SERVICE}"),
            ],
        ),
        Panel(
            "Time to the first token",
            "s",
            [
                Query(f"gb10:first_token_seconds:p50{{{_SERVICE}}}", f"half of {_BY_SERVICE}"),
                Query(f"gb10:first_token_seconds:p95{{{_SERVICE}}}", f"95 % of {_BY_SERVICE}"),
            ],
        ),
        Panel(
            "Time between tokens, 95 %",
            "s",
            [Query(f"gb10:next_token_seconds:p95{{{_SERVICE}}}", _BY_SERVICE)],
        ),
        Panel("Time in the queue, on average", "s", [Query(f"gb10:queue_seconds:mean5m{{{_SERVICE}}}", _BY_SERVICE)]),
        Panel(
            "Prompts found in the prefix cache",
            "percentunit",
            [Query(f"gb10:prefix_hits:ratio5m{{{_SERVICE}}}", _BY_SERVICE)],
        ),
        Panel("Preemptions", "none", [Query(f"gb10:preemptions:rate5m{{{_SERVICE}}}", _BY_SERVICE)]),
        Panel(
            "Memory, and the most that was planned",
            "bytes",
            [
                Query(f"gb10_service_memory_bytes{{{_SERVICE}}}", _BY_SERVICE),
                Query(f"gb10_service_planned_bytes{{{_SERVICE}}}", f"planned: {_BY_SERVICE}"),
            ],
        ),
        Panel("Starts left", "none", [Query(f"gb10_service_starts_left{{{_SERVICE}}}", _BY_SERVICE)]),
    ],
    (("host", "label_values(up, host)"), ("service", "label_values(gb10_service_serving, service)")),
)
_GROUPS = Dashboard(
    "gb10-group",
    "gb10.fleet: ranks of groups",
    [
        Panel(
            "State of each rank",
            "none",
            [Query(f"gb10_service_state{{{_SERVICE}}} == 1", "{{service}}, rank {{rank}} on {{host}}: {{state}}")],
            24,
            "stat",
        ),
        Panel(
            "Memory of each rank",
            "bytes",
            [Query(f"gb10_service_memory_bytes{{{_SERVICE}}}", "rank {{rank}} on {{host}}")],
        ),
        Panel("GPU at work", "percentunit", [Query(f"gb10_gpu_utilization_ratio{{{_HOST}}}", _BY_HOST)]),
        Panel("Bad looks in a row", "none", [Query(f"gb10_service_strikes{{{_SERVICE}}}", _BY_SERVICE)]),
        Panel("Age of status", "s", [Query(f"gb10_service_status_age_seconds{{{_SERVICE}}}", _BY_SERVICE)]),
    ],
    (("host", "label_values(up, host)"), ("service", "label_values(gb10_service_serving, service)")),
)
_PORTS = f'{_HOST},device=~"en.*"'
_FABRIC = Dashboard(
    "gb10-fabric",
    "gb10.fleet: the fabric",
    [
        Panel("Light", "none", [Query(f"gb10_fabric_link{{{_HOST}}}", "{{device}} of {{host}}")], 24, "stat"),
        *(
            Panel(title, unit, [Query(f"rate({series}{{{labels}}}[5m])", "{{device}} of {{host}}")])
            for title, unit, series, labels in (
                ("RDMA, sent", "Bps", "node_infiniband_port_data_transmitted_bytes_total", _HOST),
                ("RDMA, received", "Bps", "node_infiniband_port_data_received_bytes_total", _HOST),
                ("TCP and UDP, sent", "Bps", "node_network_transmit_bytes_total", _PORTS),
                ("TCP and UDP, received", "Bps", "node_network_receive_bytes_total", _PORTS),
                ("Frames with errors", "none", "node_network_receive_errs_total", _PORTS),
                ("Frames dropped", "none", "node_network_receive_drop_total", _PORTS),
            )
        ),
    ],
)


def boards(recorded: Collection[str]) -> list[Dashboard]:
    """All of them, without what no engine tells (`rules.is_recorded`)."""
    return [
        replace(board, panels=[*_reported(board.panels, recorded)]) for board in (_FLEET, _SERVICES, _GROUPS, _FABRIC)
    ]


def _reported(panels: Sequence[Panel], recorded: Collection[str]) -> Iterator[Panel]:
    for panel in panels:
        reported = [query for query in panel.queries if is_recorded(query.expr, recorded)]
        if reported:
            yield replace(panel, queries=reported)


def queries(recorded: Collection[str]) -> list[str]:
    """Each query of each panel, for all hosts and services."""
    found = (query.expr for board in boards(recorded) for panel in board.panels for query in panel.queries)
    return [expr.replace("$host", ".*").replace("$service", ".*") for expr in found]


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
    return {
        "uid": board.name,
        "title": board.title,
        "schemaVersion": _SCHEMA,
        "version": 1,
        "editable": False,
        "refresh": "30s",
        "tags": ["gb10.fleet"],
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_variable(name, query) for name, query in board.variables]},
        "panels": [*_placed(board.panels)],
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    everything = {"text": "All", "value": "$__all"}
    return {
        "type": "query",
        "name": name,
        "label": name,
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": everything,
    }


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
            "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
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
