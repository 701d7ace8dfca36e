# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bandwidth proof's way through servers, clients, counters and judgement, with a stand-in for the tool itself."""

from __future__ import annotations

from typing import Any

import pytest

from .fleet import FabricFleet, Outcome

HOSTS = ["spark-2", "spark-3"]
DEVICES = ["rocep1s0f1", "roceP2p1s0f1"]


@pytest.fixture(scope="module")
def plans(fleet: FabricFleet) -> dict[str, dict[str, Any]]:
    fleet.up(HOSTS, ["spark-2:1=spark-3:1"])
    plans = {
        host: part | {"fabric_verify_seconds": 1}
        for host, part in fleet.plan({"cables": [["spark-2:1", "spark-3:1"]]}).items()
    }
    assert fleet.play("converge.yml", plans).failures() == {}
    for host in HOSTS:
        fleet.stand_in_for_verbs(host, DEVICES)
    return plans


def measure(fleet: FabricFleet, plans: dict[str, Any], *figures: str) -> Outcome:
    """figures: by half, the bandwidth in Gb/s and the share of the bytes that the device counts."""
    for host in plans:
        for device, figure in zip(DEVICES, figures, strict=True):
            fleet.root(host, f"echo {figure} > /run/stand-in/{device}")
    return fleet.play("verify.yml", plans)


def test_what_is_good_is_ok_where_it_was_measured(fleet: FabricFleet, plans: dict[str, Any]) -> None:
    outcome = measure(fleet, plans, "106.71 1.02", "105.90 1.02")
    assert outcome.failures() == {}
    messages = {host: table["bandwidth"] for host, table in outcome.verdicts("fabric").items()}
    assert messages == {"spark-2": "ok", "spark-3": "ok"}


@pytest.mark.parametrize(
    ("figures", "sentence"),
    [
        (("13.23 1.02", "12.90 1.02"),
         "spark-3: port 1 half 1 (enP2p1s0f1np1): it sends 12.9 Gb/s to spark-2, while the link says 200000 Mb/s; "
         "expected at least 87.5 Gb/s"),
        (("13.23 1.02", "12.90 1.02"), "both halves: it sends 26.1 Gb/s to spark-2, while the link says 200000 Mb/s"),
        (("106.71 1.02", "60.00 1.02"), "both halves: it sends 166.7 Gb/s to spark-2; expected at least 175 Gb/s"),
        (("106.71 0.0", "105.90 1.02"), "port 1 half 0 (enp1s0f1np1): rocep1s0f1 counted 0 bytes of 8388608000"),
    ],
)  # fmt: skip
def test_what_is_not_good_is_named(
    fleet: FabricFleet, plans: dict[str, Any], figures: tuple[str, str], sentence: str
) -> None:
    assert sentence in measure(fleet, plans, *figures).verdicts("msg")["spark-3"]


def test_a_host_that_is_slow_in_sending_alone_is_the_one_that_is_named(
    fleet: FabricFleet, plans: dict[str, Any]
) -> None:
    measure(fleet, plans, "106.71 1.02", "105.90 1.02")
    for device in DEVICES:
        fleet.root("spark-2", f"echo 13.3 1.02 > /run/stand-in/{device}")
    messages = fleet.play("verify.yml", plans).verdicts("msg")
    assert "it sends 13.3 Gb/s to spark-3" in messages["spark-2"]
    assert "switch spark-2 off, take its power plug out" in messages["spark-2"]
    assert "it sends" not in str(messages["spark-3"])


def test_a_slow_link_stays_named_until_it_is_measured_again(fleet: FabricFleet, plans: dict[str, Any]) -> None:
    """Also by a proof that does not measure, as site.yml's of a fleet that nothing has changed."""
    measure(fleet, plans, "13.23 1.02", "12.90 1.02")
    still = {host: part | {"fabric_verify_bandwidth": "never"} for host, part in plans.items()}
    assert (
        "it sent 13.2 Gb/s to spark-3 when it was last measured"
        in fleet.play("verify.yml", still).verdicts("msg")["spark-2"]
    )
    assert measure(fleet, plans, "106.71 1.02", "105.90 1.02").failures() == {}
    assert fleet.play("verify.yml", still).failures() == {}


def test_a_cable_that_was_plugged_in_is_measured_though_nothing_changed(
    fleet: FabricFleet, plans: dict[str, Any]
) -> None:
    seldom = {host: part | {"fabric_verify_bandwidth": "changed"} for host, part in plans.items()}
    messages = {host: table["bandwidth"] for host, table in fleet.play("verify.yml", seldom).verdicts("fabric").items()}
    assert messages == dict.fromkeys(HOSTS, "not measured")
    fleet.root("spark-2", "logger --tag kernel 'cx7-pcie-hotplug MTKP0001:00: Cable plugin'")
    messages = {host: table["bandwidth"] for host, table in fleet.play("verify.yml", seldom).verdicts("fabric").items()}
    assert messages == dict.fromkeys(HOSTS, "ok")


def test_a_server_that_is_not_reached_is_reported(fleet: FabricFleet, plans: dict[str, Any]) -> None:
    fleet.root("spark-2", "mv /usr/local/bin/ib_write_bw /srv")
    messages = measure(fleet, plans, "106.71 1.02", "105.90 1.02").verdicts("msg")
    fleet.root("spark-2", "mv /srv/ib_write_bw /usr/local/bin")
    assert "ib_write_bw to spark-2 failed: rocep1s0f1: Unable to perform rdma_client function" in messages["spark-3"]


@pytest.mark.parametrize(("host", "other"), [("spark-2", "spark-3"), ("spark-3", "spark-2")])
def test_without_the_other_end_it_is_not_proven(
    fleet: FabricFleet, plans: dict[str, Any], host: str, other: str
) -> None:
    outcome = fleet.play("verify.yml", plans, "--limit", host)
    assert outcome.failures() == {}
    assert outcome.verdicts("fabric")[host]["bandwidth"] == "not proven"
    assert f"not measured with {other}" in str(outcome.verdicts("findings"))
