# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's part of the monitoring: what it shows, and on one host what collects it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..._base import layout
from ..._base.gb10 import fact
from ..._base.slice import Files, MonitoringPart, MonitoringSlice, Slice
from ..._on_host.rank.service import from_plan
from . import console, dashboards, prometheus
from .declared import MonitoringDeclared
from .prometheus import Endpoint
from .rules import Forecast, rules

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
        f"{prometheus.CONSOLES}/fleet.html": console.page(inventory, limits, recorded),
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
