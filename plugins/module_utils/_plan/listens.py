# SPDX-License-Identifier: GPL-3.0-or-later
"""Every port that a service opens on its hosts, and for whom."""

from collections.abc import Iterable, Iterator

from .._base.slice import ListenRow
from .._engines.decided import Decided
from .._engines.placed import Placed
from .._engines.ports import ranks_port


def listens(services: Iterable[Decided], host: str, callers: str) -> Iterator[ListenRow]:
    """Every port that services open on the host, and for whom. callers: who alone may come to them, in words; empty for
    everybody."""
    for service in services:
        yield from _listens(service, host, callers)


def _listens(service: Decided, host: str, callers: str) -> Iterator[ListenRow]:
    placed, name = service.placed, service.placed.name
    keyed = _senders(placed, callers) + (", over TLS" if placed.tls else "")
    if placed.head.name == host:
        yield {"port": placed.settings["port"], "address": placed.settings["listen"], "service": name, "who": keyed}
        if ready := service.ranks[0].supervisor.readiness:
            yield {
                "port": ready.port,
                "address": ready.address,
                "service": name,
                "who": f"{callers}, which asks whether it serves",
            }
    if not placed.is_group:
        return
    supervisor = service.rank_on(host).supervisor
    address, meeting = supervisor.address or "", supervisor.rendezvous
    among = ranks_port(placed.settings["port"])
    peers = ", ".join(other.name for other in placed.hosts if other.name != host)
    if meeting and placed.head.name == host:
        who = f"the supervisors on {peers}, with the group's secret"
        yield {"port": meeting.port, "address": meeting.address, "service": name, "who": who}
        if not placed.engine.spec.workers_listen:
            yield {"port": among, "address": address, "service": name, "who": f"the ranks on {peers}"}
        for port, who in placed.engine.listens(placed):
            yield {"port": port, "address": address, "service": name, "who": who}
    elif placed.engine.spec.workers_listen:
        yield {"port": among, "address": address, "service": name, "who": f"the head on {placed.head.name}"}
    others = "" if placed.engine.spec.workers_listen else "NCCL, Gloo and "
    yield {"port": "any", "address": address, "service": name, "who": f"{others}{placed.engine.spec.title} on {peers}"}


def _senders(placed: Placed, callers: str) -> str:
    has_key = bool(placed.settings.get("api_key_file"))
    if callers:
        return callers + (", with the key" if has_key else "")
    return "clients with the key" if has_key else "everybody, without a key (open: true)"
