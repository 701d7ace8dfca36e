# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's part of the monitoring: what it shows, and on one host what collects it."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from ..._base import layout
from ..._base.gb10 import data_table, fact, text_of
from ..._base.slice import Files, MonitoringPart, MonitoringSlice, Slice
from ..._on_host.rank.service import from_plan
from . import dashboards, prometheus
from .declared import MonitoringDeclared
from .prometheus import Endpoint
from .rules import Alert, Forecast, alerts, is_recorded, rules

# Heading, PromQL with %s for the labels of the row, how a value is shown.
_COLUMNS_OF_HOSTS: tuple[tuple[str, str, str], ...] = data_table("console_hosts")
_COLUMNS_OF_SERVICES: tuple[tuple[str, str, str], ...] = data_table("console_services")
_HOSTS, _RANKS = 'up{job="host"}', "gb10_service_serving"
# Series of an alert's condition, as ALERTS itself has the value 1.
_FIRING = '({expr}) and ignoring (alertname, alertstate, severity) ALERTS{{alertname="{name}",alertstate="firing"}}'


def page(inventory: str, limits: Mapping[str, object], recorded: Collection[str]) -> str:
    """limits, recorded: as in `rules.alerts`."""
    return text_of(
        "console.html",
        inventory=escape(inventory),
        alerts=_alert_rows(alerts(limits, recorded)),
        hosts=_table(("host",), _HOSTS, _COLUMNS_OF_HOSTS),
        services=_table(("host", "service", "rank"), _RANKS, _of_services(recorded)),
    )


def _of_services(recorded: Collection[str]) -> list[tuple[str, str, str]]:
    return [column for column in _COLUMNS_OF_SERVICES if is_recorded(column[1], recorded)]


def _alert_rows(of: Iterable[Alert]) -> str:
    rows = []
    for alert in of:
        what, command = (_of_page(text) for text in (alert.summary, alert.command))
        rows.append(
            f"{{{{ range query {_quoted(_FIRING.format(expr=alert.expr, name=alert.name))} }}}}"
            f'<tr><td class="{alert.severity}">{alert.name}</td><td>{what}</td><td><code>{command}</code></td></tr>'
            "{{ end }}"
        )
    return "\n".join(rows)


def _of_page(text: str) -> str:
    """An alert's words: its labels and its value are the row's."""
    text = escape(text, quote=False).replace("{{ $value", "{{ .Value")
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"{{ .Labels.\1 }}", text)


def _table(labels: Sequence[str], rows: str, columns: Sequence[tuple[str, str, str]]) -> str:
    """labels: of a row's series, which its columns are asked with; requests are those of a service on a host."""
    heads = "".join(f"<th>{name}</th>" for name in (*labels, *(name for name, _, _ in columns)))
    first = "".join(f"<td>{{{{ $row.Labels.{label} }}}}</td>" for label in labels)
    cells = "".join(_cell(labels, expr, shown) for _, expr, shown in columns)
    each = f"{{{{ range query {_quoted(rows)} | sortByLabel {_quoted(labels[0])} }}}}{{{{ $row := . }}}}"
    return f"<table><tr>{heads}</tr>\n{each}<tr>{first}{cells}</tr>\n{{{{ end }}}}</table>"


def _cell(labels: Sequence[str], expr: str, shown: str) -> str:
    asked = [label for label in labels if not (label == "rank" and expr.startswith("gb10:"))]
    form = expr % ",".join(f"{label}=%q" for label in asked)
    values = " ".join(f"$row.Labels.{label}" for label in asked)
    return f"<td>{{{{ with printf {_quoted(form)} {values} | query }}}}{shown}{{{{ else }}}}-{{{{ end }}}}</td>"


def _quoted(text: str) -> str:
    """A text of Go's templates."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_PROGRAM = "plugins/module_utils/_on_host/textfile.py"


def shown_slice(slice_: Slice, guard_bytes: int, inventory: str) -> MonitoringPart:
    """What every host of a fleet with monitoring has: the node exporter, and what writes our metrics for it.

    slice_: of the host, as far as it is decided.
    """
    gateway = slice_["gateway"]
    reads = {
        "textfile": f"{layout.METRICS}/gb10.prom",
        "interval_s": fact("monitoring", "interval_s"),
        "floor_bytes": int(fact("memory", "floor_gib") * (1 << 30)),
        "guard_bytes": guard_bytes,
        "services": [
            {
                "name": service["name"],
                "rank": service["rank"],
                "status_file": service["status_file"],
                "starts_file": service["proof"]["starts"]["path"] if service["proof"] else "",
                "high_bytes": from_plan(service["supervisor"]).guard.high_bytes,
            }
            for service in slice_["services"]
        ],
        "interfaces": [interface["name"] for interface in slice_["fabric"]["interfaces"]],
        "paths": [layout.STATE],
        "drift": f"{layout.STATE}/drift/history.json",
        "gateway": {
            "socket": layout.GATEWAY_SOCKET,
            "certificate": layout.GATEWAY_CERTIFICATE,
            "services": sorted(gateway["servers"]),
        }
        if gateway
        else {},
    }
    return {
        "packages": ["prometheus-node-exporter"],
        "units": {layout.METRICS_UNIT: "started", layout.EXPORTER_UNIT: "started"},
        "folders": {},
        "files": _files(
            {
                layout.METRICS_PLAN: json.dumps(reads, indent=2, sort_keys=True) + "\n",
                f"{layout.UNITS}/{layout.METRICS_UNIT}": prometheus.metrics_unit(inventory),
                f"{layout.UNITS}/{layout.EXPORTER_UNIT}": prometheus.exporter_unit(inventory),
            }
        )
        | {layout.METRICS_PROGRAM: {"mode": "0644", "source": _PROGRAM}},
        "reads": {layout.METRICS_UNIT: [layout.METRICS_PLAN, layout.METRICS_PROGRAM]},
        "secrets": [],
    }


@dataclass(frozen=True)
class Collected:
    """hosts: each one's node exporter, address and port. endpoints: of services. engines: the series of each engine
    that serves. disk_gib: under so much free disk it alerts. load_s: no service may be silent for longer in a load.
    forecasts: of services that make tokens. timer_host: whose timer checks the fleet each night."""

    hosts: Mapping[str, str] = field(default_factory=dict)
    endpoints: Sequence[Endpoint] = ()
    engines: Sequence[Mapping[str, str]] = ()
    disk_gib: float = 0
    load_s: float = 0
    forecasts: Sequence[Forecast] = ()
    timer_host: str = ""


def collected_slice(monitoring: MonitoringDeclared, of: Collected, inventory: str) -> MonitoringPart:
    """What the monitoring host has besides. monitoring: as `declared.decide` completes it."""
    hosts, endpoints = of.hosts, of.endpoints
    keyed = [endpoint for endpoint in endpoints if endpoint.key]
    limits = {
        "first_token_s": monitoring["first_token_s"],
        "preemptions_per_s": fact("monitoring", "preemptions_per_s"),
        "disk_gib": of.disk_gib,
        "load_s": of.load_s,
        "timer_host": of.timer_host,
    }
    of_alerts = prometheus.alert_secrets(monitoring["alerts"])
    most = prometheus.retention_bytes(len(hosts), len(endpoints), monitoring["retention_days"])
    ruled = rules(of.engines, limits, of.forecasts)
    recorded = [rule["record"] for group in ruled["groups"] for rule in group["rules"] if "record" in rule]
    texts = {
        prometheus.CONFIG: prometheus.as_text(prometheus.config(inventory, hosts, endpoints)),
        prometheus.RULES: prometheus.as_text(ruled),
        prometheus.RECEIVERS: prometheus.as_text(prometheus.receivers(monitoring["alerts"])),
        f"{prometheus.CONSOLES}/fleet.html": page(inventory, limits, recorded),
        f"{layout.UNITS}/{layout.PROMETHEUS_UNIT}": prometheus.prometheus_unit(
            monitoring,
            most,
            prometheus.memory_bytes(len(hosts) + len(endpoints)),
            [endpoint.service for endpoint in keyed],
            inventory,
        ),
        f"{layout.UNITS}/{layout.ALERTMANAGER_UNIT}": prometheus.alertmanager_unit(of_alerts, inventory),
        **{
            f"{dashboards.FOLDER}/{board.name}.json": dashboards.as_text(board) for board in dashboards.boards(recorded)
        },
        **dashboards.provisioning(prometheus.url(monitoring)),
    }
    return {
        "packages": ["prometheus", "prometheus-alertmanager"],
        "units": {layout.PROMETHEUS_UNIT: "started", layout.ALERTMANAGER_UNIT: "started"},
        "folders": {layout.MONITORING: "0755", prometheus.SECRETS: "0700"},
        "files": _files(texts),
        "reads": {
            layout.PROMETHEUS_UNIT: [prometheus.CONFIG, prometheus.RULES],
            layout.ALERTMANAGER_UNIT: [prometheus.RECEIVERS],
        },
        "secrets": [
            {"source": source, "path": f"{prometheus.SECRETS}/{name}", "unit": unit}
            for name, source, unit in (
                *((prometheus.key_name(endpoint.service), endpoint.key, layout.PROMETHEUS_UNIT) for endpoint in keyed),
                *((name, source, layout.ALERTMANAGER_UNIT) for name, source in sorted(of_alerts.items())),
            )
        ],
    }


def _files(texts: Mapping[str, str]) -> Files:
    return {path: {"mode": "0644", "content": text} for path, text in sorted(texts.items())}


def host_slice(parts: Sequence[MonitoringPart], inventory: str, url: str) -> MonitoringSlice:
    """``hosts.<host>.monitoring`` of these parts. reads: files that a unit reads once, when it starts. gone: unit files
    that an earlier declaration of the same inventory may have left. url: where its page is, on the monitoring host."""
    units = {unit: state for part in parts for unit, state in part["units"].items()}
    return {
        "units": units,
        "folders": {path: mode for part in parts for path, mode in part["folders"].items()},
        "files": {path: file for part in parts for path, file in part["files"].items()},
        "reads": {unit: files for part in parts for unit, files in part["reads"].items()},
        "inventory": inventory,
        "url": url,
        "packages": [package for part in parts for package in part["packages"]],
        "secrets": [secret for part in parts for secret in part["secrets"]],
        "gone": [f"{layout.UNITS}/{unit}" for unit in layout.MONITORING_UNITS if unit not in units],
    }
