# SPDX-License-Identifier: GPL-3.0-or-later
"""What Prometheus computes and when it calls: PromQL that 2.45 and 3 both read.

Recording rules give every engine's series one name of ours (``gb10:...``), so that alerts and dashboards name no
engine. Each alert says with which command its cause is looked at or mended.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..._base.gb10 import alert_rules
from ..._base.plan import ServiceSpeed
from ..._engines.speed.served import least_share, totals

_BY = "host, service"
EXPECTED, PACE = "gb10:expected_tokens:rate", "gb10:pace:ratio1h"
# Of an hour: a judgement needs so much of it with requests, and so little of it in prompts, whose time is less certain.
_BUSY, _PROMPTS = 0.5, 0.15


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


@dataclass(frozen=True)
class Forecast:
    """A service whose speed is forecast. twins: what it has in common with those that serve the same. series: of its
    engine. counts_at_end: as `_engines.engine.EngineSpec`."""

    service: str
    host: str
    twins: str
    speed: ServiceSpeed
    series: Mapping[str, str]
    counts_at_end: bool = False


def rules(
    engines: Iterable[Mapping[str, str]], limits: Mapping[str, object], forecasts: Iterable[Forecast] = ()
) -> dict[str, Any]:
    """A rules file as data. engines: the series of each engine that serves (`_engines.interface.Series`). limits:
    ``monitoring`` of data/gb10.yml with what the owner declared."""
    recorded = [{"record": name, "expr": expr} for name, expr in recordings([*engines]).items()]
    recorded += [rule for of in forecasts for rule in expectations(of)]
    groups = [{"name": "gb10-recorded", "rules": recorded}] if recorded else []
    asked = alerts(limits, {rule["record"] for rule in recorded})
    return {"groups": [*groups, {"name": "gb10-alerts", "rules": [alert.as_rule() for alert in asked]}]}


def recordings(engines: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """PromQL by the name that it is recorded as; what no engine tells is left out."""
    found: dict[str, list[str]] = {}
    for series in engines:
        for name, expr in _recorded(series):
            found.setdefault(name, []).append(expr)
    return {name: " or ".join(exprs) for name, exprs in found.items()}


def _recorded(series: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for row in alert_rules()["recorded"]:
        if {*row["of"]} <= series.keys():
            yield row["name"], row["expr"].format(*(series[key] for key in row["of"]), by=_BY)


def expectations(of: Forecast) -> Iterator[dict[str, Any]]:
    """What a service should generate under the load of this moment, and how its last hour was beside the slowest that
    its forecast allows (1 is that slowest)."""
    labels = f"{{host={json.dumps(of.host)},service={json.dumps(of.service)}}}"
    known = recordings([of.series])
    if "gb10:requests_running" not in known:
        return
    alone, (total, power, most) = of.speed["alone"], totals(of.speed)
    running = f"gb10:requests_running{labels}"
    rate = f"{total:.4g} * clamp_max({running}, {most}) ^ {power:.4g}"
    if of.speed["full_s"] and "gb10:kv_use:ratio" in known:
        full = of.speed["full_s"] / alone["accepted"]
        rate = f"{running} / ({running} / ({rate}) + {full:.4g} * gb10:kv_use:ratio{labels})"
    drafts = of.speed["pays"] is not None and "gb10:tokens_a_step" in known
    if drafts:
        rate = f"({rate}) * gb10:tokens_a_step{labels} / {alone['accepted']:.4g}"
    judged = f"{running} >= 1" + (f" < {most + 1}" if most == 1 else "")
    yield {"record": EXPECTED, "labels": {"service": of.service}, "expr": f"{rate} and {judged}"}
    if of.counts_at_end:
        return

    def hour(name: str) -> str:
        return f"avg_over_time({name}{labels}[1h])"

    answers = f"{hour('gb10:generated_tokens:rate5m')} / {hour(EXPECTED)} / {least_share(of.speed, drafts):.4g}"
    prompts = f"{hour('gb10:prompt_tokens:rate5m')} / {of.speed['prompt'] / alone['ttft_high']:.4g}"
    busy = f"avg_over_time(({running} >= bool 1)[1h:1m])"
    enough = f"{busy} >= {_BUSY} and {prompts} <= {_PROMPTS}"
    yield {"record": PACE, "labels": {"twins": of.twins}, "expr": f"({answers} + {prompts}) / {busy} and {enough}"}


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
        if (recorded or not rule.get("needs_engine")) and ("needs" not in rule or words.get(rule["needs"]))
    ]
    return [alert for alert in found if is_recorded(alert.expr, recorded)]
