# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of harmful network changes: each a netplan file that an owner might write, or be given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.model import RENDERERS

MANAGEMENT_FILE = "/etc/netplan/00-lab-management.yaml"
CONTROLLER = "10.77.0.1"


@dataclass(frozen=True)
class Harm:
    """One harmful change. ``{address}`` and ``{mac}`` in the file stand for the host's own on the management network.

    rule: what the refusal is named: taken back by the host (``netplan-restored``), or refused before any change.
    cuts: whether SSH is expected to be lost in between. prepare, clear: shell commands on the host, before and after.
    renderers: where it is harmful.
    """

    name: str
    file: str
    rule: str = "netplan-restored"
    path: str = "/etc/netplan/60-change.yaml"
    interfaces: Sequence[dict[str, Any]] = ()
    variables: dict[str, Any] = field(default_factory=dict)
    cuts: bool = False
    prepare: str = "true"
    clear: str = "true"
    renderers: Sequence[str] = RENDERERS


def ethernets(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return f"network:\n  version: 2\n  ethernets:\n{lines}"


CATALOGUE = [
    Harm(
        "subnet-taken",
        ethernets("enp1s0f1np1: {addresses: [10.77.0.3/29], ignore-carrier: true}"),
        cuts=True,
    ),
    Harm(
        "wrong-gateway",
        ethernets("enP7s7: {routes: [{to: 10.77.0.1/32, via: 10.77.0.99, on-link: true}]}"),
        cuts=True,
    ),
    # netplan refuses such routes for NetworkManager.
    Harm("blackhole", ethernets("enP7s7: {routes: [{to: 10.77.0.1/32, type: unreachable}]}"), cuts=True,
         renderers=["networkd"]),
    Harm(
        "rail-route",
        # Of a device without an address netplan writes no route for NetworkManager.
        ethernets(
            "enp1s0f1np1: {addresses: [10.9.9.1/24], ignore-carrier: true, routes: [{to: 10.77.0.1/32, scope: link}]}"
        ),
        cuts=True,
    ),
    Harm(
        "renamed",
        ethernets("enP7s7:\n  match: {macaddress: '{mac}'}\n  set-name: lan0\n  link-local: []"),
        path=MANAGEMENT_FILE,
        cuts=True,
    ),
    # NetworkManager asks first who has an address.
    Harm("duplicate", ethernets("enP7s7: {addresses: [10.77.0.1/24]}"), cuts=True, renderers=["networkd"]),
    Harm("no-address", ethernets("enP7s7: {link-local: [ipv4]}"), path=MANAGEMENT_FILE, cuts=True),
    Harm("dhcp-no-server", ethernets("enP7s7: {dhcp4: true, link-local: []}"), path=MANAGEMENT_FILE, cuts=True),
    Harm("wrong-address", ethernets("enP7s7: {addresses: [10.78.0.11/24]}"), path=MANAGEMENT_FILE, cuts=True),
    Harm("wrong-prefix", ethernets("enP7s7: {addresses: ['{address}/32']}"), path=MANAGEMENT_FILE, cuts=True),
    Harm("moved-to-rail", ethernets("enp1s0f1np1: {addresses: ['{address}/24']}"), path=MANAGEMENT_FILE, cuts=True),
    # netplan knows it for networkd alone.
    Harm("switched-off", ethernets("enP7s7: {addresses: ['{address}/24'], activation-mode: 'off'}"), cuts=True,
         renderers=["networkd"]),
    # The kernel refuses this MTU. NetworkManager configures the rest all the same, networkd nothing.
    Harm("mtu-tiny", ethernets("enP7s7: {addresses: ['{address}/24'], mtu: 60}"), cuts=True, renderers=["networkd"]),
    Harm(
        "mtu-too-large",
        ethernets("enp1s0f1np1: {mtu: 70000, ignore-carrier: true}"),
        interfaces=[{"name": "enp1s0f1np1", "address": None, "mtu": 70000}],
    ),
    Harm(
        "enslaved",
        "network:\n  version: 2\n  ethernets: {enP7s7: {}}\n  bridges: {br0: {interfaces: [enP7s7], dhcp4: false}}\n",
        path=MANAGEMENT_FILE,
        cuts=True,
    ),
    Harm(
        "bonded",
        "network:\n  version: 2\n  ethernets: {enP7s7: {}}\n  bonds: {bond0: {interfaces: [enP7s7]}}\n",
        path=MANAGEMENT_FILE,
        cuts=True,
    ),
    Harm("no-renderer", ethernets("enP7s7: {renderer: NetworkManager}"), renderers=["networkd"]),
    Harm(
        "never-activated",
        ethernets("enP7s7: {networkmanager: {passthrough: {connection.autoconnect: 'false'}}}"),
        cuts=True,
        renderers=["NetworkManager"],
    ),
    Harm("address-missing", ethernets("enp1s0f1np1: {addresses: [10.9.9.1/24], ignore-carrier: true}"),
         interfaces=[{"name": "enp1s0f1np1", "address": "10.9.9.2/24", "mtu": None}]),
    Harm(
        "symlinked",
        ethernets("enP7s7: {addresses: [10.78.0.11/24]}"),
        path=MANAGEMENT_FILE,
        cuts=True,
        prepare=f"mv {MANAGEMENT_FILE} /srv/kept.yaml && ln -s /srv/kept.yaml {MANAGEMENT_FILE}",
        clear=f"mv /srv/kept.yaml {MANAGEMENT_FILE}",
    ),
    # Refused before anything changes.
    Harm("invalid-yaml", "network: [\n", rule="netplan-invalid"),
    Harm("invalid-value", ethernets("enp1s0f1np1: {addresses: [192.168.100.10]}"), rule="netplan-invalid"),
    Harm("unknown-key", ethernets("enp1s0f1np1: {adresses: [192.168.100.10/24]}"), rule="netplan-invalid"),
    Harm("no-interface", ethernets("enp9s9: {addresses: [10.9.9.1/24]}"), rule="netplan-no-interface",
         interfaces=[{"name": "enp9s9", "address": "10.9.9.1/24", "mtu": None}]),
    Harm("ssh-unnamed", ethernets("enP7s7: {mtu: 9000}"), rule="netplan-ssh-interface",
         variables={"ssh_interface": ""}),
    Harm("ssh-by-alias", ethernets("enp1s0f1np1: &both {addresses: [10.78.0.11/24]}\nenP7s7: *both"),
         rule="netplan-ssh-interface", variables={"ssh_interface": ""}),
    Harm("dangling-link", ethernets("enp1s0f1np1: {mtu: 9000}"), rule="netplan-unreadable",
         prepare="ln -s /srv/nothing /etc/netplan/70-link.yaml", clear="rm /etc/netplan/70-link.yaml"),
    Harm("ssh-by-match", ethernets("all: {match: {name: 'en*'}, dhcp4: true}"), rule="netplan-ssh-interface",
         path="/etc/netplan/00-a.yaml", variables={"ssh_interface": ""}),
]  # fmt: skip
