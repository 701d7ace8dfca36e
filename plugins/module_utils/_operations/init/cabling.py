# SPDX-License-Identifier: GPL-3.0-or-later
"""From whose frames came by which half to cables and switches of ports, or a sentence why neither."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..._subjects.fabric.hardware import RAILS
from .reading import Reading

Port = tuple[str, int]


@dataclass(frozen=True)
class Cabling:
    """cables: pairs of ports. switches: the ports that all receive each other. notes: what of it is neither."""

    cables: Sequence[tuple[Port, Port]]
    switches: Sequence[Sequence[Port]]
    notes: Sequence[str]


def cabling(readings: Mapping[str, Reading]) -> Cabling:
    """A host may send anything: halves and hosts that this run does not know count for nothing."""
    seen = _seen(readings)
    cables: set[tuple[Port, Port]] = set()
    groups: dict[frozenset[Port], set[Port]] = {}
    notes = []
    for port, far in sorted(seen.items()):
        if not far:
            notes.append(f"{shown(port)} has light and receives nobody: a switch, or a machine that is not in this run")
        elif len(far) > 1:
            groups.setdefault(frozenset({port, *far}), set()).add(port)
        elif port in seen.get(other := min(far), ()):
            cables.add((min(port, other), max(port, other)))
        else:
            notes.append(f"{shown(port)} receives {shown(other)}, which does not receive it; run this again")
    whole = [sorted(members) for members, ends in groups.items() if ends == members]
    notes += [
        f"some of {', '.join(map(shown, sorted(members)))} receive more than others; run this again"
        for members, ends in groups.items()
        if ends != members
    ]
    return Cabling(sorted(cables), sorted(whole), notes)


def shown(port: Port) -> str:
    """As ``fleet_fabric`` has it."""
    return f"{port[0]}:{port[1]}"


def _seen(readings: Mapping[str, Reading]) -> dict[Port, set[Port]]:
    """For each port with light the ports of other hosts whose frames came."""
    found: dict[Port, set[Port]] = {
        (host, RAILS[name].port): set()
        for host, reading in readings.items()
        for name, half in reading["halves"].items()
        if name in RAILS and half["carrier"]
    }
    for host, reading in readings.items():
        for item in reading["seen"]:
            if item["half"] in RAILS and item["far"] in RAILS and item["host"] in readings and item["host"] != host:
                found.setdefault((host, RAILS[item["half"]].port), set()).add((item["host"], RAILS[item["far"]].port))
    return found
