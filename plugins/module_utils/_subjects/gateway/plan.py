# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway's part of its host's slice, and what the plan shows of it."""

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from ..._base import layout
from ..._base.gb10 import filled
from ..._base.slice import GatewayRequest, GatewaySlice
from . import haproxy
from .backends import Backend
from .declared import GatewayDeclared, url
from .reading import ADDRESS_CONFIG, ADDRESS_PROGRAM, BODIES_CONFIG, CONFIG, HOLDS, MODELS_MAP

# How long running streams may go on when the gateway is stopped.
_STOP_S = 120
# What senders can take of a host whose memory is its models', of each process.
_MEMORY_MIB = 2048


def units(inventory: str, *, floats: bool) -> dict[str, str]:
    """``{unit: text}``. inventory: whose gateway it is; systemd passes over sections of this kind. floats: with a
    floating address, which goes to another host when this one's gateway stops.

    A configuration that HAProxy refuses is never gone on with: neither a start nor a reload comes to it. A reload keeps
    the earlier process until its streams have ended. The gateway keeps a time of its last reading, by which a run sees
    that files are newer. A stop lets streams end for a while.
    """
    read = f"/usr/bin/touch {layout.GATEWAY_READ}"
    return {
        layout.GATEWAY_UNIT: _unit(
            "the gateway to all services",
            "Wants=network-online.target\nAfter=network-online.target",
            CONFIG,
            layout.GATEWAY_STATUS,
            [read],
            inventory,
        ),
        layout.GATEWAY_BODIES_UNIT: _unit(
            "what reads the gateway's large requests",
            f"PartOf={layout.GATEWAY_UNIT}",
            BODIES_CONFIG,
            layout.GATEWAY_BODIES_STATUS,
            [],
            inventory,
        ),
        **(
            {layout.GATEWAY_ADDRESS_UNIT: filled("address.service", **_ADDRESS_WORDS, inventory=inventory)}
            if floats
            else {}
        ),
    }


def _unit(what: str, order: str, config: str, folder: str, before: list[str], inventory: str) -> str:
    """folder: of its sockets, where HAProxy's account alone can reach those that are its group's."""
    before = [f"/usr/sbin/haproxy -q -c -f {config}", *before]
    begins = "\n".join(f"ExecStartPre={command}" for command in before)
    reloads = "\n".join(f"ExecReload={command}" for command in [*before, "/bin/kill -USR2 $MAINPID"])
    name = PurePath(folder).name
    return filled(
        "gateway.service",
        what=what,
        order=order,
        name=name,
        begins=begins,
        config=config,
        reloads=reloads,
        stop_s=_STOP_S,
        memory_mib=_MEMORY_MIB,
        folder=folder,
        inventory=inventory,
    )


_ADDRESS_WORDS = {
    "gateway": layout.GATEWAY_UNIT,
    "program": ADDRESS_PROGRAM,
    "config": ADDRESS_CONFIG,
    "folder": PurePath(layout.GATEWAY_ADDRESS_UNIT).stem,
}
# Whose gateway does not run gives the address away; one that runs again asks for it again.


# Of the groups of this network none by multicast is ours.
_GROUP = 171
_FIRST_PRIORITY = 200


def address_config(gateway: GatewayDeclared, host: str, interface: str) -> str:
    """``address.conf`` of a host. gateway: as `_subjects.gateway.declared.decide` completes it. interface: of the
    address."""
    members, address = gateway["members"], gateway["address"] or ""
    width = 128 if ":" in address else 32
    return filled(
        "keepalived.conf",
        host=host,
        interface=interface,
        port=gateway["port"],
        group=_GROUP,
        # the first one has it where all begin at once
        priority=_FIRST_PRIORITY - [*members].index(host),
        here=members[host],
        others="".join(f"        {address}\n" for name, address in members.items() if name != host),
        address=f"{address}/{width}",
    )


CLIENTS = f"{layout.GATEWAY}/clients.map"
# A key in HAProxy's map: a map's value is the rest of its line, which `json_query` reads.
KEY_FORM = 'key {"key": %s}\n'


def gateway_slice(
    gateway: GatewayDeclared, offered: Sequence[Backend], inventory: str, host: str, interface: str
) -> GatewaySlice:
    """``hosts.<host>.gateway`` of a gateway's host; the others have an empty one.

    gateway: as `_subjects.gateway.declared.decide` completes it. inventory: whose it is. interface: of the host's
    management network. files, folders: what is written here. address: that floats, or None. packages: without their own
    services. clients, backend_keys, tls: what no plan holds, where it lies on the controller (source) and here (path);
    names: what the certificate has to name, ca: of the local CA, None for a certificate of the owner's. listens: its
    ports.
    servers: ``{backend: {server: host}}``. readiness: ``{backend: {server: [address, port]}}``, where their supervisors
    say whether they serve. proof: what is asked of it.
    """
    # HAProxy finds the key beside the certificate
    tls, key = gateway["tls"], f"{layout.GATEWAY_CERTIFICATE}.key"
    texts = units(inventory, floats=gateway["address"] is not None)
    written = {f"{layout.UNITS}/{name}": text for name, text in texts.items()} | {
        CONFIG: haproxy.config(gateway, offered),
        HOLDS: "",
        MODELS_MAP: haproxy.models_map(offered),
        haproxy.MODELS: haproxy.models_json(offered),
        haproxy.MODEL_ANSWERS: haproxy.model_answers(offered),
        BODIES_CONFIG: haproxy.bodies_config(offered),
    }
    if gateway["address"]:
        written[ADDRESS_CONFIG] = address_config(gateway, host, interface)
    return {
        "inventory": inventory,
        "address": gateway["address"],
        "packages": ["haproxy", *(["curl", "keepalived"] if gateway["address"] else [])],
        "unit": layout.GATEWAY_UNIT,
        "units": dict.fromkeys(texts, "started"),
        "files": {path: {"mode": "0644", "content": content} for path, content in sorted(written.items())},
        "folders": {layout.GATEWAY: "0700", f"{layout.GATEWAY}/keys": "0700"},
        "clients": {"source": gateway["keys_file"], "path": CLIENTS},
        "backend_keys": [
            {"source": backend.key, "path": layout.gateway_key(backend.name), "form": KEY_FORM}
            for backend in offered
            if backend.key
        ],
        "tls": {
            "certificate": {"source": tls["certificate"], "path": layout.GATEWAY_CERTIFICATE},
            "key": {"source": tls["key"], "path": key},
            "ca": tls["ca"],
            "names": tls["names"],
        },
        "listens": [gateway["port"], *([gateway["redirect_port"]] if gateway["redirect_port"] else [])],
        "servers": {backend.name: {server.service: server.host for server in backend.servers} for backend in offered},
        "readiness": {
            backend.name: {server.service: [server.address, server.readiness] for server in backend.servers}
            for backend in offered
        },
        "proof": {
            "port": gateway["port"],
            "name": gateway["name"],
            "certificate": layout.GATEWAY_CERTIFICATE,
            "ca": layout.trusted_ca(inventory) if tls["ca"] else None,
            "names": tls["names"],
            "models": [name for backend in offered for name in backend.names],
            "requests": [*_requests(offered)],
        },
    }


def _requests(offered: Sequence[Backend]) -> Iterator[GatewayRequest]:
    """Those whose model is found in the body. A form, as sound is sent in, names it by the header X-Model."""
    for backend in offered:
        example = backend.servers[0].example
        if example is not None and not example["sound_s"]:
            yield {"model": backend.model, "example": example}


def shown(gateway: GatewayDeclared, offered: Sequence[Backend]) -> dict[str, Any]:
    """``gateway`` of the plan: where it is, who may call what, and the services behind each name."""
    return {
        "hosts": list(gateway["hosts"]),
        "address": gateway["address"],
        "url": f"{url(gateway)}/v1",
        "clients": gateway["keys_file"],
        "ca": gateway["tls"]["ca"],
        "addresses": list(gateway["addresses"]),
        "queue": gateway["queue"],
        "models": [
            {
                "model": backend.model,
                "aliases": list(backend.aliases),
                "services": [server.service for server in backend.servers],
                "slots": backend.slots,
                "context": backend.context,
            }
            for backend in offered
        ],
    }
