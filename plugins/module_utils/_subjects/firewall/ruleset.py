# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a host as an nftables table: the whole of it in one transaction, beside whatever else is there."""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._base import layout
from ..._base.slice import Meeting, Neighbour, Opening, Rules
from ..fabric.hardware import RAILS, interfaces_of

TABLE = "inet gb10_fleet"
# The bridge of Docker's first network, and those of others by their ids. An owner's own bridge may have any other name,
# also one that begins with br-: it leads outside, even where Docker was told to use it.
_BRIDGE = r"docker0|br-[0-9a-f]{12}"
# By its number: a host need not have the list of names.
_VRRP = 112


@dataclass(frozen=True, order=True)
class Network:
    """A network of Docker's own on this host: its bridge, and its subnets, ``172.17.0.0/16``."""

    interface: str
    subnets: tuple[str, ...]


def container_networks(inspected: Iterable[Mapping[str, Any]]) -> list[Network]:
    """Docker's own bridges, of `docker network inspect`."""
    found = []
    for network in inspected:
        name = (network.get("Options") or {}).get("com.docker.network.bridge.name", f"br-{network['Id'][:12]}")
        entries = network["IPAM"].get("Config") or ()
        subnets = sorted(str(ipaddress.ip_network(entry["Subnet"])) for entry in entries if entry.get("Subnet"))
        if network["Driver"] == "bridge" and re.fullmatch(_BRIDGE, name) and subnets:
            found.append(Network(name, tuple(subnets)))
    return sorted(found)


def named_networks(text: str) -> list[Network]:
    """The networks that rules were written for."""
    found: dict[str, list[str]] = {}
    for interface, subnet in re.findall(r'iifname "(\S+)" ip6? saddr (\S+) jump from_containers', text):
        found.setdefault(interface, []).append(subnet)
    return sorted(Network(interface, tuple(subnets)) for interface, subnets in found.items())


def ruleset(plan: Rules, ssh_ports: Sequence[int], networks: Sequence[Network] = ()) -> str:
    """The file's text; an empty one for an open host. ValueError without a port for SSH, which would shut it out.

    networks: Docker's own, whose containers reach what is open for everybody but SSH, and names (DNS).
    """
    if plan["state"] == "open":
        return ""
    if plan["state"] == "limited":
        return _limited(plan["open"])
    if not ssh_ports:
        raise ValueError("no port of SSH is known on this host: closing it would lock its owner out")
    openings: list[Opening] = [
        {"port": port, "protocol": "tcp", "from": [], "reason": "SSH"} for port in sorted({*ssh_ports})
    ]
    return _TEXT.format(
        table=TABLE,
        containers="".join(line for network in networks for line in _of_containers(network)),
        to_host="\n".join(
            line for opening in plan["open"] if opening["port"] for line in _accepts(opening, _to_port(opening))
        ),
        accounts="\n".join(_from_accounts(plan["meetings"], [*openings, *plan["open"]])),
        neighbours="\n".join(_neighbour(neighbour) for neighbour in plan["neighbours"]),
        openings="\n".join(
            line for opening in [*openings, *plan["open"]] for line in _accepts(opening, _to_port(opening))
        ),
        published="\n".join(
            line
            for opening in plan["open"]
            if opening["port"]
            for line in _accepts(opening, "meta l4proto {protocol} ct original proto-dst {port}")
        ),
        among_containers="".join(
            f"        {_comes_from(network.interface, subnet)} accept\n"
            for network in networks
            for subnet in network.subnets
        ),
    )


def closes(text: str) -> bool:
    """Whether rules of ours shut what they don't name."""
    return "chain from_containers" in text


def _limited(openings: Sequence[Opening]) -> str:
    """Each of the ports is open to whom its openings name, and everything else is left alone."""
    reached = [opening for opening in openings if opening["port"]]
    ports = ", ".join(map(str, sorted({port for opening in openings if (port := opening["port"])})))
    lines = [line for opening in openings for line in _accepts(opening, _to_port(opening))]
    if len(reached) < len(openings):
        lines.append(f"        meta l4proto {_VRRP} counter drop")
    published = [
        line for opening in reached for line in _accepts(opening, "meta l4proto tcp ct original proto-dst {port}")
    ]
    if ports:
        lines.append(f"        tcp dport {{ {ports} }} counter reject with tcp reset")
        published.append(f"        meta l4proto tcp ct original proto-dst {{ {ports} }} counter reject with tcp reset")
    return _LIMITED.format(table=TABLE, openings="\n".join(lines), published="\n".join(published))


def _to_port(opening: Opening) -> str:
    """How what comes is known; VRRP has no ports."""
    return f"meta l4proto {_VRRP}" if opening["protocol"] == "vrrp" else "{protocol} dport {port}"


def _of_containers(network: Network) -> Iterator[str]:
    """What comes by Docker's bridge is a container's, or has an address that isn't its own."""
    for subnet in network.subnets:
        yield f"        {_comes_from(network.interface, subnet)} jump from_containers\n"
    yield f'        iifname "{network.interface}" counter drop\n'


def _comes_from(interface: str, subnet: str) -> str:
    return f'iifname "{interface}" {"ip6" if ":" in subnet else "ip"} saddr {subnet}'


def _from_accounts(meetings: Sequence[Meeting], openings: Sequence[Opening]) -> Iterator[str]:
    """An account of the host has no business at the ports of ranks: torch's and llama.cpp's believe whoever comes."""
    if not meetings:
        return
    ports = sorted({port for opening in openings if (port := opening["port"]) and opening["protocol"] == "tcp"})
    yield f"        tcp dport {{ {', '.join(map(str, ports))} }} accept"
    addresses = sorted({address for meeting in meetings if (address := meeting["address"])})
    if addresses:
        yield f"        ip daddr {{ {', '.join(addresses)} }} meta l4proto tcp counter reject with tcp reset"
        yield f"        ip daddr {{ {', '.join(addresses)} }} counter reject"
    met = ", ".join(map(str, sorted({meeting["port"] for meeting in meetings})))
    yield f"        tcp dport {{ {met} }} counter reject with tcp reset"


def _neighbour(neighbour: Neighbour) -> str:
    """By both halves of a port: without arp_ignore, as others may keep a network, either answers for its twin."""
    name = neighbour["interface"]
    known = RAILS.get(name or "")
    names = ", ".join(f'"{half}"' for half in (sorted(interfaces_of(known.port)) if known else filter(None, [name])))
    here = f"iifname {{ {names} }} " if names else ""
    return f"        {here}ip saddr {neighbour['address']} accept"


def _accepts(opening: Opening, match: str) -> Iterable[str]:
    """One line an address family that the sources have; one for all without sources."""
    words = (
        match.format(**opening) + " accept" + (f" comment {_quoted(opening['reason'])}" if opening["reason"] else "")
    )
    if not opening["from"]:
        yield f"        {words}"
    for family, mark in (("ip", "."), ("ip6", ":")):
        sources = [source for source in opening["from"] if mark in source]
        if sources:
            yield f"        {family} saddr {{ {', '.join(sources)} }} {words}"


def _quoted(text: str) -> str:
    """nft knows no escape inside a comment, and takes 128 bytes."""
    return '"' + "".join(letter for letter in text if letter.isprintable() and letter != '"')[:60] + '"'


_TEXT = (
    f"#!/usr/sbin/nft -f\n{layout.MARK}\n"
    + """\
# Ranks listen on random ports of every address, so this host is closed but for what stands here.
table {table}
delete table {table}
table {table} {{
    chain input {{
        type filter hook input priority filter; policy accept;
        ct state established,related accept
        iifname "lo" accept
        meta l4proto {{ icmp, ipv6-icmp }} accept
{containers}\
        # an address by DHCP, and the host's name in the local network (spark-1234.local)
        udp dport {{ 68, 546, 5353 }} accept
{neighbours}
{openings}
        # who knocks in vain shall know at once, not after a timeout
        meta l4proto tcp counter reject with tcp reset
        counter drop
    }}
    # What an account sends to this host itself comes by lo, and so past the chain above.
    chain output {{
        type filter hook output priority filter; policy accept;
        oifname "lo" meta skuid != 0 ct state new jump from_accounts
    }}
    chain from_accounts {{
{accounts}
    }}
    # A service's container has no business with SSH, nor with ranks on this host.
    chain from_containers {{
        meta l4proto {{ tcp, udp }} th dport 53 accept
{to_host}
        meta l4proto tcp counter reject with tcp reset
        counter drop
    }}
    # Docker sends what it publishes to containers, past the chain above.
    chain published {{
        type filter hook forward priority filter; policy accept;
        ct state established,related accept
        ct status dnat jump to_containers
    }}
    chain to_containers {{
{published}
{among_containers}\
        meta l4proto tcp counter reject with tcp reset
        counter drop
    }}
}}
"""
)

_LIMITED = (
    f"#!/usr/sbin/nft -f\n{layout.MARK}\n"
    + """\
# The services' APIs are the gateway's alone; every other port is left alone.
table {table}
delete table {table}
table {table} {{
    chain input {{
        type filter hook input priority filter; policy accept;
        ct state established,related accept
        iifname "lo" accept
{openings}
    }}
    # Docker sends what it publishes to containers, past the chain above.
    chain published {{
        type filter hook forward priority filter; policy accept;
        ct state established,related accept
        ct status dnat jump to_containers
    }}
    chain to_containers {{
{published}
    }}
}}
"""
)
