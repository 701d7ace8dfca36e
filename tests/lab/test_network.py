# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interfaces, cables and what the hosts see of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from .fixtures import Fleet, eventually
from .model import MANAGEMENT_INTERFACE, PORT_HALVES

FIRST, SECOND = PORT_HALVES[1]
PORTS = [interface for halves in PORT_HALVES.values() for interface in halves]
NETPLAN = """\
network:
  version: 2
  ethernets:
    {first}: {{addresses: [192.168.100.{number}/24], mtu: 9000, link-local: []}}
    {second}: {{addresses: [192.168.101.{number}/24], mtu: 9000, link-local: []}}
"""
# An LLDP frame to the nearest bridge (IEEE 802.1AB), and the first one that arrives within half a minute.
LLDP_SENT = """
import socket
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(("{interface}", 0))
link.send(bytes.fromhex("0180c200000e 02c700000001 88cc") + b"of spark-3")
"""
LLDP_RECEIVED = """
import socket
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88CC))
link.bind(("{interface}", 0x88CC))
link.settimeout(30)
print(link.recv(2000)[14:].decode())
"""
JUMBO = "ping -c 1 -W 1 -M do -s 8972 {address}"


def has_carrier(fleet: Fleet, host: str, interface: str) -> bool:
    return fleet.root(host, f"cat /sys/class/net/{interface}/carrier", check=False).strip() == "1"


@pytest.fixture(scope="module")
def addressed(fleet: Fleet) -> Iterator[Fleet]:
    """spark-2 and spark-3 with addresses by netplan, as an owner writes them."""
    for number, host in ((2, "spark-2"), (3, "spark-3")):
        text = NETPLAN.format(first=FIRST, second=SECOND, number=number)
        fleet.root(host, f"umask 077; cat > /etc/netplan/40-cx7.yaml <<'END'\n{text}END\nnetplan apply")
    yield fleet
    for host in ("spark-2", "spark-3"):
        fleet.root(host, "rm /etc/netplan/40-cx7.yaml && netplan apply")


@pytest.fixture
def cabled(addressed: Fleet) -> Iterator[Fleet]:
    """The declared cable is in place before and after."""
    yield addressed
    for cable in addressed.running().lab.cables:
        addressed.lab("cable", "pull", "spark-2:0", check=False)
        addressed.lab("cable", "pull", "spark-2:1", check=False)
        addressed.lab("cable", "plug", str(cable))


def both_halves_ping(fleet: Fleet) -> bool:
    return all(fleet.ok("spark-2", JUMBO.format(address=f"192.168.{net}.3")) for net in (100, 101))


@pytest.mark.parametrize("host", ["titan", "spark-2", "spark-3"])
def test_every_host_has_all_interfaces_under_nvidias_names(fleet: Fleet, host: str) -> None:
    names = fleet.root(host, "ls /sys/class/net").split()
    assert {MANAGEMENT_INTERFACE, *PORTS} <= set(names)


def test_only_cabled_ports_have_a_carrier(fleet: Fleet) -> None:
    def lit() -> set[tuple[str, str]]:
        hosts = fleet.running().lab.hosts
        return {(host, port) for host in hosts for port in PORTS if has_carrier(fleet, host, port)}

    cabled = {(host, port) for host in ("spark-2", "spark-3") for port in (FIRST, SECOND)}
    eventually(lambda: lit() >= cabled, "the cabled ports have a carrier")
    assert lit() == cabled


def test_netplan_brings_both_halves_up_with_jumbo_frames(addressed: Fleet) -> None:
    eventually(lambda: both_halves_ping(addressed), "unfragmented 9000-byte packets pass on both halves")
    assert not addressed.ok("spark-2", "ping -c 1 -W 1 -M do -s 9100 192.168.100.3")


def test_pulled_cable_takes_the_carrier_from_both_ends_and_plugging_brings_traffic_back(cabled: Fleet) -> None:
    cabled.lab("cable", "pull", "spark-3:1")
    ends = ("spark-2", "spark-3")
    eventually(lambda: not any(has_carrier(cabled, host, FIRST) for host in ends), "neither end has a carrier")
    cabled.lab("cable", "plug", "spark-3:1")
    eventually(lambda: both_halves_ping(cabled), "traffic passes again")


def test_swapped_cable_lights_the_other_port(cabled: Fleet) -> None:
    cabled.lab("cable", "swap", "spark-2:1", "spark-2:0")
    eventually(lambda: has_carrier(cabled, "spark-2", PORT_HALVES[0][0]), "port 0 has a carrier")
    assert not has_carrier(cabled, "spark-2", FIRST)
    assert not both_halves_ping(cabled)


def test_port_set_down_darkens_the_far_end(cabled: Fleet) -> None:
    cabled.root("spark-2", f"ip link set {FIRST} down")
    eventually(lambda: not has_carrier(cabled, "spark-3", FIRST), "the far end has no carrier")
    assert has_carrier(cabled, "spark-3", SECOND)
    cabled.root("spark-2", f"ip link set {FIRST} up")
    eventually(lambda: has_carrier(cabled, "spark-3", FIRST), "the far end has its carrier back")


def test_powerless_host_darkens_its_peer_and_comes_back_with_its_addresses(cabled: Fleet) -> None:
    cabled.lab("power", "off", "spark-2")
    assert json.loads(cabled.lab("status", "--json").stdout)["hosts"]["spark-2"]["power"] == "off"
    eventually(lambda: not has_carrier(cabled, "spark-3", FIRST), "the peer has no carrier")
    cabled.lab("power", "on", "spark-2")
    eventually(lambda: cabled.ok("spark-2", "ping -c 1 -W 1 192.168.100.3"), "netplan's addresses are back")


def test_slow_cable_limits_both_directions_and_survives_a_power_cycle(cabled: Fleet) -> None:
    cabled.lab("cable", "rate", "spark-2:1", "100mbit")
    limits = cabled.lab("net", "--", "tc", "qdisc").stdout
    assert limits.count("tbf") == 4
    cabled.lab("power", "cycle", "spark-2")
    assert cabled.lab("net", "--", "tc", "qdisc").stdout.count("rate 100Mbit") == 4
    cabled.lab("cable", "rate", "spark-2:1", "off")
    assert "tbf" not in cabled.lab("net", "--", "tc", "qdisc").stdout
    eventually(lambda: both_halves_ping(cabled), "traffic passes")


@pytest.mark.parametrize(("host", "half"), [("spark-2", FIRST), ("spark-2", SECOND), ("spark-3", SECOND)])
def test_lldp_passes_a_cable_and_comes_to_all_halves(addressed: Fleet, host: str, half: str) -> None:
    """Bridges swallow LLDP by default; a cable must not. The sender's twin hears it, too, as behind one adapter.

    A frame of its own: a daemon that shows no neighbour says little of the cable.
    """
    with ThreadPoolExecutor(1) as threads:
        seen = threads.submit(addressed.root, host, f"python3 -c '{LLDP_RECEIVED.format(interface=half)}'")
        while not seen.done():
            addressed.root("spark-3", f"python3 -c '{LLDP_SENT.format(interface=FIRST)}'")
        assert "of spark-3" in seen.result()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cable", "pull", "titan:1"], "no cable is plugged into titan:1"),
        (["cable", "plug", "titan:0"], "say where it goes"),
        (["cable", "plug", "titan:0=spark-2:1"], "has a cable already"),
        (["cable", "plug", "titan:0=beast:1"], "no host beast"),
        (["cable", "rate", "spark-2:1", "fast"], '"fast" is no rate'),
        (["power", "off", "beast"], "no host beast"),
        (["exec", "beast", "--", "true"], "no host beast"),
        (["up", "-n", "2"], "`lab down` first"),
    ],
)
def test_refuses_with_a_sentence(fleet: Fleet, arguments: list[str], words: str) -> None:
    result = fleet.lab(*arguments, check=False)
    assert result.returncode == 1
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_switch_joins_more_than_two(new_fleet: Callable[[], Fleet]) -> None:
    fleet = new_fleet()
    fleet.lab("up", "-n", "4", "--topology", "switch")
    sparks = ("spark-2", "spark-3", "spark-4")
    eventually(lambda: all(has_carrier(fleet, host, FIRST) for host in sparks), "every port 1 has a carrier")
    for host in sparks:
        fleet.root(host, f"ip address add 192.168.100.{host[-1]}/24 dev {FIRST}")
    both = "ping -c 1 -W 2 192.168.100.3 && ping -c 1 -W 2 192.168.100.4"
    eventually(lambda: fleet.ok("spark-2", both), "both others answer")
    fleet.lab("power", "off", "spark-3")
    assert has_carrier(fleet, "spark-2", FIRST), "a switch keeps its ports lit"
