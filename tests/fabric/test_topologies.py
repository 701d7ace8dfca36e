# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A direct pair, a ring of three and a switch of four, all in one fleet: converged, proven, booted, proven again.

Then cables are pulled and swapped and a half dies: each has to be named as what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .fleet import FabricFleet, Outcome

HOSTS = ["pair-1", "pair-2", "ring-1", "ring-2", "ring-3", "star-1", "star-2", "star-3", "star-4"]
CABLES = [
    "pair-1:1=pair-2:1",
    "ring-1:0=ring-2:1",
    "ring-2:0=ring-3:1",
    "ring-3:0=ring-1:1",
    *(f"star-{number}:1=switch" for number in range(1, 5)),
]
FABRIC: dict[str, Any] = {
    "prefix": 28,
    "cables": [
        ["pair-1:1", "pair-2:1"],
        {"ends": ["ring-1:0", "ring-2:1"], "index": 1},
        {"ends": ["ring-2:0", "ring-3:1"], "index": 2},
        {"ends": ["ring-3:0", "ring-1:1"], "index": 3},
    ],
    "switches": {"qsfp": {"index": 4, "ports": {f"star-{number}:1": number for number in range(1, 5)}}},
}
PROVEN = dict.fromkeys(("links", "addresses", "neighbours", "frames", "rdma"), "ok") | {
    "bandwidth": "not possible here"
}


@pytest.fixture(scope="module")
def plans(fleet: FabricFleet) -> dict[str, dict[str, Any]]:
    fleet.up(HOSTS, CABLES)
    return fleet.plan(FABRIC)


@pytest.fixture(scope="module")
def converged(fleet: FabricFleet, plans: dict[str, dict[str, Any]]) -> Outcome:
    return fleet.play("converge.yml", plans)


@pytest.fixture(scope="module")
def damage(fleet: FabricFleet, plans: dict[str, dict[str, Any]], converged: Outcome) -> Iterator[dict[str, str]]:
    """Three kinds of damage at once; each host's message. All is repaired afterwards."""
    assert converged.succeeded()
    fleet.lab("cable", "pull", "pair-1:1")
    fleet.lab("cable", "swap", "ring-1:0", "ring-1:1")
    fleet.root("star-2", "ip link set enP2p1s0f1np1 down")
    fleet.root("star-3", "ip link set enp1s0f1np1 mtu 1500")
    yield fleet.play("verify.yml", plans).verdicts("msg")
    fleet.lab("cable", "plug", "pair-1:1")
    fleet.lab("cable", "swap", "ring-1:0", "ring-1:1")


def test_the_first_run_changes_each_host(converged: Outcome) -> None:
    assert converged.failures() == {}
    assert all(converged.changed().values())


def test_a_second_run_changes_nothing(fleet: FabricFleet, plans: dict[str, dict[str, Any]], converged: Outcome) -> None:
    again = fleet.play("converge.yml", plans)
    assert (again.failures(), set(again.changed().values())) == ({}, {0})


def test_every_half_reaches_its_peers(fleet: FabricFleet, plans: dict[str, dict[str, Any]], converged: Outcome) -> None:
    outcome = fleet.play("verify.yml", plans)
    assert outcome.failures() == {}
    assert outcome.verdicts("fabric") == dict.fromkeys(HOSTS, PROVEN)


def test_netplan_takes_the_file_alone(fleet: FabricFleet, converged: Outcome) -> None:
    script = "r=$(mktemp -d); mkdir -p $r/etc/netplan; cp -p /etc/netplan/40-cx7.yaml $r/etc/netplan; "
    assert "10-netplan-enp1s0f1np1.network" in fleet.root(
        "ring-1", f"{script} netplan generate --root-dir $r && ls $r/run/systemd/network"
    )


def test_all_is_there_after_a_boot(fleet: FabricFleet, plans: dict[str, dict[str, Any]], converged: Outcome) -> None:
    for host in HOSTS:
        fleet.lab("power", "cycle", host)
    for host in HOSTS:
        fleet.wait_for_ssh(host, 60)
    outcome = fleet.play("verify.yml", plans)
    assert outcome.failures() == {}
    assert outcome.verdicts("fabric") == dict.fromkeys(HOSTS, PROVEN)


NAMED = [
    ("pair-1", "fabric-no-carrier", "pair-1: port 1 half 0 (enp1s0f1np1): no carrier", "pair-2: port 1 half 0"),
    ("pair-2", "fabric-no-carrier", "pair-2: port 1 half 1 (enP2p1s0f1np1): no carrier", "pair-1: port 1 half 1"),
    ("ring-1", "fabric-wrong-peer", "ring-1: port 0 half 0 (enp1s0f0np0): connected to ring-3: port 0 half 0",
     "expected ring-2: port 1 half 0"),
    ("ring-2", "fabric-wrong-peer", "ring-2: port 1 half 1 (enP2p1s0f1np1): connected to ring-1: port 1 half 1",
     "expected ring-1: port 0 half 1"),
    ("ring-3", "fabric-wrong-peer", "ring-3: port 0 half 0 (enp1s0f0np0): connected to ring-1: port 0 half 0",
     "expected ring-1: port 1 half 0"),
    ("star-2", "fabric-link-down", "star-2: port 1 half 1 (enP2p1s0f1np1): the interface is switched off", "up"),
    ("star-1", "fabric-no-peer", "star-1: port 1 half 1 (enP2p1s0f1np1): it does not answer",
     "expected star-2: port 1 half 1"),
    ("star-3", "fabric-mtu", "star-3: port 1 half 0 (enp1s0f1np1): MTU 1500", "expected MTU 9000"),
    ("star-4", "fabric-frames", "packets of 9000 bytes to star-3", "whole packets"),
]  # fmt: skip


@pytest.mark.parametrize(("host", "rule", "found", "expected"), NAMED, ids=[f"{row[0]}-{row[1]}" for row in NAMED])
def test_damage_is_named(damage: dict[str, str], host: str, rule: str, found: str, expected: str) -> None:
    lines = [line for line in damage[host].splitlines() if f"[{rule}]" in line]
    assert any(found in line and expected in line for line in lines), damage[host]


def test_what_is_not_damaged_is_not_blamed(damage: dict[str, str]) -> None:
    assert "ring-2: port 0" not in damage["ring-2"]
    assert "expected star-4" not in damage["star-1"]


def test_a_dead_half_of_a_direct_cable_is_named(
    fleet: FabricFleet, plans: dict[str, dict[str, Any]], damage: Any
) -> None:
    """After the repair of what the other tests damaged."""
    fleet.lab("cable", "plug", "pair-1:1")
    fleet.root("pair-2", "ip link set enP2p1s0f1np1 down")
    pair = {host: plans[host] for host in ("pair-1", "pair-2")}
    messages = fleet.play("verify.yml", pair).verdicts("msg")
    fleet.lab("cable", "pull", "pair-1:1")
    assert (
        "pair-1: port 1 half 1 (enP2p1s0f1np1): no carrier, while the port's other half has one" in messages["pair-1"]
    )
    assert "expected pair-2: port 1 half 1 (enP2p1s0f1np1)" in messages["pair-1"]
    assert "half 0" not in messages["pair-1"]
