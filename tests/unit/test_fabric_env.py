# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of each topology, and the GID index that is read at launch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import Finding
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.environment import group_environment
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.gids import (
    Gid,
    index_of,
    launch_environment,
    read_table,
)
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.plan import plan_fabric


@dataclass(frozen=True)
class Facts:
    address: str


HOSTS = {f"spark-{number}": Facts(f"10.77.0.{10 + number}") for number in range(1, 5)}
PAIR = {"cables": [["spark-2:1", "spark-3:1"]]}
TWO_CABLES = {
    "cables": [{"ends": ["spark-2:1", "spark-3:1"], "index": 0}, {"ends": ["spark-2:0", "spark-3:0"], "index": 1}]
}
RING: dict[str, Any] = {
    "prefix": 28,
    "cables": [
        {"ends": ["spark-1:0", "spark-2:1"], "index": 0},
        {"ends": ["spark-2:0", "spark-3:1"], "index": 1},
        {"ends": ["spark-3:0", "spark-1:1"], "index": 2},
    ],
}
SWITCH = {"switches": {"qsfp": {"ports": {f"spark-{number}:1": 9 + number for number in range(1, 5)}}}}
LINK = {"links": [{"addresses": {"spark-1:enP7s7": "192.168.102.10/24", "spark-2:enP7s7": "192.168.102.11/24"}}]}


def environments(fabric: dict[str, Any], hosts: list[str], **options: str) -> dict[str, dict[str, str]]:
    slices, problems = plan_fabric(fabric, HOSTS)
    members, findings = group_environment(slices, hosts, Place(service="big", option="hosts"), **options)
    assert [*problems, *findings] == []
    assert all(one["reason"] and one["source"] for member in members.values() for one in member.variables)
    return {
        host: ({"address": member.address} if member.address else {})
        | {one["name"]: one["value"] for one in member.variables}
        for host, member in members.items()
    }


ROCE = {
    "NCCL_NET": "IB",
    "NCCL_IB_ADDR_FAMILY": "AF_INET",
    "NCCL_IB_ROCE_VERSION_NUM": "2",
    "NCCL_NET_PLUGIN": "none",
    "NCCL_DMABUF_ENABLE": "0",
    "NCCL_NET_GDR_LEVEL": "LOC",
    "NCCL_NET_GDR_C2C": "0",
}


def meeting(address: str, interface: str) -> dict[str, str]:
    names = (
        "NCCL_SOCKET_IFNAME",
        "GLOO_SOCKET_IFNAME",
        "TP_SOCKET_IFNAME",
        "MN_IF_NAME",
        "OMPI_MCA_btl_tcp_if_include",
    )
    return {"address": address, "NCCL_DEBUG": "WARN"} | dict.fromkeys(names, interface)


def test_a_direct_pair_uses_both_rails() -> None:
    both = "rocep1s0f1:1,roceP2p1s0f1:1"
    rails = ROCE | {"NCCL_IB_HCA": f"={both}", "UCX_NET_DEVICES": both}
    assert environments(PAIR, ["spark-2", "spark-3"]) == {
        "spark-2": meeting("192.168.100.10", "enp1s0f1np1") | rails,
        "spark-3": meeting("192.168.100.11", "enp1s0f1np1") | rails,
    }


def test_a_single_rail_is_the_first_half() -> None:
    environment = environments(TWO_CABLES, ["spark-2", "spark-3"], rails="single")["spark-3"]
    assert environment["NCCL_IB_HCA"] == "=rocep1s0f0:1"
    assert environments(PAIR | {"rails": "single"}, ["spark-2", "spark-3"])["spark-3"]["NCCL_IB_HCA"] == "=rocep1s0f1:1"


def test_two_cables_are_four_rails_in_the_same_order_on_both_hosts() -> None:
    lists = {host: env["NCCL_IB_HCA"] for host, env in environments(TWO_CABLES, ["spark-2", "spark-3"]).items()}
    assert set(lists.values()) == {"=rocep1s0f0:1,roceP2p1s0f0:1,rocep1s0f1:1,roceP2p1s0f1:1"}


def test_a_pair_of_a_ring_uses_its_own_cable_by_each_hosts_own_names() -> None:
    environment = environments(RING, ["spark-1", "spark-2"])
    assert environment["spark-1"]["NCCL_IB_HCA"] == "=rocep1s0f0:1,roceP2p1s0f0:1"
    assert environment["spark-2"]["NCCL_IB_HCA"] == "=rocep1s0f1:1,roceP2p1s0f1:1"
    assert environment["spark-2"]["GLOO_SOCKET_IFNAME"] == "enp1s0f1np1"
    assert "NCCL_IB_MERGE_NICS" not in environment["spark-1"]


def test_a_ring_meets_over_the_management_network_and_uses_both_ports() -> None:
    environment = environments(RING, ["spark-1", "spark-2", "spark-3"])
    for number, host in enumerate(environment, 1):
        assert environment[host].items() >= meeting(f"10.77.0.{10 + number}", "enP7s7").items()
        assert environment[host].items() >= {"NCCL_IB_SUBNET_AWARE_ROUTING": "1", "NCCL_IB_MERGE_NICS": "0"}.items()
        assert environment[host]["NCCL_IB_HCA"].count(":1") == 4


TRIANGLE_LIKE: dict[str, Any] = {
    "cables": [["spark-1:0", "spark-2:0"], ["spark-2:1", "spark-3:1"], ["spark-3:0", "spark-1:1"]]
}
RING_OF_FOUR: dict[str, Any] = {
    "cables": [
        ["spark-1:1", "spark-2:1"],
        ["spark-2:0", "spark-3:0"],
        ["spark-3:1", "spark-4:1"],
        ["spark-4:0", "spark-1:0"],
    ]
}
FOUR = ["spark-1", "spark-2", "spark-3", "spark-4"]


def group(fabric: dict[str, Any], hosts: list[str], **options: Any) -> tuple[dict[str, dict[str, str]], list[Finding]]:
    slices, _ = plan_fabric(fabric, HOSTS)
    members, findings = group_environment(slices, hosts, Place(service="big", option="hosts"), **options)
    return {h: {v["name"]: v["value"] for v in m.variables} for h, m in members.items()}, findings


def test_a_triangle_with_like_ports_merges_and_names_the_plugs_to_swap() -> None:
    environment, (finding,) = group(TRIANGLE_LIKE, FOUR[:3])
    assert {one["NCCL_IB_MERGE_NICS"] for one in environment.values()} == {"1"}
    assert {one["NCCL_IB_SUBNET_AWARE_ROUTING"] for one in environment.values()} == {"1"}
    assert (finding.rule, finding.severity) == ("fabric-triangle-like-ports", "hint")
    assert "swap the two plugs at spark-2" in finding.remedy and "2.30.7" in finding.remedy
    swapped = {"cables": [["spark-2:1", "spark-1:0"], ["spark-2:0", "spark-3:1"], ["spark-3:0", "spark-1:1"]]}
    assert "[spark-2:1, spark-1:0] and [spark-2:0, spark-3:1]" in finding.remedy
    environment, findings = group(swapped, FOUR[:3])
    assert findings == [] and {one["NCCL_IB_MERGE_NICS"] for one in environment.values()} == {"0"}


def test_a_ring_of_four_needs_an_nccl_without_trees() -> None:
    environment, (finding,) = group(RING_OF_FOUR, FOUR)
    assert environment == {} and (finding.rule, finding.severity) == ("fabric-group-unconnected", "error")
    assert "all their ports are taken" in finding.found and "NCCL" in finding.expected and "[" not in finding.remedy


@pytest.mark.parametrize(
    "variables", [{"NCCL_SWITCHLESS_RING_ONLY": "1"}, {"NCCL_SKIP_TREE_CONNECT": 1}, {"NCCL_NET_PLUGIN": "mesh"}]
)
def test_a_ring_of_four_is_planned_for_such_an_nccl(variables: dict[str, Any]) -> None:
    environment, (finding,) = group(RING_OF_FOUR, FOUR, written=variables)
    assert finding.severity == "warning"
    for one in environment.values():
        assert one["NCCL_ALGO"] == "Ring" and one["NCCL_IB_MERGE_NICS"] == "1" and one["NCCL_IB_HCA"].count(":1") == 4


@pytest.mark.parametrize("variables", [{}, {"NCCL_SWITCHLESS_RING_ONLY": "0"}, {"NCCL_ALGO": "Ring"}])
def test_what_does_not_show_such_an_nccl(variables: dict[str, Any]) -> None:
    assert group(RING_OF_FOUR, FOUR, written=variables)[1][0].severity == "error"


def test_ranks_go_along_the_ring() -> None:
    across = ["spark-1", "spark-3", "spark-2", "spark-4"]
    _, (finding,) = group(RING_OF_FOUR, across, written={"NCCL_SWITCHLESS_RING_ONLY": "1"})
    assert (finding.rule, finding.severity) == ("fabric-ring-order", "error")
    right = finding.remedy.split("[")[1].rstrip("]").split(", ")
    assert group(RING_OF_FOUR, right, written={"NCCL_SWITCHLESS_RING_ONLY": "1"})[1][0].severity == "warning"


@pytest.mark.parametrize(
    ("cables", "hosts", "remedy"),
    [
        ([["spark-1:1", "spark-2:1"], ["spark-2:0", "spark-3:0"]], FOUR[:3], "[spark-1:0, spark-3:1]"),
        ([["spark-1:1", "spark-2:1"], ["spark-1:0", "spark-3:0"]], ["spark-1", "spark-4"], "both ports of spark-1"),
    ],
)
def test_a_missing_cable_goes_to_ports_that_are_free(cables: list[list[str]], hosts: list[str], remedy: str) -> None:
    _, (finding,) = group({"cables": cables}, hosts)
    assert remedy in finding.remedy


def test_a_switch_connects_all() -> None:
    environment = environments(SWITCH, ["spark-4", "spark-1", "spark-3"])
    assert {host: env["address"] for host, env in environment.items()} == {
        "spark-4": "192.168.100.13",
        "spark-1": "192.168.100.10",
        "spark-3": "192.168.100.12",
    }


def test_socket_mode_is_deliberate_and_may_use_a_slow_link() -> None:
    environment = environments(PAIR | {"transport": "socket"}, ["spark-2", "spark-3"])["spark-2"]
    assert environment == meeting("192.168.100.10", "enp1s0f1np1") | {
        "NCCL_NET": "Socket",
        "UCX_NET_DEVICES": "enp1s0f1np1",
    }
    assert environments(LINK, ["spark-1", "spark-2"], transport="socket")["spark-1"]["address"] == "192.168.102.10"


PORT_0, PORT_1 = "rocep1s0f0:1,roceP2p1s0f0:1", "rocep1s0f1:1,roceP2p1s0f1:1"
HALF_0, HALF_1 = "rocep1s0f0:1", "rocep1s0f1:1"
RING_OF_THREE = ["spark-1", "spark-2", "spark-3"]


@pytest.mark.parametrize(
    ("fabric", "hosts", "rails", "devices"),
    [
        (PAIR, ["spark-2", "spark-3"], "dual", [PORT_1, PORT_1]),
        (PAIR, ["spark-2", "spark-3"], "single", ["rocep1s0f1:1", "rocep1s0f1:1"]),
        (TWO_CABLES, ["spark-2", "spark-3"], "dual", [f"{PORT_0},{PORT_1}"] * 2),
        (TWO_CABLES, ["spark-2", "spark-3"], "single", ["rocep1s0f0:1", "rocep1s0f0:1"]),
        (RING, ["spark-3", "spark-1"], "dual", [PORT_0, PORT_1]),
        (RING, ["spark-3", "spark-1"], "single", ["rocep1s0f0:1", "rocep1s0f1:1"]),
        (RING, RING_OF_THREE, "dual", [f"{PORT_0},{PORT_1}", f"{PORT_1},{PORT_0}", f"{PORT_0},{PORT_1}"]),
        (RING, RING_OF_THREE, "single", [f"{HALF_0},{HALF_1}", f"{HALF_1},{HALF_0}", f"{HALF_0},{HALF_1}"]),
        (SWITCH, ["spark-4", "spark-1"], "dual", [PORT_1, PORT_1]),
        (SWITCH, ["spark-4", "spark-1"], "single", ["rocep1s0f1:1", "rocep1s0f1:1"]),
    ],
)
def test_each_host_names_its_own_devices(
    fabric: dict[str, Any], hosts: list[str], rails: str, devices: list[str]
) -> None:
    """In a ring each lists its cables in the same order: by the cable's name, not by the port's number."""
    found = environments(fabric, hosts, rails=rails)
    assert [found[host]["NCCL_IB_HCA"] for host in hosts] == [f"={names}" for names in devices]
    assert [found[host]["UCX_NET_DEVICES"] for host in hosts] == devices
    assert all("NCCL_IB_GID_INDEX" not in variables for variables in found.values())


@pytest.mark.parametrize(
    ("fabric", "hosts", "interfaces"),
    [
        (TWO_CABLES, ["spark-2", "spark-3"], ["enp1s0f0np0", "enp1s0f0np0"]),
        (RING, ["spark-3", "spark-1"], ["enp1s0f0np0", "enp1s0f1np1"]),
        (RING, RING_OF_THREE, ["enP7s7", "enP7s7", "enP7s7"]),
        (SWITCH, ["spark-4", "spark-1"], ["enp1s0f1np1", "enp1s0f1np1"]),
    ],
)
def test_socket_mode_names_each_hosts_own_interface(
    fabric: dict[str, Any], hosts: list[str], interfaces: list[str]
) -> None:
    found = environments(fabric, hosts, transport="socket")
    assert [found[host]["NCCL_SOCKET_IFNAME"] for host in hosts] == interfaces
    assert all(variables["NCCL_NET"] == "Socket" and "NCCL_IB_HCA" not in variables for variables in found.values())


def test_one_host_needs_nothing() -> None:
    assert environments(PAIR, ["spark-1"]) == {"spark-1": {}}


@pytest.mark.parametrize(
    ("rule", "fabric", "hosts"),
    [
        ("fabric-group-unconnected", PAIR, ["spark-2", "spark-1"]),
        ("fabric-group-unconnected", LINK, ["spark-1", "spark-2"]),
        ("fabric-group-unconnected", {"prefix": 28, "cables": RING["cables"][:2]}, ["spark-1", "spark-2", "spark-3"]),
        ("fabric-group-link-local", PAIR | {"mode": "link-local"}, ["spark-2", "spark-3"]),
    ],
)
def test_a_group_that_can_not_be_is_refused(rule: str, fabric: dict[str, Any], hosts: list[str]) -> None:
    slices, _ = plan_fabric(fabric, HOSTS)
    environment, findings = group_environment(slices, hosts, Place(service="big", option="hosts"))
    assert environment == {}
    assert {finding.rule for finding in findings} == {rule}


def test_a_ring_needs_management_addresses() -> None:
    named = {name: Facts(f"{name}.example.net") for name in HOSTS}
    slices, _ = plan_fabric(RING, named)
    _, findings = group_environment(slices, ["spark-1", "spark-2", "spark-3"], Place(service="big", option="hosts"))
    assert {finding.rule for finding in findings} == {"fabric-group-management"}


# GIDs --------------------------------------------------------------------------------------------------------------

OTHER_LINK_LOCAL = "fe80:0000:0000:0000:fe4c:eaff:fef9:4232"
LINK_LOCAL, IPV4 = "fe80:0000:0000:0000:fe4c:eaff:fef9:4231", "0000:0000:0000:0000:0000:ffff:c0a8:640a"


def table(*gids: str) -> list[Gid]:
    """As mlx5 lists them: each GID as RoCE v1, then as v2."""
    kinds = [(gid, kind) for gid in gids for kind in ("IB/RoCE v1", "RoCE v2")]
    return [Gid(index, gid, kind, "enp1s0f1np1") for index, (gid, kind) in enumerate(kinds)]


@pytest.mark.parametrize(
    ("gids", "index"),
    [
        ((LINK_LOCAL, IPV4), 3),
        ((IPV4,), 1),
        ((LINK_LOCAL,), None),
        ((LINK_LOCAL, LINK_LOCAL[:-1] + "2", IPV4), 5),
        ((), None),
    ],
)
def test_the_index_is_that_of_the_rails_ipv4_as_roce_v2(gids: tuple[str, ...], index: int | None) -> None:
    assert index_of(table(*gids), "192.168.100.10") == index


def test_one_index_is_reported_and_different_ones_are_left_to_nccl() -> None:
    addresses = {"rocep1s0f1": "192.168.100.10", "roceP2p1s0f1": "192.168.101.10"}
    other = IPV4.replace("640a", "650a")
    same = {"rocep1s0f1": table(LINK_LOCAL, IPV4), "roceP2p1s0f1": table(LINK_LOCAL, other)}
    assert launch_environment(addresses, same) == ({"NCCL_IB_GID_INDEX": "3"}, "")
    assert launch_environment(addresses, same | {"roceP2p1s0f1": table(other)}) == ({}, "")
    environment, problem = launch_environment(addresses, {"rocep1s0f1": table(LINK_LOCAL, IPV4)})
    assert environment == {}
    assert "roceP2p1s0f1 has no RoCE v2 GID for 192.168.101.10" in problem


def test_the_table_is_read_as_sysfs_has_it(tmp_path: Path) -> None:
    port = tmp_path / "rocep1s0f1/ports/1"
    rows = [*((row.gid, row.kind, row.interface) for row in table(LINK_LOCAL, IPV4)), ("0000:" * 7 + "0000", "", "")]
    for name, column in (("gids", 0), ("gid_attrs/types", 1), ("gid_attrs/ndevs", 2)):
        (port / name).mkdir(parents=True)
        for index, row in enumerate(rows):
            (port / name / str(index)).write_text(row[column] + "\n")
    assert read_table("rocep1s0f1", tmp_path) == table(LINK_LOCAL, IPV4)
    assert read_table("roceP2p1s0f1", tmp_path) == []
