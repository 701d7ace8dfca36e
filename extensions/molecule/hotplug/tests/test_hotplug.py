# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pulled cable takes the adapter away, and a plugged one is not called good until it is measured; in this order.

Meanwhile, on the host without a cable, NetworkManager carries out a change that cuts off SSH.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fabric.fleet import FabricFleet
from fabric.harm import CATALOGUE
from fabric.stories import Story, run_harms
from lab.fixtures import eventually

testinfra_hosts = ["ssh://spark-2"]
pytestmark = pytest.mark.story

PAIR = {"cables": [["spark-2:1", "spark-3:1"]]}
PAIR_HOSTS = ("spark-2", "spark-3")
CHANGED = dict.fromkeys(PAIR_HOSTS, 1) | {"titan": 0}
UNCHANGED = dict.fromkeys(CHANGED, 0)
DEVICES = ["rocep1s0f1", "roceP2p1s0f1"]
RAIL = "enp1s0f1np1"
GID = "0000:0000:0000:0000:0000:ffff:c0a8:640a"


@pytest.fixture(scope="module")
def fleet() -> FabricFleet:
    return FabricFleet(Path(os.environ["GB10_LAB_DIR"]))


@pytest.fixture(scope="module")
def cut_off(fleet: FabricFleet) -> Iterator[Future[dict[str, Story]]]:
    """A change that cuts off SSH, made while the first tests run."""
    (harm,) = (harm for harm in CATALOGUE if harm.name == "wrong-gateway")
    with ThreadPoolExecutor(1) as beside:
        yield beside.submit(run_harms, fleet, {"titan": harm})


def plans(fleet: FabricFleet, bandwidth: str = "changed", **declared: Any) -> dict[str, dict[str, Any]]:
    variables = {"fabric_verify_bandwidth": bandwidth, "fabric_verify_seconds": 1}
    return {host: part | variables for host, part in fleet.plan(PAIR | declared).items()}


def of_the_pair(plans: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {host: plans[host] for host in PAIR_HOSTS}


def bandwidth(fleet: FabricFleet, how: str) -> tuple[dict[str, str], dict[str, str]]:
    """Each host's word on its bandwidth, and its message."""
    outcome = fleet.play("verify.yml", of_the_pair(plans(fleet, how)))
    tables = outcome.verdicts("fabric")
    return {host: (tables[host] or {}).get("bandwidth", "") for host in PAIR_HOSTS}, outcome.verdicts("msg")


def wait_for_both(fleet: FabricFleet) -> None:
    for host in PAIR_HOSTS:
        fleet.wait_for_ssh(host, 120)
        fleet.stand_in_for_verbs(host, DEVICES)
    eventually(lambda: fleet.ok("spark-2", "ping -c 1 -W 1 192.168.101.11"), "both halves carry")


def restart_both(fleet: FabricFleet) -> None:
    for action in ("off", "on"):
        for host in PAIR_HOSTS:
            fleet.lab("power", action, host)
    wait_for_both(fleet)


def has_rail(fleet: FabricFleet, host: str) -> bool:
    return fleet.ok(host, f"test -e /sys/class/net/{RAIL} -a -e /sys/class/infiniband/{DEVICES[0]}")


def test_good_links_are_good(fleet: FabricFleet, cut_off: Future[dict[str, Story]]) -> None:
    wait_for_both(fleet)
    assert bandwidth(fleet, "always")[0] == dict.fromkeys(PAIR_HOSTS, "ok")


def test_a_pulled_cable_takes_the_adapter_away_and_that_is_named(fleet: FabricFleet) -> None:
    fleet.lab("cable", "pull", "spark-2:1")
    for host in PAIR_HOSTS:
        eventually(lambda host=host: not has_rail(fleet, host), f"the adapter of {host} is gone")
    words = bandwidth(fleet, "changed")[1]
    for host in PAIR_HOSTS:
        assert "there is no such interface: the adapter is switched off, since hot-plug sees no cable" in words[host]
        assert "restart the machines at both ends at the same time" in words[host]
        assert "never rescan the PCI bus" in words[host]
    refused = fleet.play("converge.yml", of_the_pair(plans(fleet))).failures()
    assert all("[netplan-no-interface]" in refused[host] and "until it clicks" in refused[host] for host in PAIR_HOSTS)


def test_a_plugged_cable_shows_200_gbps_and_is_named_slow_from_both_ends(fleet: FabricFleet) -> None:
    fleet.lab("cable", "plug", "spark-2:1")
    for host in PAIR_HOSTS:
        eventually(lambda host=host: has_rail(fleet, host), f"the adapter of {host} is back")
    wait_for_both(fleet)
    assert fleet.root("spark-2", f"cat /sys/class/net/{RAIL}/speed").strip() == "200000"
    assert bandwidth(fleet, "never")[0] == dict.fromkeys(PAIR_HOSTS, "not proven")
    for how in ("changed", "never"):  # measured since something was plugged; as it was measured
        tables, words = bandwidth(fleet, how)
        assert tables == dict.fromkeys(PAIR_HOSTS, "failed")
        for host, other in (PAIR_HOSTS, PAIR_HOSTS[::-1]):
            assert "[fabric-degraded]" in words[host]
            assert f"13.2 Gb/s to {other}" in words[host]


def test_after_the_remedy_all_is_good_again(fleet: FabricFleet) -> None:
    restart_both(fleet)
    assert bandwidth(fleet, "always")[0] == dict.fromkeys(PAIR_HOSTS, "ok")


def test_networkmanagers_change_that_cut_off_ssh_was_taken_back(cut_off: Future[dict[str, Story]]) -> None:
    story = cut_off.result()["titan"]
    assert "[netplan-restored]" in story.message
    assert story.lost
    assert story.after == story.before


def test_hot_plug_that_is_off_leaves_adapter_address_and_gid(fleet: FabricFleet) -> None:
    outcome = fleet.play("converge.yml", plans(fleet, hotplug="off"))
    assert (outcome.failures(), outcome.changed()) == ({}, CHANGED)
    assert fleet.play("converge.yml", plans(fleet, hotplug="off")).changed() == UNCHANGED
    restart_both(fleet)
    fleet.lab("cable", "pull", "spark-2:1")
    eventually(lambda: fleet.root("spark-2", f"cat /sys/class/net/{RAIL}/carrier").strip() == "0", "the cable is out")
    assert has_rail(fleet, "spark-2")
    assert "192.168.100.10/24" in fleet.root("spark-2", f"ip -br address show {RAIL}")
    assert GID in fleet.root("spark-2", f"cat /sys/class/infiniband/{DEVICES[0]}/ports/1/gids/*")
    fleet.lab("cable", "plug", "spark-2:1")
    wait_for_both(fleet)
    assert bandwidth(fleet, "always")[0] == dict.fromkeys(PAIR_HOSTS, "ok")


def test_keep_undoes_what_off_has_done(fleet: FabricFleet) -> None:
    assert fleet.play("converge.yml", plans(fleet)).changed() == CHANGED
    assert fleet.ok("spark-2", "test -e /etc/nvidia/cx7-hotplug-enabled")
