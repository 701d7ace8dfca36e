# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""However the owner reaches a host: a change is confirmed by a new connection on that way, and by nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from .fleet import FabricFleet
from .harm import ethernets
from .test_interrupted import phase

JUMP = "jump"
PASSWORD = "by-a-lab-for-a-lab"  # of a host that lives for minutes


@dataclass(frozen=True)
class Way:
    """prepare: a shell command on the host. variables: the owner's, of the inventory, ``{config}`` is the lab's own for
    ssh. ports: what SSH listens on. units: what listens."""

    prepare: str = "true"
    variables: Mapping[str, Any] = field(default_factory=dict)
    ports: tuple[int, ...] = (22,)
    units: str = "ssh.service"


def sshd(*lines: str) -> str:
    return f"printf '%s\\n' {' '.join(map(repr, lines))} > /etc/ssh/sshd_config.d/here.conf && systemctl restart ssh"


# As Ubuntu starts it; a drop-in names the port.
SOCKET = (
    "mkdir -p /etc/systemd/system/ssh.socket.d && "
    "printf '[Socket]\\nListenStream=\\nListenStream=2222\\n' > /etc/systemd/system/ssh.socket.d/here.conf && "
    "systemctl daemon-reload && systemctl disable --quiet --now ssh.service && "
    "systemctl enable --quiet --now ssh.socket"
)
STRICT_SUDO = (
    f"echo nvidia:{PASSWORD} | chpasswd && rm /etc/sudoers.d/nvidia && "
    "printf 'Defaults requiretty, use_pty\\nnvidia ALL=(ALL) ALL\\n' > /etc/sudoers.d/owner"
)
# The lab's network has no IPv6 of its own.
IPV6 = "sed -i 's|addresses: .|&\"fd77::2/64\", |' /etc/netplan/00-lab-management.yaml && netplan apply"
WAYS = {
    "ports": Way(
        sshd("Port 2222", "Port 2200", "ListenAddress 0.0.0.0", "ListenAddress 127.0.0.1:2201"),
        {"ansible_port": 2222},
        (2200, 2222),
    ),
    "socket": Way(SOCKET, {"ansible_port": 2222}, (2222,), "ssh.socket ssh.service"),
    "behind": Way(
        variables={"ansible_ssh_common_args": f"-F {{config}} -o ProxyUseFdpass=no -o ProxyJump={JUMP}"},
    ),
    "sudoer": Way(STRICT_SUDO, {"ansible_pipelining": False, "ansible_become_password": PASSWORD}),
    "ipv6": Way(
        IPV6, {"ansible_host": "fd77::2", "ansible_ssh_common_args": "-F {config} -o HostKeyAlias=ipv6"}
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def reached(fleet: FabricFleet) -> FabricFleet:
    fleet.up([JUMP, *WAYS])
    bridge = fleet.lab("net", "--", "sh", "-c", "ip -o -4 address show to 10.77.0.1").stdout.split()[1]
    settings = f"/proc/sys/net/ipv6/conf/{bridge}/disable_ipv6"
    fleet.lab("net", "--", "sh", "-c", f"echo 0 > {settings} && ip address add fd77::1/64 nodad dev {bridge}")
    for host, way in WAYS.items():
        fleet.root(host, way.prepare)
    return fleet


def owners(fleet: FabricFleet, **more: Any) -> dict[str, dict[str, Any]]:
    """Each host's variables, with the owner's way to it."""
    return {
        host: {
            key: value.format(config=fleet.ssh_config) if isinstance(value, str) else value
            for key, value in way.variables.items()
        }
        | more
        for host, way in WAYS.items()
    }


def change(address: str, **more: Any) -> dict[str, Any]:
    return {"content": ethernets(f"enp1s0f1np1: {{addresses: [{address}], ignore-carrier: true}}")} | more


def test_a_new_connection_confirms(reached: FabricFleet) -> None:
    assert reached.play("change.yml", owners(reached, change=change("10.9.9.1/24"))).failures() == {}
    assert {phase(reached, host) for host in WAYS} == {"confirmed"}


DEAF = "/etc/systemd/system/gb10-netplan-change.service.d/deaf.conf"


@pytest.fixture
def deaf(reached: FabricFleet) -> Iterator[FabricFleet]:
    """Hosts that take no new connection from the moment in which a change begins until it is settled."""
    for host, way in WAYS.items():
        lines = f"[Service]\\nExecStartPre=systemctl stop {way.units}\\nExecStopPost=systemctl start {way.units}\\n"
        reached.root(host, f"mkdir -p $(dirname {DEAF}) && printf '{lines}' > {DEAF} && systemctl daemon-reload")
    yield reached
    for host in WAYS:
        reached.root(host, f"rm {DEAF} && systemctl daemon-reload")


def test_a_connection_that_lives_on_confirms_nothing(deaf: FabricFleet) -> None:
    """Neither Ansible's shared one nor one that the owner's ssh configuration keeps, there or at the jump host."""
    before = {host: deaf.netplan_files(host) for host in WAYS}
    messages = deaf.play("change.yml", owners(deaf, change=change("10.9.9.2/24"))).failures()
    assert {host for host in WAYS if "[netplan-restored]" in messages.get(host, "")} == set(WAYS)
    assert {host: deaf.netplan_files(host) for host in WAYS} == before


def test_the_interface_of_ssh_is_found(reached: FabricFleet) -> None:
    harm = {"content": ethernets("enP7s7: {mtu: 9000}"), "ssh_interface": ""}
    messages = reached.play("change.yml", owners(reached, change=harm)).failures()
    assert {host for host in WAYS if "[netplan-ssh-interface]" in messages.get(host, "")} == set(WAYS)


def test_the_firewall_leaves_just_its_ports_open(reached: FabricFleet) -> None:
    assert reached.play("close.yml", owners(reached)).failures() == {}
    found = {host: reached.root(host, "grep '\"SSH\"' /etc/gb10-fleet/firewall.nft") for host in WAYS}
    assert {host: tuple(map(int, re.findall(r"dport (\d+)", text))) for host, text in found.items()} == {
        host: way.ports for host, way in WAYS.items()
    }
    assert reached.play("change.yml", owners(reached, change=change("10.9.9.1/24"))).failures() == {}


def test_sudo_that_wants_a_terminal_is_named(reached: FabricFleet) -> None:
    messages = reached.play("preflight.yml", {"sudoer": {"ansible_become_password": PASSWORD}}).tasks
    for task in ("Read the host", "Read its netplan files"):
        assert "[sudo-needs-tty]" in messages[task]["sudoer"]["msg"]
