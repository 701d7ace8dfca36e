# SPDX-License-Identifier: GPL-3.0-or-later
"""What Prometheus computes and when it calls: PromQL that 2.45 and 3 both read.

Recording rules give every engine's series one name of ours (``gb10:...``), so that alerts and dashboards name no
engine. Each alert says with which command its cause is looked at or mended.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..._base.gb10 import alert_rules

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


def rules(engines: Iterable[Mapping[str, str]], limits: Mapping[str, object]) -> dict[str, Any]:
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


def is_recorded(expr: str, recorded: Collection[str]) -> bool:
    """Whether the engines tell all that it asks: recorded, as `recordings` names it."""
    return {*re.findall(r"gb10:[\w:]+", expr)} <= {*recorded}


def alerts(limits: Mapping[str, Any], recorded: Collection[str]) -> list[Alert]:
    """Those of data/alerts.yml that can fire. recorded: as in `is_recorded`."""
    data = alert_rules()
    words = {**data["words"], **limits, "disk_bytes": int(limits["disk_gib"] * 2**30)}
    found = [
        Alert(
            name,
            rule["expr"] % words,
            limits[rule["for"]] if isinstance(rule["for"], str) else rule["for"],
            rule["severity"],
            rule["summary"] % words,
            rule["command"] % words,
        )
        for name, rule in data["alerts"].items()
        if recorded or not rule.get("needs_engine")
    ]
    return [alert for alert in found if is_recorded(alert.expr, recorded)]
