# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway's part of its host's slice, and what the plan shows of it."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..._base import layout
from ..._base.slice import GatewayRequest, GatewaySlice
from . import haproxy
from .backends import Backend
from .declared import GatewayDeclared, url
from .reading import ADDRESS_CONFIG, BODIES_CONFIG, CONFIG, HOLDS, MODELS_MAP
from .units import address_config, units

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
