# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus and Alertmanager as files and units: one text that releases 2.45 and 3 read (JSON is YAML)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._base import layout
from ..._base.addresses import in_url
from ..._base.gb10 import fact
from .declared import Alerts, MonitoringDeclared

CONFIG, RULES = f"{layout.MONITORING}/prometheus.yml", f"{layout.MONITORING}/rules.yml"
CONSOLES = f"{layout.MONITORING}/consoles"
RECEIVERS = f"{layout.MONITORING}/alertmanager.yml"
SECRETS = f"{layout.MONITORING}/secrets"
_SYSTEM_CA = "/etc/ssl/certs/ca-certificates.crt"
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Endpoint:
    """A service's metrics. target: address and port. tls_name: the name in its certificate; empty without TLS. key: its
    key on the controller; empty without."""

    service: str
    host: str
    target: str
    path: str
    tls_name: str = ""
    key: str = ""


def as_text(data: Mapping[str, object]) -> str:
    return f"{layout.MARK}\n{json.dumps(data, indent=2, sort_keys=True)}\n"


def config(inventory: str, hosts: Mapping[str, str], endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """``prometheus.yml``. hosts: each one's node exporter, address and port."""
    interval = f"{fact('monitoring', 'interval_s')}s"
    alertmanager = f"{_LOOPBACK}:{fact('monitoring', 'alertmanager_port')}"
    of_hosts = [{"targets": [target], "labels": {"host": host}} for host, target in sorted(hosts.items())]
    return {
        "global": {
            "scrape_interval": interval,
            "evaluation_interval": interval,
            "external_labels": {"fleet": inventory},
        },
        "rule_files": [RULES],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": [
            {"job_name": "host", "static_configs": of_hosts},
            *(_scraped(one) for one in sorted(endpoints, key=lambda one: one.service)),
        ],
    }


def _scraped(endpoint: Endpoint) -> dict[str, Any]:
    """A job of its own, since a key is one of a job; its series bear the job's name that all services share."""
    labels = {"job": "service", "service": endpoint.service, "host": endpoint.host}
    found: dict[str, Any] = {
        "job_name": f"service-{endpoint.service}",
        "metrics_path": endpoint.path,
        "static_configs": [{"targets": [endpoint.target], "labels": labels}],
    }
    if endpoint.tls_name:
        found |= {"scheme": "https", "tls_config": {"ca_file": _SYSTEM_CA, "server_name": endpoint.tls_name}}
    if endpoint.key:
        credentials = credential(layout.PROMETHEUS_UNIT, key_name(endpoint.service))
        found["authorization"] = {"type": "Bearer", "credentials_file": credentials}
    return found


def key_name(service: str) -> str:
    return f"key-{service}"


def credential(unit: str, name: str) -> str:
    """Where systemd lays a secret for the processes of one unit alone (systemd.exec(5), LoadCredential=)."""
    return f"/run/credentials/{unit}/{name}"


def receivers(alerts: Alerts) -> dict[str, Any]:
    """``alertmanager.yml``. alerts: of the checked ``fleet_monitoring``; without any, alerts are only shown."""
    owner: dict[str, Any] = {"name": "owner"}
    hooks = [
        {"url_file": credential(layout.ALERTMANAGER_UNIT, key), "send_resolved": True}
        for key in ("webhook_url_file", "ntfy_url_file")
        if key in alerts
    ]
    if hooks:
        owner["webhook_configs"] = hooks
    if "email" in alerts:
        email = alerts["email"]
        sent = {key: email[key] for key in ("to", "from", "smarthost")} | {"send_resolved": True}
        # Alertmanager else asks for TLS also of the host's own mail server
        sent["require_tls"] = not email["smarthost"].startswith(("127.", "localhost:", "[::1]:"))
        if "username" in email:
            sent["auth_username"] = email["username"]
        if "password_file" in email:
            sent["auth_password_file"] = credential(layout.ALERTMANAGER_UNIT, "password_file")
        owner["email_configs"] = [sent]
    return {
        "route": {
            "receiver": "owner",
            "group_by": ["alertname", "host"],
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": "12h",
        },
        "receivers": [owner],
    }


def alert_secrets(alerts: Alerts) -> dict[str, str]:
    """The owner's files on the controller, by the name of the credential."""
    found = {key: alerts[key] for key in ("webhook_url_file", "ntfy_url_file") if key in alerts}
    password = alerts.get("email", {}).get("password_file")
    return found | ({"password_file": password} if password else {})


def retention_bytes(hosts: int, services: int, days: int) -> int:
    """What so many days take on the disk at most: samples of each series, and half as much again for indexes and what
    is rewritten."""
    samples = hosts * fact("monitoring", "host_series") + services * fact("monitoring", "service_series")
    a_day = samples * 86_400 // fact("monitoring", "interval_s") * fact("monitoring", "sample_bytes")
    return max(1 << 30, int(a_day * days * 1.5))


def url(monitoring: MonitoringDeclared) -> str:
    """Where Prometheus answers on its host."""
    return f"http://{in_url(monitoring['listen'])}:{monitoring['port']}"


def prometheus_unit(monitoring: MonitoringDeclared, most_bytes: int, keys: Sequence[str], inventory: str) -> str:
    """keys: names of services whose key it needs."""
    loaded = "".join(f"LoadCredential={key_name(one)}:{SECRETS}/{key_name(one)}\n" for one in keys)
    command = (
        f"/usr/bin/prometheus --config.file={CONFIG} --storage.tsdb.path=/var/lib/gb10-prometheus "
        f"--storage.tsdb.retention.time={monitoring['retention_days']}d --storage.tsdb.retention.size={most_bytes}B "
        f"--web.listen-address={url(monitoring).removeprefix('http://')} --web.console.templates={CONSOLES} "
        f"--web.console.libraries={CONSOLES}"
    )
    return _unit(
        "Prometheus, which collects the fleet's metrics",
        command,
        f"{loaded}StateDirectory=gb10-prometheus\nExecReload=/bin/kill -HUP $MAINPID\nTimeoutStopSec=120\n",
        inventory,
    )


def alertmanager_unit(secrets: Iterable[str], inventory: str) -> str:
    loaded = "".join(f"LoadCredential={name}:{SECRETS}/{name}\n" for name in sorted(secrets))
    command = (
        f"/usr/bin/prometheus-alertmanager --config.file={RECEIVERS} --storage.path=/var/lib/gb10-alertmanager "
        f"--web.listen-address={_LOOPBACK}:{fact('monitoring', 'alertmanager_port')} --cluster.listen-address="
    )
    more = f"{loaded}StateDirectory=gb10-alertmanager\nExecReload=/bin/kill -HUP $MAINPID\n"
    return _unit("Alertmanager, which tells of alerts", command, more, inventory)


def exporter_unit(inventory: str) -> str:
    collectors = " ".join(f"--collector.{name}" for name in fact("monitoring", "collectors"))
    command = (
        f"/usr/bin/prometheus-node-exporter --web.listen-address=:{fact('monitoring', 'exporter_port')} "
        f"--collector.disable-defaults {collectors} --collector.textfile.directory={layout.METRICS}"
    )
    return _unit("node exporter, which shows this host's metrics", command, "", inventory)


def metrics_unit(inventory: str) -> str:
    """Root, for the reports of the drift check, without any other power of root's."""
    command = f"/usr/bin/python3 -I {layout.METRICS_PROGRAM} {layout.METRICS_PLAN}"
    more = f"RuntimeDirectory={layout.METRICS.rpartition('/')[2]}\nCapabilityBoundingSet=CAP_DAC_READ_SEARCH\n"
    return _unit("metrics of GPU, services, fabric and drift", command, more, inventory, user="")


def _unit(what: str, command: str, more: str, inventory: str, user: str = "DynamicUser=true\n") -> str:
    return f"""\
{layout.MARK}
[Unit]
Description=gb10.fleet: {what}
Wants=network-online.target
After=network-online.target

[Service]
ExecStart={command}
{user}{more}Restart=always
RestartSec=5
NoNewPrivileges=true
ProtectSystem=strict
ProtectHome=true
PrivateTmp=true

[Install]
WantedBy=multi-user.target

[X-Gb10Fleet]
Inventory={inventory}
"""
