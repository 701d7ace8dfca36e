# SPDX-License-Identifier: GPL-3.0-or-later
"""Every port that a service opens on its hosts, and for whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .._engines.placed import Placed
from .._engines.ports import ranks_port
from .decided import Decided
from .gateway import Gateway


def listens(services: Iterable[Decided], host: str, gateway: Gateway) -> list[dict[str, Any]]:
    """Every port that is opened on the host, and for whom."""
    return [row for service in services for row in _listens(service, host, gateway.hosts)] + [*gateway.listens(host)]


def _listens(service: Decided, host: str, gateways: Sequence[str]) -> Iterator[dict[str, Any]]:
    placed, name = service.placed, service.placed.name
    keyed = _clients(placed, gateways) + (", over TLS" if placed.tls else "")
    if placed.head.name == host:
        yield {"port": placed.settings["port"], "address": placed.settings["listen"], "service": name, "who": keyed}
    if not placed.is_group:
        return
    supervisor = service.rank_on(host).supervisor
    peers = ", ".join(other.name for other in placed.hosts if other.name != host)
    if placed.head.name == host:
        meeting = supervisor["rendezvous"]
        yield {**meeting, "service": name, "who": f"the supervisors on {peers}, with the group's secret"}
        where = {"port": ranks_port(placed.settings["port"]), "address": meeting["address"]}
        if not placed.engine.spec.workers_listen:
            yield {**where, "service": name, "who": f"the ranks on {peers}"}
        for port, who in placed.engine.listens(placed):
            yield {**where, "port": port, "service": name, "who": who}
    elif placed.engine.spec.workers_listen:
        where = {"port": ranks_port(placed.settings["port"]), "address": supervisor["address"]}
        yield {**where, "service": name, "who": f"the head on {placed.head.name}"}
    others = "" if placed.engine.spec.workers_listen else "NCCL, Gloo and "
    yield {
        "port": "any",
        "address": supervisor["address"],
        "service": name,
        "who": f"{others}{placed.engine.spec.title} on {peers}",
    }


def _clients(placed: Placed, gateways: Sequence[str]) -> str:
    has_key = bool(placed.settings.get("api_key_file"))
    if gateways:
        return f"the gateway on {', '.join(gateways)}" + (", with the key" if has_key else "")
    return "clients with the key" if has_key else "everybody, without a key (open: true)"
