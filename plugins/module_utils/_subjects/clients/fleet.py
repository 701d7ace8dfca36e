# SPDX-License-Identifier: GPL-3.0-or-later
"""The clients of the gateway: what each is given of it, and what its model has to be."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..._base import worded
from ..._base.addresses import is_address, is_loopback
from ..._base.findings import Finding
from ..._base.gb10 import fact
from ..._base.place import Place
from ..._base.slice import Api, ClientSlice, ListenRow, Slice
from ..._engines.decided import Decided
from ..._engines.placed import Host
from ..fleet.subject import FleetPart, FleetSubject, PlanContext, Planned
from ..gateway.declared import url
from ..gateway.fleet import Gateway
from .declared import CLIENTS, HERMES, Client, claims, decide
from .kinds import KINDS, Way
from .plan import client_slice


@dataclass(frozen=True)
class Clients(FleetPart):
    """declared: as `declared.decide` completes ``fleet_clients``, those that can be."""

    declared: Mapping[str, Client]
    gateway: Gateway
    services: Mapping[str, Decided] = field(default_factory=dict)
    inventory: str = ""

    def slice(self, host: Host, _slices: Slice) -> list[ClientSlice]:
        return [self._slice(name, client) for name, client in self._here(host.name)]

    def _here(self, host: str) -> list[tuple[str, Client]]:
        return [(name, client) for name, client in sorted(self.declared.items()) if client["host"] == host]

    def _slice(self, name: str, client: Client) -> ClientSlice:
        assert self.gateway.declared is not None
        service = self.services.get(client.get("service", ""))
        model, context = (service.plan["served_name"], service.plan["kv"]["context"]) if service else ("", None)
        keys_file = self.gateway.declared["keys_file"]
        return client_slice(name, client, self._way(), model, context, keys_file, self.inventory)

    def _way(self) -> Way:
        """Never localhost, which in a container is the container."""
        declared = self.gateway.declared
        assert declared is not None
        name = declared["name"]
        known = [address for address in declared["addresses"] if is_address(address)]
        address = "" if is_address(name) else declared["address"] or next(iter(known), "")
        models = tuple(name for backend in self.gateway.offered for name in backend.names)
        return Way(f"{url(declared)}/v1", name, address, models)

    def images(self, host: str) -> Iterator[dict[str, Any]]:
        for _name, client in self._here(host):
            source = client["image"]["source"]
            (kind, value), *_ = [*source.items()] if isinstance(source, Mapping) else [(source, "")]
            where = {} if kind == "registry" else {("host" if kind == "host" else "path"): value}
            reference, digest = client["image"]["reference"], client["image"]["digest"]
            yield {"reference": reference, "digest": digest, "source": {"kind": kind, **where}, "known": None}

    def apis(self, host: str) -> Iterator[Api]:
        for name, client in self._here(host):
            if not is_loopback(client["listen"]):
                yield {"port": client["port"], "from": [], "reason": f"the client {name}"}

    def listens(self, host: str) -> Iterator[ListenRow]:
        for name, client in self._here(host):
            who = "who has its key" if client["kind"] == HERMES else "who signs in; without TLS"
            yield {"port": client["port"], "address": client["listen"], "service": name, "who": who}

    def shown(self) -> list[dict[str, Any]]:
        return [
            {
                "client": name,
                "kind": client["kind"],
                "host": client["host"],
                "address": f"http://{client['host'] if client['listen'] == '0.0.0.0' else client['listen']}"
                f":{client['port']}",
                "key": client["key"],
                "secret": client["secret_file"],
                "account": "" if client["kind"] == HERMES else client["account"],
                "image": client["image"],
                "memory_limit_bytes": KINDS[client["kind"]].memory_limit,
            }
            for name, client in sorted(self.declared.items())
        ]


def plan(declared: Mapping[str, Client] | None, context: PlanContext) -> Planned:
    """An agent whose model can't carry it is left out, with the reason."""
    gateway = context.fleet["gateway"]
    assert isinstance(gateway, Gateway)
    problems = {name: [*_agent(name, client, context.services)] for name, client in (declared or {}).items()}
    good = {name: client for name, client in (declared or {}).items() if gateway.declared and not problems[name]}
    planned = Clients(good, gateway, context.services, context.inventory)
    return planned, [item for found in problems.values() for item in found]


def _agent(name: str, client: Client, services: Mapping[str, Decided]) -> Iterator[Finding]:
    service = services.get(client.get("service", ""))
    if client["kind"] != HERMES or service is None:
        return  # a service that can't be planned is named already
    placed, context, least = service.placed, service.plan["kv"]["context"], fact("clients", "hermes_context")
    if context is not None and context < least:
        where = Place(service=placed.name).below("workload", "max_model_len")
        yield worded.error("input-client-context", where, context=context, name=name, least=least, placed=placed.name)
    missing = [flag for flag in ("enable-auto-tool-choice", "tool-call-parser") if not placed.flags.get(flag)]
    if missing:
        at = Place(service=placed.name).below("flags")
        yield worded.error("input-client-tools", at, missing=" and no ".join(missing), name=name, placed=placed.name)


def _controller(part: Sequence[ClientSlice]) -> str:
    return "it runs clients of the gateway, whose keys and settings are made here" if part else ""


FLEET_CLIENTS = FleetSubject("clients", plan, CLIENTS, ["gateway"], decide, claims, nothing=[], controller=_controller)
