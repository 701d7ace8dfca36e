# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway in the plan: the services as it reaches them, and its part of each host."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..._base import worded
from ..._base.addresses import is_address
from ..._base.findings import Finding
from ..._base.slice import Api, GatewaySlice, ListenRow, Slice
from ..._engines.decided import Decided
from ..._engines.placed import Host, Placed
from ..fleet.subject import FleetPart, FleetSubject, PlanContext, Planned
from .backends import Backend, Endpoint, backends
from .declared import GATEWAY, NAME, GatewayDeclared, claims, decide, ports
from .plan import gateway_slice, shown


@dataclass(frozen=True)
class Gateway(FleetPart):
    """declared: as `declared.decide` completes ``fleet_gateway``; None without one."""

    declared: GatewayDeclared | None = None
    offered: Sequence[Backend] = ()
    inventory: str = ""

    @property
    def sources(self) -> list[str]:
        return sorted({*self.declared["addresses"]}) if self.declared else []

    @property
    def callers(self) -> str:
        return f"the gateway on {', '.join(self.declared['hosts'])}" if self.declared else ""

    def shown(self) -> dict[str, Any] | None:
        return shown(self.declared, self.offered) if self.declared else None

    def slice(self, host: Host, slices: Slice) -> GatewaySlice:
        if not self.declared or host.name not in self.declared["hosts"]:
            return {}
        interface = slices["fabric"]["management"]["interface"]
        return gateway_slice(self.declared, self.offered, self.inventory, host.name, interface)

    def apis(self, host: str) -> Iterator[Api]:
        if self.declared and host in self.declared["hosts"]:
            for _key, port in ports(self.declared):
                yield {"port": port, "from": [], "reason": "the gateway"}
            others = [address for name, address in self.declared["members"].items() if name != host]
            if others:
                yield {"port": None, "protocol": "vrrp", "from": others, "reason": "the other gateways"}

    def listens(self, host: str) -> Iterator[ListenRow]:
        if self.declared and host in self.declared["hosts"]:
            (_, port), *redirects = ports(self.declared)
            who = f"clients with a key of {self.declared['keys_file']}, over TLS"
            yield {"port": port, "address": "::", "service": NAME, "who": who}
            for _, redirect in redirects:
                yield {"port": redirect, "address": "::", "service": NAME, "who": f"everybody, sent on to port {port}"}


def plan(declared: GatewayDeclared | None, context: PlanContext) -> Planned:
    if declared is None:
        return Gateway(), []
    reached: list[Endpoint] = []
    findings: list[Finding] = []
    for service in context.services.values():
        findings += _unreachable(service.placed, declared["hosts"])
        reached.append(_endpoint(service))
    offered, problems = backends(reached, declared["aliases"])
    return Gateway(declared, offered, context.inventory), [*findings, *problems]


def _endpoint(service: Decided) -> Endpoint:
    placed, model, readiness = service.placed, service.plan["served_name"], service.ranks[0].supervisor.readiness
    assert readiness is not None  # since a gateway is declared
    return Endpoint(
        service=placed.name,
        model=model,
        host=placed.head.name,
        address=placed.address,
        port=placed.port,
        slots=service.slots,
        readiness=readiness.port,
        key=placed.settings.get("api_key_file") or "",
        tls_name=_tls_name(placed) if placed.tls else "",
        context=service.plan["kv"]["context"],
        example=placed.engine.example(placed.recipe["kind"], model).as_data(),
    )


def _tls_name(placed: Placed) -> str:
    """The first name of its certificate: HAProxy compares no addresses."""
    return next((name for name in placed.tls_names if not is_address(name)), "")


def _unreachable(placed: Placed, gateways: Sequence[str]) -> Iterator[Finding]:
    listen, head = placed.settings["listen"], placed.head.name
    away = [host for host in gateways if host != head]
    if away and placed.is_local:
        yield worded.error(
            "input-gateway-listen", placed.place.below("listen"), listen=listen, away=", ".join(away), head=head
        )
    if placed.tls and not _tls_name(placed):
        yield worded.error("input-gateway-tls-name", placed.place.below("tls", "names"))


def _controller(part: GatewaySlice) -> str:
    return "it runs the gateway, whose keys and settings are made here" if part else ""


FLEET_GATEWAY = FleetSubject(NAME, plan, GATEWAY, decide=decide, claims=claims, controller=_controller)
