# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role on two hosts over their life: checked, converged, disturbed, extended, emptied."""

from __future__ import annotations

from typing import Any

import pytest

from .fleet import FabricFleet, Outcome

HOSTS = ["spark-2", "spark-3"]
PAIR: dict[str, Any] = {"cables": [["spark-2:1", "spark-3:1"]]}
FOREIGN = "/etc/netplan/50-old.yaml"
OLD = "network: {version: 2, ethernets: {rails: {match: {name: 'enp1s0f1*'}, addresses: [192.168.177.11/24]}}}"


@pytest.fixture(scope="module")
def hosts(fleet: FabricFleet) -> FabricFleet:
    fleet.up(HOSTS, ["spark-2:1=spark-3:1"])
    return fleet


def converge(fleet: FabricFleet, fabric: dict[str, Any], *options: str) -> Outcome:
    return fleet.play("converge.yml", fleet.plan(fabric), *options)


def of_ssh(fleet: FabricFleet) -> dict[str, Any]:
    """The link over which we come, with its frame size: by the address alone NetworkManager's file stays as it is."""
    return {"addresses": {f"{host}:enP7s7": f"{fleet.addresses[host]}/24" for host in HOSTS}, "mtu": 1500}


def addresses(fleet: FabricFleet, host: str) -> str:
    return fleet.root(host, "ip -4 -br address show up | grep -v lo | tr -s ' ' | sort")


def test_check_mode_reports_all_and_does_nothing(hosts: FabricFleet) -> None:
    before = hosts.root("spark-2", "find /etc /usr/local -xdev -newer /etc/machine-id | sort")
    outcome = converge(hosts, PAIR, "--check", "--diff")
    assert outcome.failures() == {}
    assert set(outcome.changed().values()) != {0}
    assert hosts.root("spark-2", "find /etc /usr/local -xdev -newer /etc/machine-id | sort") == before
    assert "192.168.100" not in addresses(hosts, "spark-2")


def test_another_file_for_the_same_interface_is_refused_by_name(hosts: FabricFleet) -> None:
    hosts.root("spark-2", f'umask 077; echo "{OLD}" > {FOREIGN}')
    messages = converge(hosts, PAIR).failures()
    assert set(messages) == {"spark-2"}
    assert f"{FOREIGN}: also configures enp1s0f1np1" in messages["spark-2"]
    assert "[netplan-foreign-claim]" in messages["spark-2"]
    assert "fabric_foreign=move" in messages["spark-2"]
    assert not hosts.ok("spark-2", "test -e /etc/netplan/40-cx7.yaml")


def test_it_is_moved_aside_when_asked(hosts: FabricFleet) -> None:
    outcome = converge(hosts, PAIR, "-e", "fabric_foreign=move")
    assert outcome.failures() == {}
    assert hosts.root("spark-2", "ls /etc/netplan").split() == ["00-lab-management.yaml", "40-cx7.yaml"]
    kept = hosts.root(
        "spark-2", "cat /etc/gb10-fleet/netplan/moved/50-old.yaml.*; stat -c %a /etc/gb10-fleet/netplan/moved/*"
    )
    assert kept.split() == [*OLD.split(), "600"]
    assert "enp1s0f1np1@" in addresses(hosts, "spark-2")
    assert "192.168.177.11" not in addresses(hosts, "spark-2")


def test_then_nothing_is_left_to_do(hosts: FabricFleet) -> None:
    for options in ((), ("--check", "--diff")):
        outcome = converge(hosts, PAIR, *options)
        assert (outcome.failures(), set(outcome.changed().values())) == ({}, {0})
    assert hosts.root("spark-2", "stat -c %a /etc/netplan/40-cx7.yaml").strip() == "600"


@pytest.mark.parametrize(
    "disturbance",
    [
        "ip address del 192.168.100.10/24 dev enp1s0f1np1",
        "ip address add 10.9.9.9/24 dev enP2p1s0f1np1",
        "ip link set enp1s0f1np1 mtu 1500",
        "ip link set enp1s0f1np1 down",
        "sysctl -w net.ipv4.conf.enp1s0f1np1.arp_ignore=0",
        "chmod 644 /etc/netplan/40-cx7.yaml",
        "echo '# mine' >> /etc/netplan/40-cx7.yaml",
        "rm /etc/netplan/40-cx7.yaml",
    ],
)
def test_what_was_disturbed_is_set_right(hosts: FabricFleet, disturbance: str) -> None:
    files, state = hosts.netplan_files("spark-2"), addresses(hosts, "spark-2")
    hosts.root("spark-2", disturbance)
    assert converge(hosts, PAIR, "--check").changed() == {"spark-2": 1, "spark-3": 0}
    outcome = converge(hosts, PAIR)
    assert (outcome.failures(), outcome.changed()) == ({}, {"spark-2": 1, "spark-3": 0})
    assert (hosts.netplan_files("spark-2"), addresses(hosts, "spark-2")) == (files, state)


def test_link_local_addresses_are_proven_as_well(hosts: FabricFleet) -> None:
    plans = hosts.plan(PAIR | {"mode": "link-local"})
    assert hosts.play("converge.yml", plans).failures() == {}
    assert addresses(hosts, "spark-2").count("169.254.") == 1
    assert hosts.play("verify.yml", plans).failures() == {}
    assert set(hosts.play("converge.yml", plans).changed().values()) == {0}


def test_the_interface_of_ssh_changes_only_when_named(hosts: FabricFleet) -> None:
    both = PAIR | {"links": [of_ssh(hosts)]}
    messages = converge(hosts, both, "-e", "fabric_foreign=move").failures()
    assert all("[netplan-ssh-interface]" in text for text in messages.values())
    assert set(messages) == set(HOSTS)
    outcome = converge(hosts, both, "-e", "fabric_foreign=move", "-e", "fabric_ssh_interface=enP7s7")
    assert outcome.failures() == {}
    assert hosts.root("spark-2", "ls /etc/netplan").split() == ["40-cx7.yaml"]
    assert hosts.answers_ssh("spark-2")
    assert set(converge(hosts, both).changed().values()) == {0}


def test_without_cables_the_rails_are_left_bare(hosts: FabricFleet) -> None:
    outcome = converge(hosts, {"links": [of_ssh(hosts)]})
    assert outcome.failures() == {}
    assert "192.168.100" not in addresses(hosts, "spark-2")
    assert not hosts.ok("spark-2", "test -e /etc/sysctl.d/90-gb10-fabric.conf")
    assert hosts.answers_ssh("spark-2")
