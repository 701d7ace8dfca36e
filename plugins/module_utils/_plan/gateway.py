# SPDX-License-Identifier: GPL-3.0-or-later
"""The services as a gateway reaches them, and the gateway's own part of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .._base.findings import Finding, error
from .._engines.placed import Placed
from .._subjects.gateway.backends import Backend, Endpoint, backends
from .._subjects.gateway.declared import NAME
from .._subjects.gateway.plan import gateway_slice, shown
from .._subjects.tls.declared import is_address
from .decided import Decided

_EVERYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True)
class Gateway:
    """What is decided of the gateway: nothing where none is declared.

    declared: as `_subjects.gateway.declared.decide` completes ``fleet_gateway``.
    """

    declared: Mapping[str, Any] | None = None
    offered: Sequence[Backend] = ()
    inventory: str = ""
    findings: Sequence[Finding] = field(default=())

    @property
    def hosts(self) -> list[str]:
        return list(self.declared["hosts"]) if self.declared else []

    @property
    def sources(self) -> list[str]:
        """The addresses that alone may come to the services' ports; empty: everybody."""
        return sorted({*self.declared["addresses"]}) if self.declared else []

    def shown(self) -> dict[str, Any] | None:
        """``gateway`` of the plan."""
        return shown(self.declared, self.offered) if self.declared else None

    def slice_of(self, host: str, interface: str) -> dict[str, Any]:
        """``hosts.<host>.gateway``. interface: of its management network."""
        if not self.declared or host not in self.hosts:
            return {}
        return gateway_slice(self.declared, self.offered, self.inventory, host, interface)

    def apis(self, host: str) -> Iterator[dict[str, Any]]:
        """Its own ports on a host, as `_base.subject.Here.apis` has them."""
        if self.declared and host in self.hosts:
            for port in _ports(self.declared):
                yield {"port": port, "from": [], "reason": "the gateway"}
            others = [address for name, address in self.declared["members"].items() if name != host]
            if others:
                yield {"port": None, "protocol": "vrrp", "from": others, "reason": "the other gateways"}

    def listens(self, host: str) -> Iterator[dict[str, Any]]:
        """As `_plan.listens` has them."""
        if self.declared and host in self.hosts:
            port, *redirects = _ports(self.declared)
            who = f"clients with a key of {self.declared['keys_file']}, over TLS"
            yield {"port": port, "address": "::", "service": NAME, "who": who}
            for redirect in redirects:
                yield {"port": redirect, "address": "::", "service": NAME, "who": f"everybody, sent on to port {port}"}


def _ports(declared: Mapping[str, Any]) -> list[int]:
    return [port for port in (declared["port"], declared["redirect_port"]) if port]


def plan_gateway(declared: Mapping[str, Any] | None, services: Iterable[Decided], inventory: str) -> Gateway:
    """declared: as above; None without a gateway, or with one that can't be."""
    if declared is None:
        return Gateway()
    reached: list[Endpoint] = []
    findings: list[Finding] = []
    for service in services:
        findings += _unreachable(service.placed, declared["hosts"])
        reached.append(_endpoint(service))
    offered, problems = backends(reached, declared["aliases"])
    return Gateway(declared, offered, inventory, [*findings, *problems])


def _endpoint(service: Decided) -> Endpoint:
    placed, listen = service.placed, service.placed.settings["listen"]
    model = service.plan["served_name"]
    return Endpoint(
        service=placed.name,
        model=model,
        host=placed.head.name,
        address=placed.head.address if listen in _EVERYWHERE else listen,
        port=placed.port,
        slots=service.slots,
        health=service.ranks[0].supervisor["probes"]["health"],
        key=placed.settings.get("api_key_file") or "",
        tls_name=_tls_name(placed) if placed.tls else "",
        context=service.plan["kv"]["context"],
        example=asdict(placed.engine.example(placed.recipe["kind"], model)),
    )


def _tls_name(placed: Placed) -> str:
    """The first name of its certificate: HAProxy compares no addresses."""
    names = [] if placed.tls is None else [placed.tls["main"], *placed.tls["names"]]
    return next((name for name in names if name and not is_address(name)), "")


def _unreachable(placed: Placed, gateways: Sequence[str]) -> Iterator[Finding]:
    listen, head = placed.settings["listen"], placed.head.name
    away = [host for host in gateways if host != head]
    if away and (listen.startswith("127.") or listen == "::1"):
        yield error(
            "input-gateway-listen",
            f"{placed.place}.listen",
            found=f"{listen}, which the gateway on {', '.join(away)} does not reach",
            expected=f"an address of {head} for other hosts, or the gateway on {head} alone",
            remedy="take listen out: with a gateway its host lets nobody else in",
        )
    if placed.tls and not _tls_name(placed):
        yield error(
            "input-gateway-tls-name",
            f"{placed.place}.tls.names",
            found="addresses alone",
            expected="a name in the certificate, by which the gateway knows the service",
            remedy="write names with one, or tls: local",
        )
