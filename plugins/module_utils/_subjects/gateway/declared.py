# SPDX-License-Identifier: GPL-3.0-or-later
"""``fleet_gateway``: one address for all services, and the file of those who may call it."""

from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from ..._base import secret_files, worded
from ..._base.addresses import in_url, is_address, is_network
from ..._base.findings import Finding, unknown_host
from ..._base.forms import forms
from ..._base.place import Place
from ..._engines.declaration import Tls
from ..._engines.placed import Host
from ..fleet.subject import Claims, DeclareContext, Port
from ..tls.declared import LOCAL, NAME_PATTERN, TLS
from ..tls.declared import decide as decide_tls
from .clients import client_problems

PLACE = Place(variable="fleet_gateway")
# By which a run removes it, and by which its certificate is called.
NAME = "gateway"
GATEWAY = forms("gateway", tls=TLS, dns_name={"type": "str", "pattern": NAME_PATTERN})["gateway"]


class GatewayDeclared(TypedDict):
    """``fleet_gateway``, checked and completed by `decide`.

    own_name: a DNS name that is no host's. address: that floats. members: with it ``{host: address}`` of the gateways
    among each other, else empty.
    """

    hosts: list[str]
    name: str
    address: str | None
    port: int
    redirect_port: int | None
    keys_file: str
    tls: Tls
    queue: int
    wait_s: int
    aliases: dict[str, str]
    addresses: list[str]
    own_name: str | None
    members: dict[str, str]


_MOST_BYTES = 1 << 20
_LEAST_HOSTS = 2


def decide(gateway: GatewayDeclared, context: DeclareContext) -> Iterator[Finding]:
    """Complete a checked ``fleet_gateway``: see `GatewayDeclared`."""
    folder, hosts = context.folder, {name: host.address for name, host in context.hosts.items()}
    if NAME in context.services:
        yield worded.error("input-gateway-name", Place(service=NAME), name=NAME)
    yield from _placement(gateway, hosts)
    keys = folder / gateway["keys_file"]
    gateway["keys_file"] = str(keys)
    make = f"""(umask 077; mkdir -p {keys.parent}; echo "me: $(openssl rand -hex 32)" > {keys})"""
    expected, place = "a YAML file with one line a client, NAME: KEY", PLACE.below("keys_file")
    text = yield from secret_files.named(
        "input-gateway-keys", place, keys, expected=expected, remedy=make, most=_MOST_BYTES
    )
    # keys that can't work would be missed only when clients come
    yield from client_problems(place, str(keys), text) if text is not None else ()
    there = [name for name in gateway["hosts"] if name in hosts]
    yield from _addresses(gateway, [hosts[name] for name in there])
    yield from _floating(gateway, hosts)
    floating = [gateway["address"]] if gateway["address"] else []
    reached = [*floating, *(label for name in there for label in (name, hosts[name]))]
    wanted: Any = gateway.get("tls", LOCAL)
    if wanted == "none":
        yield worded.error("input-gateway-tls", PLACE.below("tls"), local=LOCAL)
    named = gateway.get("name")
    also = [named] if named else []
    if tls := (yield from decide_tls(NAME, PLACE.below("tls"), wanted, [*reached, *also], folder)):
        gateway["tls"] = tls
    gateway["name"] = named or (floating or [hosts[name] for name in there] or [""])[0]
    # a name that is the gateway's alone; a host's leads to other programs too, which may know no TLS
    gateway["own_name"] = named if named and named not in reached and not is_address(named) else None


def url(gateway: GatewayDeclared) -> str:
    """Where clients reach it, without /v1."""
    return f"https://{in_url(gateway['name'])}" + ("" if gateway["port"] == 443 else f":{gateway['port']}")


def _addresses(gateway: GatewayDeclared, reached: list[str]) -> Iterator[Finding]:
    """The packet filter of a host knows addresses alone."""
    is_written = "addresses" in gateway
    gateway.setdefault("addresses", reached)
    wrong = [
        address for address in gateway["addresses"] if not (is_network(address) if is_written else is_address(address))
    ]
    if wrong:
        found = f"{', '.join(wrong)} is no address" if is_written else f"ansible_host is {', '.join(wrong)}, a name"
        at = PLACE.below("addresses") if is_written else PLACE.below("hosts")
        yield worded.error("input-gateway-address", at, found=found)


def _floating(gateway: GatewayDeclared, hosts: Mapping[str, str]) -> Iterator[Finding]:
    """Gateways know each other by one address each, of the floating one's kind."""
    address = gateway.setdefault("address", None)
    gateway["members"] = {}
    if address is None:
        return
    chosen = [name for name in gateway["hosts"] if name in hosts]
    wrong = ""
    if not is_address(address):
        wrong = f"{address} is no address"
    elif address in hosts.values() or address in gateway["addresses"]:
        wrong = f"{address} is that of a host"
    if wrong:
        yield worded.error("input-gateway-floating/floating", PLACE.below("address"), found=wrong)
        return
    if len({*chosen}) < _LEAST_HOSTS:
        yield worded.error("input-gateway-floating/floating-more", PLACE.below("hosts"), address=address)
        return
    known = gateway["addresses"]
    alike = [item for item in known if is_address(item) and (":" in item) == (":" in address)]
    if len(known) != len(chosen) or alike != known:
        found, each, example = (", ".join(names) for names in (known, chosen, ["ADDRESS"] * len(chosen)))
        at = PLACE.below("addresses")
        yield worded.error(
            "input-gateway-floating/members", at, found=found, each=each, address=address, example=example
        )
        return
    gateway["members"] = dict(zip(chosen, known, strict=True))


def _placement(gateway: GatewayDeclared, hosts: Mapping[str, str]) -> Iterator[Finding]:
    chosen = gateway["hosts"]
    yield from (unknown_host(PLACE.below("hosts"), name, hosts) for name in sorted({*chosen} - {*hosts}))
    if len({*chosen}) < len(chosen):
        yield worded.error("input-host-twice/placement-other", PLACE.below("hosts"))


def ports(gateway: GatewayDeclared) -> list[tuple[str, int]]:
    """Its ports on each of its hosts, by the option that names them: that for TLS, and one that leads to it."""
    redirect = gateway["redirect_port"]
    return [("port", gateway["port"]), *([("redirect_port", redirect)] if redirect else [])]


def claims(gateway: GatewayDeclared, _hosts: Mapping[str, Host]) -> Claims:
    taken = [Port(host, port, PLACE.below(key)) for key, port in ports(gateway) for host in gateway["hosts"]]
    return Claims(taken, gateway["tls"], gateway["aliases"], readiness=True)
