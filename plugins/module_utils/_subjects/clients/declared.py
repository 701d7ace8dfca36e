# SPDX-License-Identifier: GPL-3.0-or-later
"""``fleet_clients``: programs that use the gateway, each with its key."""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NotRequired, TypedDict

from ..._base import secret_files, worded
from ..._base.addresses import wrong_listen
from ..._base.findings import Finding, did_you_mean, error, unknown_host
from ..._base.forms import forms
from ..._base.gb10 import fact
from ..._base.place import Place
from ..._engines.placed import Host
from ..fleet.subject import Claims, DeclareContext, Port
from ..gateway.clients import names_of
from ..gateway.declared import GatewayDeclared

HERMES, OPEN_WEBUI = "hermes", "open-webui"
_EVERYBODY, _THIS_HOST = "0.0.0.0", "127.0.0.1"
# Hermes runs commands for whoever has its key: its API is its own host's until the owner says otherwise.
_DEFAULTS: Mapping[str, tuple[int, str]] = {HERMES: (8642, _THIS_HOST), OPEN_WEBUI: (3000, _EVERYBODY)}
_MADE = ".fleet/keys"
_MOST_BYTES = 1 << 20

CLIENTS = forms("clients")["clients"]


class ClientImage(TypedDict):
    reference: str
    digest: str | None
    source: str | dict[str, str]


class Client(TypedDict):
    """One of ``fleet_clients``, checked and completed by `decide`. secret_made: whether a run makes its secret."""

    kind: str
    host: str
    service: NotRequired[str]
    port: int
    listen: str
    key: str
    secret_file: str
    account: str
    image: ClientImage
    env: dict[str, str]
    secret_made: bool


def decide(clients: dict[str, Client], context: DeclareContext) -> Iterator[Finding]:
    """Complete checked ``fleet_clients``: see `Client`."""
    gateway, folder = context.fleet["gateway"], context.folder
    known = _known_keys(gateway)
    for name, client in clients.items():
        place = Place(variable="fleet_clients").below(name)
        port, listen = _DEFAULTS[client["kind"]]
        client.setdefault("port", port)
        client.setdefault("listen", listen)
        client.setdefault("key", name)
        client.setdefault("account", "admin@localhost")
        client["secret_made"] = "secret_file" not in client
        client["secret_file"] = str(folder / client.get("secret_file", f"{_MADE}/client-{name}.key"))
        image = client["image"]
        own = fact("clients", client["kind"].replace("-", "_"))
        client["image"] = {
            "reference": image.get("reference", own),
            "digest": image.get("digest"),
            "source": image.get("source", "registry"),
        }
        yield from _placement(name, client, place, context)
        if gateway is None and "gateway" not in context.refused:
            yield worded.error("input-client-gateway", place)
        elif gateway and known is not None and client["key"] not in known:
            yield worded.error(
                "input-client-key", place.below("key"), keys_file=gateway["keys_file"], key=client["key"]
            )
        yield from wrong_listen(place, client["listen"])
        yield from _secret(client, place)


def _known_keys(gateway: GatewayDeclared | None) -> Collection[str] | None:
    """The names in the gateway's file of keys; None where it is missing, or encrypted by ansible-vault."""
    if gateway is None or not Path(gateway["keys_file"]).is_file():
        return None
    content = secret_files.read(Path(gateway["keys_file"]), _MOST_BYTES)
    return None if content is None else names_of(content.decode("utf-8", "replace"))


def _placement(name: str, client: Client, place: Place, context: DeclareContext) -> Iterator[Finding]:
    services = context.service_names
    if name in services or name == "gateway":
        yield worded.error("input-client-name", place)
    if client["host"] not in context.hosts:
        yield unknown_host(place.below("host"), client["host"], context.hosts)
    if client["kind"] == OPEN_WEBUI and "service" in client:
        yield worded.error("input-client-service/placement", place.below("service"))
    elif client["kind"] == HERMES and client.get("service") not in services:
        found = f'''no service "{client["service"]}"''' if "service" in client else "none"
        remedy = did_you_mean(client.get("service", ""), services)
        yield worded.error("input-client-service/placement-whose", place.below("service"), found=found, remedy=remedy)


def claims(clients: Mapping[str, Client], _hosts: Mapping[str, Host]) -> Claims:
    place = Place(variable="fleet_clients")
    return Claims([Port(one["host"], one["port"], place.below(name, "port")) for name, one in clients.items()])


def _secret(client: Client, place: Place) -> Iterator[Finding]:
    path = Path(client["secret_file"])
    if client["secret_made"] and not os.path.lexists(path):
        return
    rule, where, make = "input-client-secret", place.below("secret_file"), f"(umask 077; openssl rand -hex 32 > {path})"
    expected = "one word of at least 16 characters of A-Z, a-z, 0-9 and ._~+/=-"
    text = yield from secret_files.named(rule, where, path, expected=expected, remedy=make)
    if text is not None and not is_secret(text):
        yield error(rule, where, found=f"{path} holds something else", expected=expected, remedy=make)


def is_secret(text: str) -> bool:
    """Whether a file's text is one word that needs no quoting anywhere on its way."""
    words = text.strip()
    return 16 <= len(words) <= 4096 and all(word.isascii() and (word.isalnum() or word in "._~+/=-") for word in words)
