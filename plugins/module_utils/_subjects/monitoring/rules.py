# SPDX-License-Identifier: GPL-3.0-or-later
"""What Prometheus computes and when it calls: PromQL that 2.45 and 3 both read.

Recording rules give every engine's series one name of ours (``gb10:...``), so that alerts and dashboards name no
engine. Each alert says with which command its cause is looked at or mended.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

_BY = "host, service"


@dataclass(frozen=True)
class Alert:
    """expr: PromQL whose series are the alerts. for_s: so long without a break. summary, command: for a person, with
    Prometheus' templates."""

    name: str
    expr: str
    for_s: int
    severity: Literal["critical", "warning"]
    summary: str
    command: str

    def as_rule(self) -> dict[str, Any]:
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": f"{self.for_s}s",
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "command": self.command},
        }


def rules(engines: Iterable[Mapping[str, str]], limits: Mapping[str, Any]) -> dict[str, Any]:
    """A rules file as data. engines: the series of each engine that serves (`_engines.interface.Series`). limits:
    ``monitoring`` of data/gb10.yml with what the owner declared."""
    recorded = [{"record": name, "expr": expr} for name, expr in recordings([*engines]).items()]
    groups = [{"name": "gb10-recorded", "rules": recorded}] if recorded else []
    asked = alerts(limits, [rule["record"] for rule in recorded])
    return {"groups": [*groups, {"name": "gb10-alerts", "rules": [alert.as_rule() for alert in asked]}]}


def recordings(engines: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """PromQL by the name that it is recorded as; what no engine tells is left out."""
    found: dict[str, list[str]] = {}
    for series in engines:
        for name, expr in _recorded(series):
            found.setdefault(name, []).append(expr)
    return {name: " or ".join(exprs) for name, exprs in found.items()}


def _recorded(series: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, name, expr in (
        ("running", "gb10:requests_running", "sum by ({by}) ({0})"),
        ("waiting", "gb10:requests_waiting", "sum by ({by}) ({0})"),
        ("kv_use", "gb10:kv_use:ratio", "max by ({by}) ({0})"),
        ("preempted", "gb10:preemptions:rate5m", "sum by ({by}) (rate({0}[5m]))"),
        ("prompted", "gb10:prompt_tokens:rate5m", "sum by ({by}) (rate({0}[5m]))"),
        ("generated", "gb10:generated_tokens:rate5m", "sum by ({by}) (rate({0}[5m]))"),
        ("first_token", "gb10:first_token_seconds:p50", _quantile(0.5)),
        ("first_token", "gb10:first_token_seconds:p95", _quantile(0.95)),
        ("next_token", "gb10:next_token_seconds:p95", _quantile(0.95)),
        # no quantile: an engine's first bucket may end at 0.3 s, and 95 % of an empty queue would be 0.29 s
        (
            "queued",
            "gb10:queue_seconds:mean5m",
            "sum by ({by}) (rate({0}_sum[5m])) / sum by ({by}) (rate({0}_count[5m]))",
        ),
    ):
        if key in series:
            yield name, expr.format(series[key], by=_BY)
    if {"prefix_hits", "prefix_asked"} <= series.keys():
        hits, asked = (f"sum by ({_BY}) (rate({series[key]}[5m]))" for key in ("prefix_hits", "prefix_asked"))
        yield "gb10:prefix_hits:ratio5m", f"{hits} / {asked}"


def _quantile(part: float) -> str:
    return f"histogram_quantile({part:g}, sum by ({{by}}, le) (rate({{0}}_bucket[5m])))"


_STATUS = "ansible-playbook status.yml -l {{ $labels.host }}"
_OF_SERVICE = "ansible-playbook gb10.fleet.status -e service={{ $labels.service }}"
_WHO = "{{ $labels.service }} on {{ $labels.host }}"
_MORE_POOL = (
    "raise workload.pool, or lower max_num_seqs of {{ $labels.service }}; ansible-playbook plan.yml shows what fits"
)


def is_recorded(expr: str, recorded: Collection[str]) -> bool:
    """Whether the engines tell all that it asks: recorded, as `recordings` names it."""
    return {*re.findall(r"gb10:[\w:]+", expr)} <= {*recorded}


def alerts(limits: Mapping[str, Any], recorded: Collection[str]) -> list[Alert]:
    """Those that can fire. recorded: as in `is_recorded`."""
    loads = 'gb10_service_state{state=~"starting|loading|warming"} == 1'
    disk = int(limits["disk_gib"] * 2**30)
    ours = 'node_textfile_mtime_seconds{file=~".*gb10.prom"}'
    of_hosts = [
        Alert(
            "Gb10ServiceDown",
            f"gb10_service_serving == 0 unless on (host, service, rank) ({loads})",
            180,
            "critical",
            f"{_WHO}, rank {{{{ $labels.rank }}}}, does not serve",
            _OF_SERVICE,
        ),
        Alert(
            "Gb10StartsUsedUp",
            'gb10_service_state{state="stopped"} == 1',
            0,
            "critical",
            f"{_WHO} stays down: its start budget is used up",
            f"{_OF_SERVICE}, mend what it names, then ansible-playbook gb10.fleet.restart -e service="
            "{{ $labels.service }}",
        ),
        Alert(
            "Gb10ServiceLoadsLong",
            f"{loads}",
            limits["load_s"],
            "warning",
            f"{_WHO} has been {{{{ $labels.state }}}} for very long",
            "ssh {{ $labels.host }} sudo journalctl -u gb10-service-{{ $labels.service }} -n 100",
        ),
        Alert(
            "Gb10StatusOld",
            "gb10_service_status_age_seconds > 60",
            120,
            "warning",
            f"the supervisor of {_WHO} has been silent for {{{{ $value | humanizeDuration }}}}",
            _STATUS,
        ),
        Alert(
            "Gb10MemoryLow",
            "node_memory_MemAvailable_bytes < on (host) group_left () gb10_memory_floor_bytes",
            60,
            "critical",
            "{{ $labels.host }}: only {{ $value | humanize1024 }}B of memory are left",
            f"{_STATUS}, then stop what else runs there, or lower max_num_seqs or pool of a service",
        ),
        Alert(
            "Gb10MemoryCreep",
            "gb10_service_creeps == 1",
            0,
            "warning",
            f"{_WHO} takes more memory than it was planned to",
            "ansible-playbook gb10.fleet.restart -e service={{ $labels.service }}",
        ),
        Alert(
            "Gb10LinkDown",
            "gb10_fabric_link == 0",
            60,
            "critical",
            "{{ $labels.host }}: no light at {{ $labels.device }}",
            "ansible-playbook gb10.fleet.fabric -l {{ $labels.host }} --check",
        ),
        Alert(
            "Gb10DiskFull",
            f"gb10_disk_free_bytes < {disk}",
            300,
            "warning",
            "{{ $labels.host }}: {{ $value | humanize1024 }}B are free at {{ $labels.path }}",
            "ssh {{ $labels.host }} sudo docker system df, then lower fleet_host.retention",
        ),
        Alert(
            "Gb10Drift",
            'gb10_drift_differences{severity="error"} > 0',
            0,
            "warning",
            "{{ $labels.of }} is not as declared (differences: {{ $value }})",
            "ansible-playbook drift.yml -l {{ $labels.of }}",
        ),
        Alert(
            "Gb10DriftUnchecked",
            "time() - gb10_drift_checked_timestamp_seconds > 2 * 86400",
            600,
            "warning",
            "no drift check has ended for {{ $value | humanizeDuration }}",
            "ssh {{ $labels.host }} systemctl status gb10-drift.timer gb10-drift.service",
        ),
        Alert(
            "Gb10HostSilent",
            'up{job="host"} == 0',
            120,
            "critical",
            "{{ $labels.host }} gives no metrics",
            "ansible-playbook doctor.yml -l {{ $labels.host }}",
        ),
        Alert(
            "Gb10MetricsOld",
            f'time() - {ours} > 120 or up{{job="host"}} == 1 unless on (host) {ours}',
            60,
            "warning",
            "{{ $labels.host }}: what it tells of GPU, services, fabric and drift is old, or nothing",
            "ssh {{ $labels.host }} systemctl status gb10-metrics",
        ),
    ]
    of_requests = [
        Alert(
            "Gb10EndpointSilent",
            'up{job="service"} == 0 and on (host, service) gb10_service_serving{rank="0"} == 1',
            180,
            "warning",
            f"{_WHO} serves, but gives no metrics",
            _OF_SERVICE,
        ),
        Alert(
            "Gb10KvFull",
            "gb10:kv_use:ratio > 0.95 and gb10:requests_waiting > 0",
            600,
            "warning",
            f"{_WHO}: the KV pool is full, and requests wait",
            _MORE_POOL,
        ),
        Alert(
            "Gb10Preemptions",
            f"gb10:preemptions:rate5m > {limits['preemptions_per_s']:g}",
            600,
            "warning",
            f"{_WHO} throws requests out of its KV pool, and computes them anew",
            _MORE_POOL,
        ),
        Alert(
            "Gb10FirstTokenSlow",
            f"gb10:first_token_seconds:p95 > {limits['first_token_s']:g}",
            600,
            "warning",
            f"{_WHO}: one in twenty requests waits {{{{ $value | humanizeDuration }}}} for its first token",
            f"{_OF_SERVICE}; a replica (replicas: 2) or fewer requests at once help",
        ),
    ]
    return [*of_hosts, *(alert for alert in of_requests if recorded and is_recorded(alert.expr, recorded))]
