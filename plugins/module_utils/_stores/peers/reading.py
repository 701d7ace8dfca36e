# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads who may come to a host for images and models, and by which public keys and addresses hosts know each other."""

import pwd
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..._host.probe.parts import Part
from ..transfer import access

HOST_KEY = Path("/etc/ssh/ssh_host_ed25519_key.pub")


def read_peers(
    authorized: Path = Path(access.AUTHORIZED_KEYS),
    known: Path = Path(access.KNOWN_HOSTS),
    public: Path = Path(f"{access.KEY}.pub"),
    host_key: Path = HOST_KEY,
    reads: Mapping[str, Iterable[str]] | None = None,
) -> dict[str, Any]:
    """``{authorized: {name: line}, known: {name: key}, public_key, host_key, addresses}``; keys are empty without any.

    authorized: the lines of the account's ``authorized_keys``, by the reader's name at their end. addresses: this
    host's own, towards those that it reads from. reads: by host that it reads from the addresses of that one.
    """
    return {
        "authorized": {line.rpartition(f"{access.ACCOUNT}@")[2]: line for line in _text(authorized).splitlines()},
        "known": {name: key for name, _, key in (line.partition(" ") for line in _text(known).splitlines())},
        "public_key": access.bare(_text(public)),
        "host_key": access.bare(_text(host_key)),
        "addresses": local(address for ends in (reads or {}).values() for address in ends),
    }


def read_inventory(sudoers: Path = Path(access.SUDOERS)) -> str | None:
    """Which inventory lets readers in; empty where an earlier release did, None where nobody is let in."""
    return access.given_by(_text(sudoers)) if sudoers.exists() else None


def has_account() -> bool:
    """Whether the account is there that readers come in by."""
    try:
        pwd.getpwnam(access.ACCOUNT)
    except KeyError:
        return False
    return True


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def local(addresses: Iterable[str]) -> list[str]:
    """From which of its own addresses this host would reach these, names or addresses; nothing is sent.

    A host may have several on one network, and what its inventory calls it by needn't be among them.
    """
    return sorted({mine for address in addresses for mine in _local(address)})


def _local(address: str) -> Iterable[str]:
    try:
        ends = socket.getaddrinfo(address, 22, type=socket.SOCK_DGRAM)
    except OSError:
        return
    for family, kind, protocol, _, end in ends:
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.connect(end)
            except OSError:
                continue
            yield probe.getsockname()[0].partition("%")[0]


# What a converge asks besides.
BEFORE_CHANGE: Mapping[str, Part] = {"peers_account": lambda _run, _ask: has_account()}
READS: Mapping[str, Part] = {
    "peers": lambda _run, ask: read_peers(reads=ask["reads"]),
    "peers_entries": lambda _run, _ask: [path for path in access.ENTRIES if Path(path).exists()],
    "peers_inventory": lambda _run, _ask: read_inventory(),
}
