# SPDX-License-Identifier: GPL-3.0-or-later
"""The monitoring in the plan: what is collected from where, and each host's part of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..._base import worded
from ..._base.addresses import in_url
from ..._base.findings import Finding, unknown_host
from ..._base.gb10 import fact
from ..._base.place import Place
from ..._base.slice import Api, ListenRow, MonitoringSlice, Slice
from ..._engines.decided import Decided
from ..._engines.placed import Host
from ..fleet.subject import FleetPart, FleetSubject, PlanContext, Planned
from ..memory_guard.subject import floors
from . import prometheus
from .declared import MONITORING, MonitoringDeclared, claims, decide
from .plan import Collected, collected_slice, host_slice, shown_slice
from .prometheus import Endpoint
from .rules import Forecast

NAME = "monitoring"


@dataclass(frozen=True)
class Monitoring(FleetPart):
    """declared: as `declared.decide` completes ``fleet_monitoring``; None without one. left: bytes that the plan leaves
    of each host's memory."""

    declared: MonitoringDeclared | None = None
    collected: Collected = field(default_factory=Collected)
    inventory: str = ""
    left: Mapping[str, int] = field(default_factory=dict)

    @property
    def sources(self) -> list[str]:
        return sorted({*self.declared["addresses"]}) if self.declared else []

    def shown(self) -> dict[str, Any] | None:
        if not self.declared:
            return None
        return {
            "host": self.declared["host"],
            "url": _page(self.declared),
            "retention_days": self.declared["retention_days"],
            "alerts": sorted(self.declared["alerts"]),
            "hosts": sorted(self.collected.hosts),
            "services": sorted(endpoint.service for endpoint in self.collected.endpoints),
        }

    def slice(self, host: Host, slices: Slice) -> MonitoringSlice:
        if not self.declared:
            return host_slice([], self.inventory, "")
        parts = [shown_slice(slices, floors(host.settings, self.left[host.name])[0], self.inventory)]
        if host.name == self.declared["host"]:
            parts.append(collected_slice(self.declared, self.collected, self.inventory))
            return host_slice(parts, self.inventory, _page(self.declared))
        return host_slice(parts, self.inventory, "")

    def apis(self, host: str) -> Iterator[Api]:
        if self.declared and host in self.collected.hosts:
            yield {"port": fact("monitoring", "exporter_port"), "from": self.sources, "reason": "the node exporter"}

    def listens(self, host: str) -> Iterator[ListenRow]:
        if not self.declared or host not in self.collected.hosts:
            return
        collector = self.declared["host"]
        who = f"Prometheus on {collector}"
        yield {"port": fact("monitoring", "exporter_port"), "address": "::", "service": NAME, "who": who}
        if host == collector:
            listen, alerts = self.declared["listen"], fact("monitoring", "alertmanager_port")
            who = f"whoever reaches {listen}, without a key"
            yield {"port": self.declared["port"], "address": listen, "service": NAME, "who": who}
            yield {"port": alerts, "address": "127.0.0.1", "service": NAME, "who": "the host itself"}


def _page(declared: MonitoringDeclared) -> str:
    return f"{prometheus.url(declared)}/consoles/fleet.html"


def plan(declared: MonitoringDeclared | None, context: PlanContext) -> Planned:
    if declared is None:
        return Monitoring(inventory=context.inventory), []
    port = fact("monitoring", "exporter_port")
    endpoints: list[Endpoint] = []
    engines: list[Mapping[str, str]] = []
    forecasts: list[Forecast] = []
    findings: list[Finding] = []
    loads = [fact("limits", "startup_limit_s")]
    for service in context.services.values():
        loads.append(service.ranks[0].supervisor.limits.startup_limit_s)
        spec, metrics = service.placed.engine.spec, service.ranks[0].supervisor.probes.metrics
        if metrics is None or not spec.series:
            continue
        findings += _unreachable(service, declared["host"])
        endpoints.append(_endpoint(service, metrics.path))
        if spec.series not in engines:
            engines.append(spec.series)
        if speed := service.plan["speed"]:
            who = (service.placed.name, service.placed.head.name, service.plan["boot"]["key"])
            forecasts.append(Forecast(*who, speed, spec.series, spec.counts_at_end))
    exporters = {name: f"{host.url_host}:{port}" for name, host in context.hosts.items()}
    free, timer = context.drift["free"]["disk_gib"], context.drift.get("timer_host", "")
    if timer and timer not in context.hosts:
        findings.append(unknown_host(Place(variable="fleet_drift", option="timer_host"), timer, context.hosts))
    collected = Collected(exporters, endpoints, engines, free, max(loads), forecasts, timer)
    return Monitoring(declared, collected, context.inventory, context.left), findings


def _endpoint(service: Decided, path: str) -> Endpoint:
    placed = service.placed
    return Endpoint(
        service=placed.name,
        host=placed.head.name,
        target=f"{in_url(placed.address)}:{placed.port}",
        path=path,
        tls_name=next(iter(placed.tls_names), ""),
        key=placed.settings.get("api_key_file") or "",
    )


def _unreachable(service: Decided, collector: str) -> Iterator[Finding]:
    placed = service.placed
    listen = placed.settings["listen"]
    if placed.head.name != collector and placed.is_local:
        found = f"{listen}, which Prometheus on {collector} does not reach"
        yield worded.error("input-monitoring-listen", placed.place.below("listen"), found=found, head=placed.head.name)


def _controller(part: MonitoringSlice) -> str:
    return "it runs the monitoring, which is given keys from here" if part["secrets"] else ""


FLEET_MONITORING = FleetSubject(NAME, plan, MONITORING, decide=decide, claims=claims, controller=_controller)
