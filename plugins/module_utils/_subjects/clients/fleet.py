# SPDX-License-Identifier: GPL-3.0-or-later
"""The clients of the gateway: what each is given of it, and what its model has to be."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..._base import layout, worded
from ..._base.addresses import from_its_host, in_url, is_address, is_loopback
from ..._base.findings import Finding
from ..._base.gb10 import fact
from ..._base.place import Place
from ..._base.slice import Api, ClientSecret, ClientSlice, Files, ListenRow, Slice
from ..._engines.decided import Decided
from ..._engines.placed import Host
from ..fleet.subject import FleetPart, FleetSubject, PlanContext, Planned
from ..gateway.declared import url
from ..gateway.fleet import Gateway
from .declared import CLIENTS, HERMES, Client, claims, decide
from .kinds import IN_CERTIFICATES, IN_SETTINGS, KINDS, Way, environment, settings, start, unit

# Where Debian and Ubuntu keep what a host trusts.
_CERTIFICATES = "/etc/ssl/certs"


def client_slice(
    name: str, client: Client, way: Way, model: str, context: int | None, keys_file: str, inventory: str
) -> ClientSlice:
    """One of ``hosts.<host>.clients``.

    client: as `_subjects.clients.declared.decide` completes it. model, context: those of an agent's service. keys_file:
    the gateway's, on the controller. files, folders, units: what is written here; secrets: what no plan holds, made of
    source on the controller; start: what decides whether it has to start anew (`_subjects.services.starts`); proof:
    what is asked of it.
    """
    folder, data = layout.client_folder(name), layout.client_data(name)
    run = _docker_run(name, client, way)
    files: Files = {
        f"{folder}/start": {"mode": "0755", "content": start(client)},
        f"{layout.UNITS}/{layout.client_unit(name)}": {"mode": "0644", "content": unit(name, client, run, inventory)},
    }
    for file, content in settings(client, way, model, context).items():
        files[f"{folder}/{file}"] = {"mode": "0644", "content": content}
    kind = client["kind"]
    secrets: list[ClientSecret] = [
        {"path": f"{folder}/gateway.env", "source": keys_file, "kind": kind, "key": client["key"]},
        {"path": f"{folder}/own.env", "source": client["secret_file"], "kind": kind, "key": ""},
    ]
    return {
        "name": name,
        "kind": client["kind"],
        "start": {
            "name": name,
            "unit": layout.client_unit(name),
            "container": layout.client_container(name),
            "image": client["image"]["reference"],
            "started": layout.client_started(name),
            "files": sorted([*files, *(secret["path"] for secret in secrets)]),
        },
        "unit": layout.client_unit(name),
        "units": {layout.client_unit(name): "started"},
        "files": dict(sorted(files.items())),
        "folders": {layout.CLIENTS: "0700", folder: "0700", f"{layout.STATE}/clients": "0700", data: None},
        "secrets": secrets,
        "secret_made": client["secret_made"],
        "listens": {"address": client["listen"], "port": client["port"]},
        "proof": {
            "kind": client["kind"],
            "url": f"http://{from_its_host(client['listen'])}:{client['port']}",
            "health": KINDS[client["kind"]].health,
            "account": client["account"],
            "models": [model] if client["kind"] == HERMES else list(way.models),
        },
    }


def _docker_run(name: str, client: Client, way: Way) -> list[str]:
    kind = KINDS[client["kind"]]
    words = ["/usr/bin/docker", "run"]
    for option, value in _options(name, client, way):
        words += [f"--{option}", value] if value else [f"--{option}"]
    for variable, value in environment(client, way).items():
        words += ["--env", f"{variable}={value}"]
    mounts = [
        (layout.client_folder(name), IN_SETTINGS, True),
        (_CERTIFICATES, IN_CERTIFICATES, True),
        (layout.client_data(name), kind.data, False),
    ]
    if client["kind"] == HERMES:
        mounts.append((f"{layout.client_folder(name)}/config.yaml", f"{kind.data}/config.yaml", True))
    for source, target, read_only in mounts:
        words += ["--mount", f"type=bind,source={source},target={target}" + (",readonly" if read_only else "")]
    return [*words, "--entrypoint", f"{IN_SETTINGS}/start", client["image"]["reference"]]


def _options(name: str, client: Client, way: Way) -> Iterator[tuple[str, str]]:
    """As a service's container, without the GPU: what it prints goes to the journal alone."""
    kind = KINDS[client["kind"]]
    yield from (("rm", ""), ("name", layout.client_container(name)), ("pull", "never"), ("log-driver", "none"))
    yield "cap-drop", "ALL"
    yield from (("cap-add", capability) for capability in kind.capabilities)
    yield from (("security-opt", "no-new-privileges"), ("pids-limit", "2048"), ("memory", str(kind.memory_limit)))
    yield "publish", f"{in_url(client['listen'])}:{client['port']}:{kind.port}"
    if way.address:
        yield "add-host", f"{way.name}:{way.address}"


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
