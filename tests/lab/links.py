# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's network as `ip` commands: the management bridge, each host's interfaces, cables as bridges."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping

from .model import CONTROLLER_ADDRESS, MANAGEMENT_INTERFACE, PORT_HALVES, PREFIX_LENGTH, Port
from .wiring import SWITCH_BRIDGE, Half, Socket, halves, socket_name

MANAGEMENT_BRIDGE = "management"
# What a cable carries; the ports decide, up to the ConnectX-7's 9978.
CABLE_MTU = 9978
# Frames that a bridge keeps for itself and a cable passes on: LLDP is bit 14.
_CABLE_FORWARDS = 1 << 14
_UNITS = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}


def run(commands: Iterable[str], *, program: str = "ip", descriptors: Iterable[int] = ()) -> None:
    """All in one `ip -batch` (or tc). ``descriptors``: of namespaces that the commands name as /proc/self/fd/N."""
    text = "".join(f"{command}\n" for command in commands)
    if text:
        subprocess.run([program, "-batch", "-"], input=text, text=True, check=True, pass_fds=tuple(descriptors))


def lab_network() -> list[str]:
    """The controller's side of the management network, and the switch."""
    return [
        "link set lo up",
        f"link add {MANAGEMENT_BRIDGE} type bridge forward_delay 0",
        f"address add {CONTROLLER_ADDRESS}/{PREFIX_LENGTH} dev {MANAGEMENT_BRIDGE}",
        f"link set {MANAGEMENT_BRIDGE} up",
        f"link add {SWITCH_BRIDGE} type bridge forward_delay 0",
        f"link set {SWITCH_BRIDGE} mtu {CABLE_MTU} up",
    ]


def ports_of(host: str) -> list[Half]:
    return [half for number in PORT_HALVES for half in halves(Port(host, number))]


def management_socket(hosts: tuple[str, ...], host: str) -> str:
    return f"h{hosts.index(host)}m"


def plug_in_host(hosts: tuple[str, ...], host: str, network: str) -> list[str]:
    """Interfaces are born in the host's namespace (``network``: its path) under their real names; ours face them."""
    index = hosts.index(host)
    ours = management_socket(hosts, host)
    address = f"02:77:00:00:00:{index:02x}"
    return [
        f"link add {ours} type veth peer name {MANAGEMENT_INTERFACE} address {address} netns {network}",
        f"link set {ours} master {MANAGEMENT_BRIDGE} up",
        *plug_in_adapter(hosts, host, network),
    ]


def plug_in_adapter(hosts: tuple[str, ...], host: str, network: str) -> list[str]:
    """The ConnectX-7's four interfaces."""
    index = hosts.index(host)
    commands = []
    for half in ports_of(host):
        name = socket_name(hosts, half)
        address = f"02:c7:00:{half.port.number:02x}:{half.number:02x}:{index:02x}"
        commands.append(
            f"link add {name} mtu {CABLE_MTU} type veth peer name {half.interface} address {address} netns {network}"
        )
    return commands


def unplug_host(hosts: tuple[str, ...], host: str) -> list[str]:
    """Removing our ends removes the host's, at once and not when the kernel gets round to the namespace."""
    return [f"link delete {management_socket(hosts, host)}"]


def unplug_adapter(hosts: tuple[str, ...], host: str) -> list[str]:
    return [f"link delete {socket_name(hosts, half)}" for half in ports_of(host)]


def rewire(hosts: tuple[str, ...], before: Mapping[Half, Socket], after: Mapping[Half, Socket]) -> list[str]:
    """From one state of the sockets to another; a half that is in neither belongs to a host or adapter that is off."""
    old_bridges, new_bridges = _cables(before), _cables(after)
    commands = []
    for bridge in sorted(new_bridges - old_bridges):
        commands += [
            f"link add {bridge} type bridge forward_delay 0 mcast_snooping 0 group_fwd_mask {_CABLE_FORWARDS}",
            f"link set {bridge} mtu {CABLE_MTU} up",
        ]
    for half in sorted(after):
        new, old = after[half], before.get(half, Socket())
        name = socket_name(hosts, half)
        if new.bridge != old.bridge:
            commands.append(f"link set {name} master {new.bridge}" if new.bridge else f"link set {name} nomaster")
        if new.lit != old.lit:
            commands.append(f"link set {name} {'up' if new.lit else 'down'}")
    commands += [f"link delete {bridge}" for bridge in sorted(old_bridges - new_bridges)]
    return commands


def reshape(hosts: tuple[str, ...], before: Mapping[Half, Socket], after: Mapping[Half, Socket]) -> list[str]:
    """The `tc` commands for what has changed in the sockets' rates. Each end limits what it sends to its host."""
    commands = []
    for half in sorted(after):
        new, old = after[half].rate, before.get(half, Socket()).rate
        name = socket_name(hosts, half)
        if new and new != old:
            commands.append(f"qdisc replace dev {name} root tbf rate {new} burst {_burst(new)} latency 50ms")
        elif old and not new:
            commands.append(f"qdisc delete dev {name} root")
    return commands


def _burst(rate: str) -> int:
    """Bytes: what passes between two ticks of the slowest kernel clock (4 ms), and at least one large segment."""
    bits = int(rate[: -len("mbit")]) * _UNITS[rate[-len("mbit") :]]
    return max(bits // 8 // 250, 1 << 17)


def _cables(sockets: Mapping[Half, Socket]) -> set[str]:
    return {socket.bridge for socket in sockets.values() if socket.bridge not in (None, SWITCH_BRIDGE)}
