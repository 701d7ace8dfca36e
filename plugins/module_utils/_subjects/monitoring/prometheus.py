# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus and Alertmanager as files and units: one text that releases 2.45 and 3 read (JSON is YAML)."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._base import layout
from ..._base.addresses import in_url
from ..._base.gb10 import data_table, fact, filled
from .declared import Alerts, MonitoringDeclared

CONFIG, RULES = f"{layout.MONITORING}/prometheus.yml", f"{layout.MONITORING}/rules.yml"
CONSOLES = f"{layout.MONITORING}/consoles"
RECEIVERS = f"{layout.MONITORING}/alertmanager.yml"
SECRETS = f"{layout.MONITORING}/secrets"
_SYSTEM_CA = "/etc/ssl/certs/ca-certificates.crt"
_LOOPBACK = "127.0.0.1"
# Of what one target answers. Prometheus takes nothing of an answer that is beyond them, and the target counts as down.
_BOUNDS: Mapping[str, Any] = data_table("prometheus_bounds")
# Labels of ours that alerts show or put into commands, beside those that are names of the plan.
_PLAIN: dict[str, str] = data_table("prometheus_labels")
# Labels of an exporter's own, where an alert shows one: a device or a folder, which asks a person for nothing.
_NO_WORDS = r"[\w./:@#+-]{0,200}"
# What no engine says: series of hosts, of ours, and Prometheus' own.
_NO_ENGINES = "(gb10|node|scrape)[_:].*|up|ALERTS.*"
_MIB = 1 << 20


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


def config(inventory: str, hosts: Mapping[str, str], endpoints: Collection[Endpoint]) -> dict[str, Any]:
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
            {
                "job_name": "host",
                "static_configs": of_hosts,
                **_BOUNDS,
                "metric_relabel_configs": _of_hosts(hosts, {endpoint.service for endpoint in endpoints}),
            },
            *(_scraped(one) for one in sorted(endpoints, key=lambda item: item.service)),
        ],
    }


def _of_hosts(hosts: Iterable[str], services: Iterable[str]) -> list[dict[str, Any]]:
    """What of a host's metrics is kept: series of the exporter and ours, with labels that are the plan's or plain.

    Alerts put labels into commands that a person types, and the page into its queries.
    """
    ours = _PLAIN | {"of": _one_of(hosts), "service": _one_of(services)}
    return [
        {
            "action": "keep",
            "source_labels": ["__name__", label],
            "regex": rf"(node|process|go|promhttp)_.*;{_NO_WORDS}|gb10_[a-z0-9_]*;({pattern})",
        }
        for label, pattern in sorted(ours.items())
    ]


def _one_of(names: Iterable[str]) -> str:
    return "|".join(["", *(re.escape(name) for name in sorted(names))])


def _scraped(endpoint: Endpoint) -> dict[str, Any]:
    """A job of its own, since a key is one of a job; its series bear the job's name that all services share."""
    labels = {"job": "service", "service": endpoint.service, "host": endpoint.host}
    found: dict[str, Any] = {
        "job_name": f"service-{endpoint.service}",
        "metrics_path": endpoint.path,
        "static_configs": [{"targets": [endpoint.target], "labels": labels}],
        **_BOUNDS,
        "metric_relabel_configs": [{"action": "drop", "source_labels": ["__name__"], "regex": _NO_ENGINES}],
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
    hooks: list[dict[str, Any]] = [
        {"url_file": credential(layout.ALERTMANAGER_UNIT, key), "send_resolved": True}
        for key in ("webhook_url_file", "ntfy_url_file")
        if key in alerts
    ]
    if "webhook_token_file" in alerts:  # its URL is there, and is the first
        token = credential(layout.ALERTMANAGER_UNIT, "webhook_token_file")
        hooks[0]["http_config"] = {"authorization": {"credentials_file": token}}
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
    return {"route": data_table("alertmanager_route"), "receivers": [owner]}


def alert_secrets(alerts: Alerts) -> dict[str, str]:
    """The owner's files on the controller, by the name of the credential."""
    found = {key: alerts[key] for key in ("webhook_url_file", "webhook_token_file", "ntfy_url_file") if key in alerts}
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


def memory_bytes(targets: int) -> int:
    """What Prometheus may take of its host's memory: twice what so many targets took, and as much as one may add."""
    return int(512 + 2 * targets * fact("monitoring", "target_mib")) * _MIB


def prometheus_unit(
    monitoring: MonitoringDeclared, most_bytes: int, memory: int, keys: Sequence[str], inventory: str
) -> str:
    """most_bytes: of its disk. memory: bytes. keys: names of services whose key it needs."""
    loaded = "".join(f"LoadCredential={key_name(key)}:{SECRETS}/{key_name(key)}\n" for key in keys)
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
        memory_mib=memory // _MIB,
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
    """Root, for the reports of the drift check and the kernel's lines, without any other power of root's."""
    command = f"/usr/bin/python3 -I {layout.METRICS_PROGRAM} {layout.METRICS_PLAN}"
    more = (
        f"RuntimeDirectory={layout.METRICS.rpartition('/')[2]}\nCapabilityBoundingSet=CAP_DAC_READ_SEARCH CAP_SYSLOG\n"
    )
    return _unit("metrics of GPU, services, fabric and drift", command, more, inventory, user="")


def _unit(what: str, command: str, more: str, inventory: str, **words: object) -> str:
    own = {"user": "DynamicUser=true\n", "memory_mib": 128, **words}
    return filled("monitoring.service", what=what, command=command, more=more, inventory=inventory, **own)
