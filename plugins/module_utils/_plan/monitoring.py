# SPDX-License-Identifier: GPL-3.0-or-later
"""The monitoring of the fleet: what is collected from where, and each host's part of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._base.findings import Finding, error
from .._base.gb10 import fact
from .._engines.placed import Host
from .._subjects.memory_guard.subject import floors
from .._subjects.monitoring import prometheus
from .._subjects.monitoring.plan import collected_slice, host_slice, shown_slice
from .._subjects.monitoring.prometheus import Endpoint
from .decided import Decided

_EVERYWHERE = ("0.0.0.0", "::")
NAME = "monitoring"


@dataclass(frozen=True)
class Monitoring:
    """What is decided of it: nothing where none is declared.

    declared: as `_subjects.monitoring.declared.decide` completes ``fleet_monitoring``. hosts: each one's node exporter,
    address and port. endpoints: of services. engines: the series of each engine that serves. disk_gib: under so much
    free disk it alerts. load_s: no service may be silent for longer while it loads.
    """

    declared: Mapping[str, Any] | None = None
    hosts: Mapping[str, str] = field(default_factory=dict)
    endpoints: Sequence[Endpoint] = ()
    engines: Sequence[Mapping[str, str]] = ()
    inventory: str = ""
    disk_gib: float = 0
    load_s: int = 0
    findings: Sequence[Finding] = ()

    @property
    def sources(self) -> list[str]:
        """The addresses by which it comes to the hosts."""
        return sorted({*self.declared["addresses"]}) if self.declared else []

    def shown(self) -> dict[str, Any] | None:
        """``monitoring`` of the plan."""
        if not self.declared:
            return None
        return {
            "host": self.declared["host"],
            "url": self._url,
            "retention_days": self.declared["retention_days"],
            "alerts": sorted(self.declared["alerts"]),
            "hosts": sorted(self.hosts),
            "services": sorted(one.service for one in self.endpoints),
        }

    @property
    def _url(self) -> str:
        return f"{prometheus.url(self.declared or {})}/consoles/fleet.html"

    def slice_of(self, host: Host, decided: Mapping[str, Any], left: int) -> dict[str, Any]:
        """``hosts.<host>.monitoring``. decided: the rest of its slice. left: bytes that the plan leaves of its
        memory."""
        if not self.declared:
            return host_slice([], self.inventory, "")
        parts = [shown_slice(decided, floors(host.settings, left)[0], self.inventory)]
        if host.name == self.declared["host"]:
            collected = collected_slice(
                self.declared, self.hosts, self.endpoints, self.engines, self.inventory, self.disk_gib, self.load_s
            )
            parts.append(collected)
            return host_slice(parts, self.inventory, self._url)
        return host_slice(parts, self.inventory, "")

    def apis(self, host: str) -> Iterator[dict[str, Any]]:
        """Its ports on a host, as `_base.subject.Here.apis` has them."""
        if self.declared and host in self.hosts:
            yield {"port": fact("monitoring", "exporter_port"), "from": self.sources, "reason": "the node exporter"}

    def listens(self, host: str) -> Iterator[dict[str, Any]]:
        """As `_plan.listens` has them."""
        if not self.declared or host not in self.hosts:
            return
        collector = self.declared["host"]
        who = f"Prometheus on {collector}"
        yield {"port": fact("monitoring", "exporter_port"), "address": "::", "service": NAME, "who": who}
        if host == collector:
            own = {"address": self.declared["listen"], "service": NAME}
            yield {
                **own,
                "port": self.declared["port"],
                "who": f"whoever reaches {self.declared['listen']}, without a key",
            }
            port = fact("monitoring", "alertmanager_port")
            yield {**own, "address": "127.0.0.1", "port": port, "who": "the host itself"}


def plan_monitoring(
    declared: Mapping[str, Any] | None,
    hosts: Mapping[str, Host],
    services: Iterable[Decided],
    inventory: str,
    disk_gib: float,
) -> Monitoring:
    """declared: as above; None without monitoring, or with one that can't be. disk_gib: as drift takes it."""
    if declared is None:
        return Monitoring(inventory=inventory)
    port = fact("monitoring", "exporter_port")
    endpoints: list[Endpoint] = []
    engines: list[Mapping[str, str]] = []
    findings: list[Finding] = []
    loads = [fact("limits", "startup_limit_s")]
    for service in services:
        loads.append(service.ranks[0].supervisor["limits"]["startup_limit_s"])
        spec, metrics = service.placed.engine.spec, service.ranks[0].supervisor["probes"]["metrics"]
        if metrics is None or not spec.series:
            continue
        findings += _unreachable(service, declared["host"])
        endpoints.append(_endpoint(service, metrics["path"]))
        if spec.series not in engines:
            engines.append(spec.series)
    exporters = {name: f"{_bracketed(host.address)}:{port}" for name, host in hosts.items()}
    return Monitoring(declared, exporters, endpoints, engines, inventory, disk_gib, max(loads), findings)


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _endpoint(service: Decided, path: str) -> Endpoint:
    placed, listen = service.placed, service.placed.settings["listen"]
    names = [] if placed.tls is None else [placed.tls["main"], *placed.tls["names"]]
    return Endpoint(
        service=placed.name,
        host=placed.head.name,
        target=f"{_bracketed(placed.head.address if listen in _EVERYWHERE else listen)}:{placed.port}",
        path=path,
        tls_name=next((name for name in names if name), ""),
        key=placed.settings.get("api_key_file") or "",
    )


def _unreachable(service: Decided, collector: str) -> Iterator[Finding]:
    placed = service.placed
    listen = placed.settings["listen"]
    if placed.head.name != collector and (listen.startswith("127.") or listen == "::1"):
        yield error(
            "input-monitoring-listen",
            f"{placed.place}.listen",
            found=f"{listen}, which Prometheus on {collector} does not reach",
            expected=f"an address of {placed.head.name} for other hosts",
            remedy="take listen out, or write fleet_monitoring.host: " + placed.head.name,
        )
