# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric's plan: the sources' addresses, each refusal, and what holds for every declaration."""

from __future__ import annotations

import copy
import ipaddress
import json
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.layout import MARK
from ansible_collections.gb10.fleet.plugins.module_utils._host.netplan.document import (
    NETWORKMANAGER,
    NETWORKMANAGER_PRE_UP,
    PATH,
)
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.declared import read_fabric
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.hardware import RAILS, rail
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.plan import SYSCTL_PATH, plan_fabric
from hypothesis import given
from hypothesis import strategies as st


@dataclass(frozen=True)
class Facts:
    address: str


HOSTS = {name: Facts(f"10.77.0.{number}") for number, name in enumerate(("spark-1", "spark-2", "spark-3", "titan"), 11)}
PAIR = ["spark-2:1", "spark-3:1"]
RING = [
    {"ends": ["spark-1:0", "spark-2:1"], "index": 0},
    {"ends": ["spark-2:0", "spark-3:1"], "index": 1},
    {"ends": ["spark-3:0", "spark-1:1"], "index": 2},
]


def planned(fabric: Any) -> dict[str, dict[str, Any]]:
    plan, findings = plan_fabric(fabric, HOSTS)
    assert [finding.sentence() for finding in findings if finding.severity == "error"] == []
    return plan


def addresses(plan: dict[str, dict[str, Any]]) -> dict[tuple[str, str], str]:
    return {(host, one["name"]): one["address"] for host, part in plan.items() for one in part["interfaces"]}


def refusals(fabric: Any) -> set[str]:
    return {finding.rule for finding in plan_fabric(fabric, HOSTS)[1] if finding.severity == "error"}


# Names -------------------------------------------------------------------------------------------------------------


def test_rails_are_named_as_on_the_machine() -> None:
    assert [(known.interface, known.device) for known in RAILS.values()] == [
        ("enp1s0f0np0", "rocep1s0f0"),
        ("enP2p1s0f0np0", "roceP2p1s0f0"),
        ("enp1s0f1np1", "rocep1s0f1"),
        ("enP2p1s0f1np1", "roceP2p1s0f1"),
    ]
    assert rail(1, 1).interface == "enP2p1s0f1np1"


# Addresses ---------------------------------------------------------------------------------------------------------

SOURCES_TABLE = {
    ("spark-2", "enp1s0f1np1"): "192.168.100.10/24",
    ("spark-2", "enP2p1s0f1np1"): "192.168.101.10/24",
    ("spark-3", "enp1s0f1np1"): "192.168.100.11/24",
    ("spark-3", "enP2p1s0f1np1"): "192.168.101.11/24",
}


@pytest.mark.parametrize(
    "cable",
    [
        PAIR,
        PAIR[::-1],
        {"ends": PAIR},
        {
            "addresses": {
                "spark-2:1": ["192.168.100.10/24", "192.168.101.10/24"],
                "spark-3:1": ["192.168.100.11/24", "192.168.101.11/24"],
            }
        },
    ],
)
def test_the_sources_table_planned_and_by_hand(cable: Any) -> None:
    assert addresses(planned({"pool": "192.168.100.0/22", "cables": [cable]})) == SOURCES_TABLE


def test_the_example_has_the_sources_table_and_their_10_gbe_link() -> None:
    site = Path(__file__).resolve().parents[2] / "inventories" / "example"
    fabric = yaml.safe_load((site / "group_vars/all/fleet.yml").read_text("utf-8"))["fleet_fabric"]
    hosts = yaml.safe_load((site / "hosts.yml").read_text("utf-8"))["all"]["hosts"]
    plan, findings = plan_fabric(fabric, {name: Facts(host["ansible_host"]) for name, host in hosts.items()})
    assert findings == []
    assert addresses(plan) == SOURCES_TABLE | {
        ("spark-1", "enP7s7"): "192.168.102.10/24",
        ("spark-2", "enP7s7"): "192.168.102.11/24",
    }


def test_a_link_is_named_by_its_interface_and_keeps_its_mtu() -> None:
    by_hand = {"spark-1:enP7s7": "192.168.102.10/24", "spark-2:enP7s7": "192.168.102.11/24"}
    plan = planned({"cables": [PAIR], "links": [{"addresses": by_hand}]})
    (link,) = (one for one in plan["spark-2"]["interfaces"] if one["kind"] == "link")
    assert (link["name"], link["address"], link["mtu"]) == ("enP7s7", "192.168.102.11/24", None)
    assert link["peers"] == [
        {"host": "spark-1", "interface": "enP7s7", "port": None, "half": None, "rdma_device": None,
         "address": "192.168.102.10"},
    ]  # fmt: skip
    assert "mtu" not in plan["spark-2"]["netplan"]["network"]["ethernets"]["enP7s7"]
    assert "enP7s7" not in plan["spark-2"]["files"][SYSCTL_PATH]["content"]


def test_a_ring_needs_room_and_gets_it() -> None:
    assert refusals({"cables": RING, "pool": "192.168.100.0/22"}) == {"fabric-pool-too-small"}
    assert [one["address"] for one in planned({"cables": RING})["spark-3"]["interfaces"]] == [
        "192.168.104.11/24",
        "192.168.105.11/24",
        "192.168.102.11/24",
        "192.168.103.11/24",
    ]
    plan = planned({"cables": RING, "prefix": 28})
    assert [one["address"] for one in plan["spark-1"]["interfaces"]] == [
        "192.168.100.10/28",
        "192.168.100.26/28",
        "192.168.100.74/28",
        "192.168.100.90/28",
    ]


def test_a_switch_numbers_its_ports() -> None:
    ports = {"spark-1:0": 10, "spark-2:0": 11, "spark-3:0": 12, "titan:0": 13}
    plan = planned({"switches": {"qsfp": {"ports": ports}}})
    assert addresses(plan)["titan", "enP2p1s0f0np0"] == "192.168.101.13/24"
    assert [peer["host"] for peer in plan["titan"]["interfaces"][0]["peers"]] == ["spark-1", "spark-2", "spark-3"]


def test_short_subnets_still_number_both_ends() -> None:
    plan = planned({"cables": [PAIR], "prefix": 30})
    assert addresses(plan)["spark-3", "enP2p1s0f1np1"] == "192.168.100.6/30"


def test_link_local_gives_one_half_of_each_port_no_planned_address() -> None:
    fabric = {"cables": [PAIR], "mode": "link-local"}
    plan = planned(fabric)
    assert [(one["name"], one["address"]) for one in plan["spark-2"]["interfaces"]] == [("enp1s0f1np1", None)]
    ethernets = plan["spark-2"]["netplan"]["network"]["ethernets"]
    assert {name: entry["link-local"] for name, entry in ethernets.items()} == {"enp1s0f1np1": ["ipv4"]}
    (hint,) = plan_fabric(fabric, HOSTS)[1]
    assert (hint.rule, hint.severity) == ("fabric-link-local", "hint")


# Files -------------------------------------------------------------------------------------------------------------


def test_the_file_holds_what_the_document_holds() -> None:
    for part in planned({"cables": RING, "prefix": 28}).values():
        text = part["files"][PATH]["content"]
        assert yaml.safe_load(text or "{}") == part["netplan"]
        assert part["files"][PATH]["mode"] == "0600"


def test_rails_are_quiet_large_and_never_hold_up_a_boot() -> None:
    ethernets = planned({"cables": [PAIR]})["spark-2"]["netplan"]["network"]["ethernets"]
    assert ethernets["enP2p1s0f1np1"] == {
        "dhcp4": False,
        "dhcp6": False,
        "accept-ra": False,
        "link-local": [],
        "addresses": ["192.168.101.10/24"],
        "mtu": 9000,
        "optional": True,
        "ignore-carrier": True,
    }


def test_a_host_without_fabric_is_to_have_no_file_of_ours() -> None:
    plan = planned({"cables": [PAIR]})
    assert plan["titan"]["interfaces"] == []
    files = {path: file["content"] for path, file in plan["titan"]["files"].items()}
    assert files == dict.fromkeys((PATH, SYSCTL_PATH, NETWORKMANAGER, NETWORKMANAGER_PRE_UP))
    assert planned(None)["titan"]["files"] == plan["titan"]["files"]


def test_networkmanager_has_its_own_file_for_rails_that_keep_their_addresses() -> None:
    """netplan 1.1 renders `ignore-carrier` for networkd alone."""
    lines = planned({"cables": [PAIR]})["spark-2"]["files"][NETWORKMANAGER]["content"].splitlines()
    assert lines[1:] == [
        "[device-gb10-fabric]",
        "match-device=interface-name:enp1s0f1np1,interface-name:enP2p1s0f1np1",
        "ignore-carrier=yes",
    ]


def test_networkmanager_runs_what_keeps_ipv6_off_before_it_calls_a_rail_connected() -> None:
    """Of `link-local: []` netplan 1.1 makes ipv6.method=ignore, by which NetworkManager sets disable_ipv6 to 0."""
    files = planned({"cables": [PAIR]})["spark-2"]["files"]
    assert files[NETWORKMANAGER_PRE_UP]["mode"] == "0755"
    script = (Path(__file__).parents[2] / files[NETWORKMANAGER_PRE_UP]["source"]).read_text("utf-8")
    assert script.startswith(f"#!/bin/sh\n{MARK}\n")
    command = script.splitlines()[-1]
    assert command == f'exec /usr/lib/systemd/systemd-sysctl --prefix="/net/ipv6/conf/$1" {SYSCTL_PATH}'
    assert "net.ipv6.conf.enp1s0f1np1.disable_ipv6 = 1" in files[SYSCTL_PATH]["content"].splitlines()


@pytest.mark.parametrize(
    ("written", "hotplug"), [({}, "keep"), ({"hotplug": "keep"}, "keep"), ({"hotplug": "off"}, "off"),
                             ({"hotplug": False}, "off")],
)  # fmt: skip
def test_hot_plug_is_off_also_where_yaml_reads_that_as_false(written: dict[str, Any], hotplug: str) -> None:
    assert planned({"cables": [PAIR], **written})["spark-2"]["hotplug"] == hotplug


def test_a_subnet_of_two_has_no_edges() -> None:
    """RFC 3021."""
    plan = planned(by_hand(["10.1.0.0/31", "10.1.1.0/31"], ["10.1.0.1/31", "10.1.1.1/31"]))
    assert addresses(plan)["spark-3", "enP2p1s0f1np1"] == "10.1.1.1/31"


@pytest.mark.parametrize(("number", "refused"), [(6, set()), (7, {"fabric-number-range"})])
def test_a_ports_number_is_an_address_of_its_subnet(number: int, refused: set[str]) -> None:
    ports = {"spark-1:0": 1, "spark-2:0": number}
    assert refusals({"switches": {"qsfp": {"ports": ports}}, "prefix": 29}) == refused


# Refusals ----------------------------------------------------------------------------------------------------------


def by_hand(*both: list[str]) -> dict[str, Any]:
    return {"cables": [{"addresses": dict(zip(PAIR, both, strict=True))}]}


LEFT = ["10.1.0.1/24", "10.1.1.1/24"]


@pytest.mark.parametrize("keeper", ["fleet", "others"])
def test_a_port_may_have_one_address_with_a_warning(keeper: str) -> None:
    fabric = {"keeper": keeper, **by_hand(["10.1.0.1/30"], ["10.1.0.2/30"])}
    slices, findings = plan_fabric(fabric, HOSTS)
    assert [one.rule for one in findings if one.severity != "hint"] == ["fabric-one-half"]
    for end in PAIR:
        [interface] = slices[end.partition(":")[0]]["interfaces"]
        assert interface["half"] == 0 and len(interface["peers"]) == 1


def test_a_half_without_an_address_does_not_answer_for_its_twin() -> None:
    """It would with an MTU of 1500: small packets pass, TCP waits for ever on the first large one."""
    for fabric in (by_hand(["10.1.0.1/30"], ["10.1.0.2/30"]), {"cables": [PAIR], "mode": "link-local"}):
        sysctl = planned(fabric)["spark-2"]["sysctl"]
        assert sysctl["net.ipv4.conf.enP2p1s0f1np1.arp_ignore"] == 1
        assert [key for key in sysctl if "enP2p1" in key] == ["net.ipv4.conf.enP2p1s0f1np1.arp_ignore"]


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("fabric-halves-share-subnet", by_hand(["10.1.0.1/24", "10.1.0.2/24"], ["10.1.0.3/24", "10.1.0.4/24"])),
    ("fabric-halves-share-subnet", by_hand(["10.1.0.1/16", "10.1.1.1/24"], ["10.1.0.3/16", "10.1.1.4/24"])),
    ("fabric-overlap-management", by_hand(["10.77.0.1/24", "10.1.1.1/24"], ["10.77.0.2/24", "10.1.1.2/24"])),
    ("fabric-overlap-management", {"cables": [PAIR], "management": {"networks": ["192.168.0.0/16"]}}),
    ("fabric-overlap-management", {"cables": [PAIR], "pool": "10.77.0.0/22"}),
    ("fabric-network-invalid", {"cables": [PAIR], "management": {"networks": ["192.168.0.0/33"]}}),
    ("fabric-network-invalid", {"cables": [PAIR], "pool": "192.168.100.1/22"}),
    ("fabric-overlap", {"cables": [PAIR, {"addresses": {"spark-1:0": ["192.168.100.1/24", "10.1.1.1/24"],
                                                        "spark-2:0": ["192.168.100.2/24", "10.1.1.2/24"]}}]}),
    ("fabric-port-twice", {"cables": [PAIR, {"ends": ["spark-1:1", "spark-2:1"], "index": 1}]}),
    ("fabric-port-twice", {"cables": [PAIR],
                           "switches": {"qsfp": {"index": 1, "ports": {"spark-2:1": 1, "titan:0": 2}}}}),
    ("fabric-same-host", {"cables": [["spark-2:0", "spark-2:1"]]}),
    ("fabric-index-taken", {"cables": [{"ends": PAIR, "index": 0}, {"ends": ["spark-1:0", "spark-2:0"], "index": 0}]}),
    ("fabric-pool-too-small", {"cables": [{"ends": PAIR, "index": 2}], "pool": "192.168.100.0/22"}),
    ("fabric-pool-too-small", {"cables": [PAIR], "pool": "192.168.100.0/24"}),
    ("fabric-unknown-host", {"cables": [["spark-2:1", "spark-9:1"]]}),
    ("fabric-unknown-port", {"cables": [["spark-2:2", "spark-3:2"]]}),
    ("fabric-unknown-port", {"cables": [["spark-2:enp1s0f1np1", "spark-3:1"]]}),
    ("fabric-mtu-range", {"cables": [PAIR], "mtu": 9979}),
    ("fabric-mtu-range", {"cables": [PAIR], "mtu": 1400}),
    ("fabric-mtu-range", {"links": [{"mtu": 68, "addresses": {"spark-1:enP7s7": "10.9.0.1/24",
                                                               "spark-2:enP7s7": "10.9.0.2/24"}}]}),
    ("fabric-address-invalid", by_hand(LEFT, ["10.1.0.2/24", "10.1.1.300/24"])),
    ("fabric-address-invalid", by_hand(LEFT, ["10.1.0.2", "10.1.1.2/24"])),
    ("fabric-address-invalid", by_hand(LEFT, ["10.1.0.255/24", "10.1.1.2/24"])),
    ("fabric-address-invalid", by_hand(LEFT, ["10.1.0.2/32", "10.1.1.2/24"])),
    ("fabric-address-invalid", by_hand(LEFT, ["10.1.0.0/24", "10.1.1.2/24"])),
    ("fabric-address-invalid", by_hand(LEFT, ["224.1.0.2/24", "10.1.1.2/24"])),
    ("fabric-address-twice", by_hand(LEFT, LEFT)),
    ("fabric-ends-differ", by_hand(LEFT, ["10.2.0.2/24", "10.1.1.2/24"])),
    ("fabric-ends-differ", by_hand(LEFT, ["10.1.0.2/24"])),
    ("fabric-ends-differ", by_hand(["10.1.0.1/24"], ["10.2.0.2/24"])),
    ("fabric-link-on-rail", {"links": [{"addresses": {"spark-2:enp1s0f1np1": "10.9.0.1/24",
                                                      "spark-3:enp1s0f1np1": "10.9.0.2/24"}}]}),
    ("fabric-cable-form", {"cables": [{"ends": PAIR, "addresses": {"spark-2:1": LEFT, "spark-3:1": LEFT}}]}),
    ("fabric-cable-form", {"cables": [{}]}),
    ("fabric-switch-form", {"switches": {"qsfp": {"ports": {"spark-2:1": 1, "spark-3:1": LEFT}}}}),
    ("fabric-number-taken", {"switches": {"qsfp": {"ports": {"spark-2:1": 1, "spark-3:1": 1}}}}),
    ("fabric-number-range", {"switches": {"qsfp": {"ports": {"spark-2:1": 1, "spark-3:1": 255}}}}),
    ("fabric-speed-unused", {"cables": [PAIR], "speeds": {"spark-2:0": 100}}),
    ("fabric-speeds-differ", {"cables": [PAIR], "speeds": {"spark-2:1": 100, "spark-3:1": 200}}),
    ("schema-choice", {"cables": [PAIR], "speeds": {"spark-2:1": 100000}}),
    ("schema-choice", {"cables": [PAIR], "hotplug": True}),
    ("schema-choice", {"cables": [PAIR], "hotplug": "on"}),
    ("schema-unknown-key", {"cabels": [PAIR]}),
    ("schema-type", {"cables": ["spark-2:1"]}),
    ("schema-pattern", {"cables": [["spark-2", "spark-3:1"]]}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "fabric"), REFUSED, ids=[rule for rule, _ in REFUSED])
def test_refused_by_name_with_a_remedy(rule: str, fabric: dict[str, Any]) -> None:
    findings = [finding for finding in plan_fabric(fabric, HOSTS)[1] if finding.severity == "error"]
    assert {finding.rule for finding in findings} == {rule}
    assert all(finding.place.startswith("fleet_fabric.") and finding.found for finding in findings)
    assert all(finding.remedy or finding.expected for finding in findings)


NESTED = {"spark-1:0": ["192.168.100.1/24", "10.1.1.1/24"], "spark-2:0": ["192.168.100.2/24", "10.1.1.2/24"]}
# rule, declaration, place, what is found there, the remedy
SENTENCES: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("fabric-halves-share-subnet", by_hand(["10.1.0.1/24", "10.1.0.2/24"], ["10.1.0.3/24", "10.1.0.4/24"]),
     "cables[0]", "both halves of spark-2:1--spark-3:1 in 10.1.0.0/24",
     "give each half a subnet of its own, like 192.168.100.0/24 and 192.168.101.0/24"),
    ("fabric-overlap-management", {"cables": [PAIR], "pool": "10.77.0.0/22"},
     "cables[0]", "10.77.0.0/24 of spark-2:1--spark-3:1 holds the management address of spark-1 (10.77.0.11)",
     "write another pool, index or addresses"),
    ("fabric-overlap-management", {"cables": [PAIR], "management": {"networks": ["192.168.0.0/16"]}},
     "cables[0]", "192.168.100.0/24 of spark-2:1--spark-3:1 overlaps the management network 192.168.0.0/16",
     "write another pool, index or addresses"),
    ("fabric-overlap", {"cables": [PAIR, {"addresses": NESTED}]},
     "cables[1]", "192.168.100.0/24 of spark-2:1--spark-3:1 overlaps 192.168.100.0/24 of spark-1:0--spark-2:0",
     "give one of them another index, or other addresses"),
    ("fabric-crossed-pair", {"cables": [["spark-2:0", "spark-3:1"]]},
     "cables[0]", "port 0 of spark-2 goes to port 1 of spark-3",
     "leave it; or plug it into port 0 on both sides, and write spark-3:0"),
    ("fabric-port-twice", {"cables": [PAIR, {"ends": ["spark-1:1", "spark-2:1"], "index": 1}]},
     "cables[1]", "spark-2:1 is used by fleet_fabric.cables[0] too",
     "a port takes one cable: write spark-2:0, which is free"),
    ("fabric-pool-too-small", {"cables": [PAIR], "pool": "192.168.100.0/24"},
     "cables[0]", "index 0 needs subnets 0 and 1 of /24; the pool holds 1",
     "leave pool out, or write a larger pool, a longer prefix (28 still gives .10 and .11) or a lower index"),
    ("fabric-unknown-host", {"cables": [["spark-2:1", "spark-9:1"]]},
     "cables[0]", 'no host "spark-9"', 'write "spark-3"'),
    ("fabric-unknown-port", {"cables": [["spark-2:2", "spark-3:1"]]},
     "cables[0]", 'port "2" of spark-2', "write spark-2:0 or spark-2:1, which is free"),
    ("fabric-mtu-range", {"cables": [PAIR], "mtu": 9979},
     "mtu", "9979", "write 9000, or 1500 where a switch can't carry more"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "fabric", "place", "found", "remedy"), SENTENCES, ids=[row[0] for row in SENTENCES])
def test_a_refusal_names_where_what_and_what_to_do(
    rule: str, fabric: dict[str, Any], place: str, found: str, remedy: str
) -> None:
    refused = {(one.rule, one.place, one.found, one.remedy) for one in plan_fabric(fabric, HOSTS)[1]}
    assert (rule, f"fleet_fabric.{place}", found, remedy) in refused


def test_a_refused_cable_shows_what_to_write() -> None:
    fabric = {"cables": [{"ends": PAIR, "index": 0}, {"ends": ["spark-1:0", "spark-2:0"], "index": 0}]}
    remedies = {finding.place: finding.remedy for finding in plan_fabric(fabric, HOSTS)[1]}
    assert "{ends: [spark-1:0, spark-2:0], index: 1}" in remedies["fleet_fabric.cables[1]"]


def test_a_ring_may_join_unlike_ports_and_a_host_may_be_reached_over_its_own_link() -> None:
    assert refusals({"cables": RING, "prefix": 28}) == set()
    hosts = HOSTS | {"spark-2": Facts("192.168.102.11")}
    link = {"addresses": {"spark-1:enP7s7": "192.168.102.10/24", "spark-2:enP7s7": "192.168.102.11/24"}}
    assert plan_fabric({"links": [link]}, hosts)[1] == []


def test_hosts_known_by_name_alone_are_fine() -> None:
    assert plan_fabric({"cables": [PAIR]}, {name: Facts(f"{name}.example.net") for name in HOSTS})[1] == []


def test_a_small_mtu_is_hinted_at() -> None:
    findings = plan_fabric({"cables": [PAIR], "mtu": 1500}, HOSTS)[1]
    assert [(finding.rule, finding.severity) for finding in findings] == [("fabric-mtu-small", "hint")]


def index_of(fabric: dict[str, Any]) -> dict[str, int]:
    return {one.name: one.index for one in read_fabric(fabric, HOSTS)[0].segments}


def test_cables_number_themselves_in_the_order_written_and_one_with_an_index_keeps_it() -> None:
    first, second, third = RING
    by_itself = {"cables": [first["ends"], {"ends": second["ends"], "index": 0}, third["ends"]]}
    assert index_of(by_itself) == {"spark-2:0--spark-3:1": 0, "spark-1:0--spark-2:1": 1, "spark-1:1--spark-3:0": 2}
    switch = {"qsfp": {"ports": {"spark-1:1": 1, "titan:1": 2}}}
    assert index_of({"cables": [PAIR], "switches": switch}) == {"spark-2:1--spark-3:1": 0, "qsfp": 1}


@pytest.mark.parametrize(
    ("cables", "remedy"),
    [
        ([["spark-2:0", "spark-3:1"]], "write spark-3:0"),
        ([["spark-2:0", "spark-3:1"], ["spark-2:1", "spark-3:0"]], "swap the two plugs at spark-3"),
    ],
)
def test_a_crossed_pair_is_planned_and_its_remedy_names_a_free_port(cables: list[list[str]], remedy: str) -> None:
    found = plan_fabric({"cables": cables}, HOSTS)[1]
    assert {(one.rule, one.severity) for one in found} == {("fabric-crossed-pair", "hint")}
    assert all(remedy in one.remedy for one in found)


def test_a_pool_that_nobody_wrote_can_not_be_left_out() -> None:
    (finding,) = plan_fabric({"cables": [{"ends": PAIR, "index": 400}]}, HOSTS)[1]
    assert finding.rule == "fabric-pool-too-small" and finding.remedy.startswith("write a larger pool")


def test_a_port_used_twice_on_a_host_without_a_free_one() -> None:
    cables = [PAIR, ["spark-1:0", "spark-2:0"], ["titan:1", "spark-2:1"]]
    assert "both ports of spark-2 have a cable" in plan_fabric({"cables": cables}, HOSTS)[1][0].remedy


# Properties --------------------------------------------------------------------------------------------------------

NAMES = [f"node-{number}" for number in range(8)]
FLEET = {name: Facts(f"172.16.0.{number}") for number, name in enumerate(NAMES, 1)}
ROOMY = {"pool": "10.128.0.0/16", "prefix": 26}


@st.composite
def cablings(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Cables as they may hang in a rack, each port used once, each with an index of its own."""
    ports = draw(st.permutations([f"{name}:{port}" for name in NAMES for port in (0, 1)]))
    pairs = [list(pair) for pair in zip(ports[::2], ports[1::2], strict=True)]
    pairs = [pair for pair in pairs if pair[0][:-2] != pair[1][:-2] and pair[0][-1] == pair[1][-1]]
    pairs = pairs[: draw(st.integers(0, len(pairs)))]
    indices = draw(st.lists(st.integers(0, 511), min_size=len(pairs), max_size=len(pairs), unique=True))
    return [{"ends": pair, "index": index} for pair, index in zip(pairs, indices, strict=True)]


def fleet_addresses(cables: list[Any]) -> dict[tuple[str, str], str]:
    plan, findings = plan_fabric({**ROOMY, "cables": cables}, FLEET)
    assert findings == []
    return addresses(plan)


@given(cablings(), st.data())
def test_adding_or_removing_a_cable_renumbers_no_other(cables: list[Any], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.sampled_from(cables), unique_by=str) if cables else st.just([]))
    before, after = fleet_addresses(kept), fleet_addresses(cables)
    assert {place: after[place] for place in before} == before


@given(cablings(), st.data())
def test_a_cable_that_goes_and_comes_back_has_its_addresses_again(cables: list[Any], data: st.DataObject) -> None:
    before = fleet_addresses(cables)
    gone = data.draw(st.sampled_from(cables)) if cables else None
    rest = [cable for cable in cables if cable is not gone]
    left = fleet_addresses(rest)
    assert {place: before[place] for place in left} == left
    assert fleet_addresses([*rest, gone] if gone else rest) == before


@given(cablings(), st.randoms(use_true_random=False))
def test_the_order_of_writing_does_not_matter(cables: list[Any], random: Any) -> None:
    shuffled = copy.deepcopy(cables)
    random.shuffle(shuffled)
    for cable in shuffled:
        random.shuffle(cable["ends"])
    written = [plan_fabric({**ROOMY, "cables": one}, FLEET) for one in (cables, shuffled)]
    assert json.dumps(written[0][0]) == json.dumps(written[1][0])


@given(cablings())
def test_no_subnet_and_no_address_is_shared(cables: list[Any]) -> None:
    plan, _ = plan_fabric({**ROOMY, "cables": cables}, FLEET)
    interfaces = [ipaddress.IPv4Interface(address) for address in addresses(plan).values()]
    assert len(interfaces) == len({interface.ip for interface in interfaces}) == 4 * len(cables)
    networks = {interface.network for interface in interfaces}
    assert len(networks) == 2 * len(cables)
    assert not any(left.overlaps(right) for left, right in combinations(networks, 2))


@given(cablings())
def test_peers_are_mutual(cables: list[Any]) -> None:
    plan, _ = plan_fabric({**ROOMY, "cables": cables}, FLEET)
    table = addresses(plan)
    seen = {
        (host, one["name"], peer["host"], peer["interface"])
        for host, part in plan.items()
        for one in part["interfaces"]
        for peer in one["peers"]
    }
    assert seen == {(there, its, here, ours) for here, ours, there, its in seen}
    assert all(
        peer["address"] == table[peer["host"], peer["interface"]].partition("/")[0]
        for part in plan.values()
        for one in part["interfaces"]
        for peer in one["peers"]
    )


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12)
    | st.sampled_from(["spark-2:1", "spark-3:1", "192.168.1.1/24", "10.0.0.0/8", "0.0.0.0/0", "::1/64"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.text(max_size=5) | st.sampled_from(["cables", "pool", "ends", "index", "addresses", "switches", "ports",
                                               "links", "mtu", "prefix", "spark-2:1", "spark-3:1"]),
        inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(ANYTHING)
def test_nothing_that_is_written_raises(written: Any) -> None:
    plan, _ = plan_fabric(written, HOSTS)
    json.dumps(plan)
