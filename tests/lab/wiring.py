# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cable is plugged where, and what that means for the links of the lab's network. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from .errors import LabError
from .model import PORT_HALVES, Cable, Port, between

SWITCH_BRIDGE = "switch"
# About a seventh of what a cable of the lab carries, as 13 Gb/s are of a ConnectX-7's half.
REPLUGGED_RATE = "1000mbit"


@dataclass(frozen=True)
class Wiring:
    """The cables that are plugged in now. ``declared`` is what ``up`` was asked for: where a pulled cable belongs."""

    hosts: tuple[str, ...]
    declared: tuple[Cable, ...]
    plugged: tuple[Cable, ...] = ()

    @classmethod
    def of(cls, hosts: tuple[str, ...], cables: tuple[Cable, ...]) -> Wiring:
        """All declared cables plugged in; refuses a port that is cabled twice or does not exist."""
        wiring = cls(hosts, cables)
        for cable in cables:
            wiring = wiring.plug(cable)
        return wiring

    def cable_at(self, port: Port) -> Cable | None:
        return _cable_at(self.plugged, port)

    def pull(self, port: Port) -> Wiring:
        cable = self._cable_that_is_at(port)
        return self._with(other for other in self.plugged if other != cable)

    def plug(self, cable: Cable) -> Wiring:
        if len(set(cable.ports)) < len(cable.ports):
            raise LabError(f"{cable}: both ends of a cable are the same port")
        for port in cable.ports:
            self._check_port(port)
            present = self.cable_at(port)
            if present is not None:
                raise LabError(f"{port} has a cable already ({present}): `lab cable pull {port}` first")
        return self._with((*self.plugged, cable))

    def plug_back(self, port: Port) -> Wiring:
        """The cable that ``up`` plugged into this port, back where it was."""
        self._check_port(port)
        cable = _cable_at(self.declared, port)
        if cable is None:
            raise LabError(
                f"{port} had no cable when the lab came up: say where it goes, `lab cable plug {port}=HOST:PORT`"
            )
        return self.plug(cable)

    def swap(self, one: Port, other: Port) -> Wiring:
        """What is plugged into one port goes into the other, and the reverse."""
        self._check_port(one)
        self._check_port(other)
        if self.cable_at(one) is None and self.cable_at(other) is None:
            raise LabError(f"neither {one} nor {other} has a cable to swap")
        return self._with(_moved(cable, {one: other, other: one}) for cable in self.plugged)

    def limit(self, port: Port, rate: str | None) -> Wiring:
        """The cable at this port carries at most so much; None: no limit."""
        cable = self._cable_that_is_at(port)
        return self._with(replace(other, rate=rate) if other == cable else other for other in self.plugged)

    def _with(self, cables: Iterable[Cable]) -> Wiring:
        return Wiring(self.hosts, self.declared, tuple(sorted(cables, key=str)))

    def _cable_that_is_at(self, port: Port) -> Cable:
        self._check_port(port)
        cable = self.cable_at(port)
        if cable is None:
            raise LabError(f"no cable is plugged into {port}: `lab status` shows what is")
        return cable

    def _check_port(self, port: Port) -> None:
        if port.host not in self.hosts:
            raise LabError(f"{port}: the lab has no host {port.host}; it has {', '.join(self.hosts)}")


def _moved(cable: Cable, ports: dict[Port, Port]) -> Cable:
    near = ports.get(cable.near, cable.near)
    if cable.far is None:
        return replace(cable, near=near)
    return between(near, ports.get(cable.far, cable.far), cable.rate)


def _cable_at(cables: Iterable[Cable], port: Port) -> Cable | None:
    return next((cable for cable in cables if port in cable.ports), None)


@dataclass(frozen=True, order=True)
class Half:
    """One interface of a port: number 0 or 1."""

    port: Port
    number: int

    @property
    def interface(self) -> str:
        return PORT_HALVES[self.port.number][self.number]


def halves(port: Port) -> tuple[Half, Half]:
    return (Half(port, 0), Half(port, 1))


@dataclass(frozen=True)
class Socket:
    """The lab's side of a half. bridge: the cable or switch; lit: light comes through; rate: at most so much of it."""

    bridge: str | None = None
    lit: bool = False
    rate: str | None = None


def socket_name(hosts: tuple[str, ...], half: Half) -> str:
    """The name in the lab's network of the interface that faces a host's: short enough for Linux (15)."""
    return f"h{hosts.index(half.port.host)}p{half.port.number}{'ab'[half.number]}"


def sockets(wiring: Wiring, active: frozenset[Half], replugged: frozenset[str] = frozenset()) -> dict[Half, Socket]:
    """What each half of every port faces.

    active: the halves whose host is on and whose interface is up. As on real hardware, a port of a direct cable loses
    its carrier when the far end is off or down; a switch is always on. replugged: hosts whose adapter came back while
    they ran, and sends at a seventh of its speed.
    """
    ports = (Port(host, number) for host in wiring.hosts for number in PORT_HALVES)
    return {half: _socket(wiring, half, active, replugged) for port in ports for half in halves(port)}


def sees_cable(wiring: Wiring, on: Collection[str], host: str) -> bool:
    """Whether a port of a host has a cable with a switch, or a host that is on, at its other end."""
    cables = [cable for number in PORT_HALVES if (cable := wiring.cable_at(Port(host, number)))]
    return any(cable.far is None or {port.host for port in cable.ports} <= {*on, host} for cable in cables)


def _socket(wiring: Wiring, half: Half, active: frozenset[Half], replugged: frozenset[str]) -> Socket:
    cable = wiring.cable_at(half.port)
    if cable is None:
        return Socket()
    if cable.far is None:
        return Socket(SWITCH_BRIDGE, lit=True, rate=cable.rate)
    ends = [Half(port, half.number) for port in cable.ports]
    # Both halves of a port sit behind one switch in the adapter: all four hear each other.
    bridge = "c" + socket_name(wiring.hosts, Half(cable.near, 0))
    (sender,) = (port.host for port in cable.ports if port != half.port)
    rate = cable.rate or (REPLUGGED_RATE if sender in replugged else None)
    return Socket(bridge, lit=all(end in active for end in ends), rate=rate)
