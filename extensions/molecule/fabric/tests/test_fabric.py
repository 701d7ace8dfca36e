# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A direct pair as converged, after a boot, with its cable out, and after a change that cut off SSH."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fabric.fleet import FabricFleet, Outcome
from fabric.harm import CATALOGUE
from fabric.stories import run_harms
from lab.fixtures import eventually
from testinfra.host import Host

testinfra_hosts = ["ssh://spark-2"]

LAB = Path(os.environ["GB10_LAB_DIR"])
PAIR = {"cables": [["spark-2:1", "spark-3:1"]]}
CARRIES = " && ".join(f"ping -c 1 -W 1 -M do -s 8972 192.168.{net}.11" for net in (100, 101))


@pytest.fixture(scope="module")
def fleet() -> FabricFleet:
    return FabricFleet(LAB)


@pytest.fixture
def unplugged(fleet: FabricFleet) -> Iterator[None]:
    fleet.lab("cable", "pull", "spark-2:1")
    yield
    fleet.lab("cable", "plug", "spark-2:1")
    eventually(lambda: fleet.ok("spark-2", CARRIES), "both halves carry again")


def proof(fleet: FabricFleet) -> Outcome:
    plans = fleet.plan(PAIR)
    return fleet.play("verify.yml", {host: plans[host] for host in ("spark-2", "spark-3")})


def test_both_halves_carry_whole_frames(fleet: FabricFleet) -> None:
    eventually(lambda: fleet.ok("spark-2", CARRIES), "both halves carry")


def test_the_file_is_valid_alone_and_nobody_elses_to_read(host: Host) -> None:
    script = "r=$(mktemp -d) && mkdir -p $r/etc/netplan && cp -p /etc/netplan/40-cx7.yaml $r/etc/netplan"
    assert (
        host.run(f"{script} && netplan generate --root-dir $r && ls $r/run/systemd/network").stdout.count("np1.network")
        == 2
    )
    assert host.file("/etc/netplan/40-cx7.yaml").mode == 0o600


def test_a_host_without_cable_has_nothing_of_it(fleet: FabricFleet) -> None:
    assert fleet.root("titan", "ls /etc/netplan").split() == ["00-lab-management.yaml"]
    assert not fleet.ok("titan", "test -e /etc/gb10-fleet")


def test_all_is_proven_again_after_a_boot(fleet: FabricFleet) -> None:
    fleet.lab("power", "cycle", "spark-2")
    fleet.wait_for_ssh("spark-2", 300)
    # SSH does not wait for the fabric
    eventually(lambda: fleet.ok("spark-2", CARRIES), "both halves carry")
    table = proof(fleet).verdicts("fabric")["spark-2"]
    assert table.pop("bandwidth") == "not possible here"
    assert set(table.values()) == {"ok"}


def test_a_pulled_cable_is_named(fleet: FabricFleet, unplugged: None) -> None:
    verdict = proof(fleet).verdicts("msg")["spark-3"]
    assert "spark-3: port 1 half 1 (enP2p1s0f1np1): no carrier" in verdict
    assert "expected a cable to spark-2: port 1 half 1 (enP2p1s0f1np1)" in verdict
    assert "[fabric-no-carrier]" in verdict


def test_a_change_that_cuts_off_ssh_is_taken_back(fleet: FabricFleet) -> None:
    (harm,) = (harm for harm in CATALOGUE if harm.name == "wrong-gateway")
    story = run_harms(fleet, {"spark-2": harm})["spark-2"]
    assert "[netplan-restored]" in story.message
    assert story.lost
    assert story.after == story.before
