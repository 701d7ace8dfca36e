# SPDX-License-Identifier: GPL-3.0-or-later
"""IP addresses as owners write them."""

import ipaddress
from collections.abc import Callable, Iterator

from . import worded
from .findings import Finding
from .place import Place

EVERYWHERE = ("0.0.0.0", "::")


def is_address(text: str) -> bool:
    return _can(ipaddress.ip_address, text)


def is_network(text: str) -> bool:
    """Whether it is an address, or a network by its first one."""
    return _can(ipaddress.ip_network, text)


def _can(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def ipv4(text: str) -> ipaddress.IPv4Address | None:
    """None where it is no such address."""
    try:
        return ipaddress.IPv4Address(text)
    except ValueError:
        return None


def is_loopback(listen: str) -> bool:
    """Whether its host alone reaches what listens there."""
    return listen.startswith("127.") or listen == "::1"


def in_url(address: str) -> str:
    """As a URL has it, and every other ``ADDRESS:PORT``."""
    return f"[{address}]" if ":" in address else address


def from_its_host(listen: str) -> str:
    """Where the host itself asks what listens there, as a URL has it."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(listen, in_url(listen))


def wrong_listen(place: Place, listen: str) -> Iterator[Finding]:
    """place: of what declares it."""
    if not is_address(listen):
        yield worded.error("input-listen", place.below("listen"), listen=listen)
