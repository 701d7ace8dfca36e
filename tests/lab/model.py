# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a lab is: hosts, ports, cables. Plain data and the rules of names and addresses; no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .errors import LabError

MAX_HOSTS = 32
# The name of an interface or a unix socket below the lab's directory is made of it.
_HOST_NAME = re.compile(r"[a-z][a-z0-9-]{0,14}")

_RATE = re.compile(r"[1-9][0-9]*[kmg]bit")

# NVIDIA's names: a QSFP port has two halves, each its own interface and RDMA device.
PORT_HALVES = {0: ("enp1s0f0np0", "enP2p1s0f0np0"), 1: ("enp1s0f1np1", "enP2p1s0f1np1")}
RDMA_DEVICES = {
    "rocep1s0f0": "enp1s0f0np0",
    "roceP2p1s0f0": "enP2p1s0f0np0",
    "rocep1s0f1": "enp1s0f1np1",
    "roceP2p1s0f1": "enP2p1s0f1np1",
}
MANAGEMENT_INTERFACE = "enP7s7"
CONTROLLER_ADDRESS = "10.77.0.1"
PREFIX_LENGTH = 24

# The first is the default, as DGX OS has it.
RENDERERS = ("NetworkManager", "networkd")
# What may stand at the far end of a cable instead of a port.
SWITCH = "switch"
# It stands alone in every default topology, as a fleet's solo host does.
SOLO_HOST = "titan"


@dataclass(frozen=True, order=True)
class Port:
    """A QSFP port: written ``spark-2:1``."""

    host: str
    number: int

    def __str__(self) -> str:
        return f"{self.host}:{self.number}"


@dataclass(frozen=True)
class Cable:
    """From a port to another or the switch (``far``: None): written ``spark-2:1=spark-3:1`` or ``spark-2:1=switch``.

    rate: what each half carries at most, in the words of tc(8): ``100mbit``. None: as fast as this machine can.
    """

    near: Port
    far: Port | None
    rate: str | None = None

    @property
    def ports(self) -> tuple[Port, ...]:
        return (self.near,) if self.far is None else (self.near, self.far)

    def __str__(self) -> str:
        return f"{self.near}={self.far or SWITCH}" + (f"@{self.rate}" if self.rate else "")


@dataclass(frozen=True)
class Share:
    """A directory of this machine that every host sees: read-only if it is an owner's, written ``/source:/target``."""

    source: str
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Lab:
    """What ``up`` was asked for.

    renderer: what carries out netplan's files. hotplug: the adapter leaves a host while no cable is seen.
    passwordless_sudo: sudo does not ask the account for its password. docker: on these hosts it is installed already.
    """

    hosts: tuple[str, ...]
    cables: tuple[Cable, ...]
    shares: tuple[Share, ...] = ()
    renderer: str = RENDERERS[0]
    hotplug: bool = False
    passwordless_sudo: bool = False
    docker: tuple[str, ...] = ()

    def address(self, host: str) -> str:
        """On the management network."""
        return f"10.77.0.{11 + self.hosts.index(host)}"

    def as_json(self) -> dict[str, Any]:
        return {
            "hosts": list(self.hosts),
            "cables": [str(cable) for cable in self.cables],
            "shares": [[share.source, share.target, share.writable] for share in self.shares],
            "renderer": self.renderer,
            "hotplug": self.hotplug,
            "passwordless_sudo": self.passwordless_sudo,
            "docker": list(self.docker),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Lab:
        return cls(
            hosts=tuple(data["hosts"]),
            cables=tuple(parse_cable(text) for text in data["cables"]),
            shares=tuple(Share(*share) for share in data["shares"]),
            renderer=data["renderer"],
            hotplug=data["hotplug"],
            passwordless_sudo=data["passwordless_sudo"],
            docker=tuple(data["docker"]),
        )


def default_hosts(count: int) -> tuple[str, ...]:
    """titan, spark-2, spark-3, ..."""
    if not 1 <= count <= MAX_HOSTS:
        raise LabError(f"-n {count}: a lab has 1 to {MAX_HOSTS} hosts")
    return (SOLO_HOST, *(f"spark-{number}" for number in range(2, count + 1)))


def check_hosts(hosts: tuple[str, ...]) -> tuple[str, ...]:
    if not hosts or len(hosts) > MAX_HOSTS:
        raise LabError(f"{len(hosts)} hosts: a lab has 1 to {MAX_HOSTS}")
    for host in hosts:
        if not _HOST_NAME.fullmatch(host) or host == SWITCH:
            raise LabError(
                f'"{host}" can\'t be a host: write up to 15 of a-z, 0-9 and "-", a letter first, not "{SWITCH}"'
            )
        if hosts.count(host) > 1:
            raise LabError(f"{host} is named twice in --hosts")
    return hosts


def chosen(names: str, hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the lab's hosts that are named, with commas between; ``*`` names all."""
    named = {*hosts} if names == "*" else {*filter(None, names.split(","))}
    if unknown := sorted(named - {*hosts}):
        raise LabError(f'"{unknown[0]}" is no host of this lab: {", ".join(hosts)}')
    return tuple(host for host in hosts if host in named)


def parse_port(text: str) -> Port:
    host, colon, number = text.partition(":")
    if not colon or number not in ("0", "1"):
        raise LabError(f'"{text}" is no port: write HOST:0 or HOST:1, for instance spark-2:1')
    return Port(host, int(number))


def parse_cable(text: str) -> Cable:
    wiring, _, rate = text.partition("@")
    near, equals, far = wiring.partition("=")
    if not equals:
        raise LabError(f'"{text}" is no cable: write spark-2:1=spark-3:1, or spark-2:1={SWITCH}')
    if rate:
        check_rate(rate)
    if far == SWITCH:
        return Cable(parse_port(near), None, rate or None)
    return between(parse_port(near), parse_port(far), rate or None)


def between(one: Port, other: Port, rate: str | None = None) -> Cable:
    """The same cable from whichever end it is named."""
    near, far = sorted((one, other))
    return Cable(near, far, rate)


def check_rate(text: str) -> str:
    if not _RATE.fullmatch(text):
        raise LabError(f'"{text}" is no rate: write for instance 100mbit or 10gbit')
    return text


def check_renderer(text: str) -> str:
    if text not in RENDERERS:
        raise LabError(f'"{text}" is no renderer of netplan: {" or ".join(RENDERERS)}')
    return text


def parse_share(text: str) -> Share:
    source, _, target = text.partition(":")
    if not source.startswith("/") or not target.startswith("/") or target == "/":
        raise LabError(f'"{text}" is no share: write /directory/here:/directory/on/the/hosts')
    return Share(source.rstrip("/") or "/", target.rstrip("/"))


def topology_cables(topology: str, hosts: tuple[str, ...]) -> tuple[Cable, ...]:
    """The cables of a named topology between all hosts but titan.

    direct: hosts in pairs, port 1 to port 1. ring: port 0 of each to port 1 of the next. switch: port 1 of each.
    """
    sparks = tuple(host for host in hosts if host != SOLO_HOST)
    if topology == "direct":
        pairs = zip(sparks[::2], sparks[1::2], strict=False)
        return tuple(between(Port(left, 1), Port(right, 1)) for left, right in pairs)
    if topology == "switch":
        return tuple(Cable(Port(host, 1), None) for host in sparks)
    if len(sparks) < 3:
        raise LabError(f"a ring needs 3 hosts beside {SOLO_HOST}, this lab has {len(sparks)}: up -n 4 --topology ring")
    following = (*sparks[1:], sparks[0])
    return tuple(between(Port(host, 0), Port(after, 1)) for host, after in zip(sparks, following, strict=True))
