# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports of a service on several hosts: they follow from its own, so that a further service moves none."""

from collections.abc import Sequence

# Linux takes ports for outgoing connections from 32768 on (net.ipv4.ip_local_port_range).
_SUPERVISORS, _READINESS, _RANKS, _SPARE = 10_000, 12_000, 14_000, 18_000
_LAST = 32_767
MOST_ABOVE = _SPARE
LAST_PORT = _LAST - MOST_ABOVE


def supervisors_port(port: int) -> int:
    """Where the supervisors of a group meet, on the head's address in the group."""
    return port + _SUPERVISORS


def readiness_port(port: int) -> int:
    """Where the head's supervisor tells gateways whether it serves."""
    return port + (_READINESS if port + _READINESS <= _LAST else -_READINESS)


def ranks_port(port: int) -> int:
    """Where the ranks meet, on the head's address in the group."""
    return port + _RANKS


def spare_port(port: int) -> int:
    """For what an engine opens on the head besides."""
    return port + _SPARE


def ports_on_head(port: int, hosts: Sequence[str]) -> list[int]:
    """All ports that a service takes on its head; one of them only where there is a gateway."""
    alone = [port, readiness_port(port)]
    return [*alone, supervisors_port(port), ranks_port(port), spare_port(port)] if len(hosts) > 1 else alone
