# SPDX-License-Identifier: GPL-3.0-or-later
"""The files by which one host lets others read its images and models, and by which it reads theirs."""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..._base import layout

ACCOUNT = "gb10-peer"
HOME = layout.PEER_HOME
PROGRAM = layout.PEER_PROGRAM
FOLDER = layout.PEER
KEY = f"{FOLDER}/id_ed25519"
KNOWN_HOSTS = f"{FOLDER}/known_hosts"
PLACES = f"{FOLDER}/places.json"
AUTHORIZED_KEYS = f"{HOME}/.ssh/authorized_keys"
SUDOERS = "/etc/sudoers.d/gb10-peer"
# Without these nobody gets in.
ENTRIES = {PROGRAM: "0755", SUDOERS: "0440"}

# More than a host has, and less than a line of sshd's may have.
_MOST_ADDRESSES = 64
# IPv6 addresses change by themselves within their network (RFC 8981).
_IPV6_PREFIX = 64


def sudoers(inventory: str) -> str:
    """The account may start the program without arguments, and nothing else, as root.

    inventory: which lets the readers in; one alone may (`given_by`).
    """
    return f'# Inventory={inventory}\n{ACCOUNT} ALL=(root) NOPASSWD: {PROGRAM} ""\n'


def given_by(rule: str) -> str:
    """The inventory in the text of `sudoers`; empty where it has none, as earlier releases wrote it."""
    found = re.search(r"^# Inventory=(\S+)$", rule, re.MULTILINE)
    return found[1] if found else ""


def is_of_another(given: str | None, inventory: str) -> bool:
    """Whether another inventory lets readers in. given: as `given_by`, or None where nobody is let in."""
    return bool(given) and given != inventory


def options(addresses: Iterable[str]) -> str:
    """What a key may be used for, and from where: the addresses, of IPv6 their networks. ValueError for anything else.

    addresses: those that the plan knows, and those that a reader named.
    """
    networks = sorted({_network(str(address)) for address in addresses}, key=lambda item: (item.version, item))
    if not 0 < len(networks) <= _MOST_ADDRESSES:
        raise ValueError(f"{len(networks)} addresses: expected 1 to {_MOST_ADDRESSES}")
    names = [str(network.network_address if network.version == 4 else network) for network in networks]
    return f'restrict,from="{",".join(names)}",command="sudo -n {PROGRAM}"'


def _network(address: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    found = ipaddress.ip_address(address)
    if "%" in address or found.is_loopback or found.is_unspecified or found.is_multicast:
        raise ValueError(f"{found} is no address of a host")
    return ipaddress.ip_network((found, 32 if found.version == 4 else _IPV6_PREFIX), strict=False)


def addresses_in(line: str) -> list[str]:
    """The addresses that `options` wrote in a line of ``authorized_keys``; none where it is otherwise."""
    names = line.partition('from="')[2].partition('"')[0]
    return [name.removesuffix(f"/{_IPV6_PREFIX}") for name in names.split(",") if name]


def authorized_keys(
    found: str, planned: Mapping[str, Sequence[str]], keys: Mapping[str, object], named: Mapping[str, object]
) -> str:
    """The account's ``authorized_keys``: one line for each reader, and none for anybody else.

    found: the file as it is. planned: by reader its addresses in the plan. keys, named: by reader its public key
    (``ssh-ed25519 ...``) and further addresses, as it has answered. A reader that has answered with neither, or with
    something else, keeps the line that it has.
    """
    lines = {line.rpartition(f"{ACCOUNT}@")[2]: line for line in found.splitlines()}
    lines |= {name: line for name in planned if (line := _line(name, planned[name], keys.get(name), named.get(name)))}
    return "".join(f"{lines[name]}\n" for name in sorted(planned) if name in lines)


def _line(name: str, planned: Sequence[str], key: Any, named: Any) -> str:
    """A reader's line; empty for one that can't be let in by what it answered."""
    try:
        own = options([*planned, *(named or ())])
    except (TypeError, ValueError):
        return ""
    return f"{own} {bare(key)} {ACCOUNT}@{name}" if bare(key) else ""


def without_line(authorized: str, readers: Iterable[str]) -> list[str]:
    """Readers that the file ``authorized`` does not let in."""
    names = {line.rpartition(f"{ACCOUNT}@")[2] for line in authorized.splitlines()}
    return sorted(set(readers) - names)


def known_hosts(found: str, reads: Iterable[str], keys: Mapping[str, object]) -> str:
    """The hosts' SSH host keys by inventory name, whatever address they are reached at.

    found: the file as it is, whose other lines stay: another inventory may need them, and they open nothing. reads: the
    hosts that this one reads from. keys: by host its key, as it has answered; one without keeps the line that it has.
    """
    lines = {line.partition(" ")[0]: line for line in found.splitlines()}
    lines |= {name: f"{name} {bare(keys[name])}" for name in reads if bare(keys.get(name))}
    return "".join(f"{line}\n" for _name, line in sorted(lines.items()))


def unknown_hosts(known: str, reads: Iterable[str]) -> list[str]:
    """Hosts to read from whose host keys the file ``known`` does not have."""
    names = {line.partition(" ")[0] for line in known.splitlines()}
    return sorted(set(reads) - names)


def bare(key: object) -> str:
    """A public key without its comment; empty for what is none, whatever a host calls its key."""
    found = re.match(r"(ssh-ed25519 [A-Za-z0-9+/]{1,400}={0,2})(?:\s|$)", key) if isinstance(key, str) else None
    return found[1] if found else ""
