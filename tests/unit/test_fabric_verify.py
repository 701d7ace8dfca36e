# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan against readings: a healthy pair, and each fault by its name and place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import Finding
from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.hosts import cable_ends
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric import reading as arp
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.bandwidth import judge_bandwidth
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.hardware import where
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.hotplug import parse_measured
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.judge import judge as judge_all
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.judge import summary
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.plan import plan_fabric


@dataclass(frozen=True)
class Facts:
    address: str


HOSTS = {name: Facts(f"10.77.0.{number}") for number, name in enumerate(("spark-2", "spark-3", "titan"), 12)}
PLANS, _ = plan_fabric({"cables": [["spark-2:1", "spark-3:1"]]}, HOSTS)
GATES = {"rail_gbps": 87.5, "port_gbps": 175}
ADAPTER: dict[str, Any] = {
    "marker": False,
    "enabled": False,
    "state": None,
    "plugged_s": None,
    "measured": {},
    "unproven": [],
}
Readings = dict[str, dict[str, Any]]


def mac(host: str, half: int) -> str:
    return f"02:c7:00:01:0{half}:0{host[-1]}"


def mapped(address: str) -> str:
    plain = [int(part) for part in address.partition("/")[0].split(".")]
    return "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x" % tuple(plain)  # noqa: UP031


def reading(host: str) -> dict[str, Any]:
    """A host on which all is as planned."""
    result: dict[str, Any] = {"links": {}, "asked": {}, "rdma": {}, "adapter": dict(ADAPTER)}
    for one in PLANS[host]["interfaces"]:
        (peer,) = one["peers"]
        result["links"][one["name"]] = {
            "mac": mac(host, one["half"]), "mtu": 9000, "up": True, "carrier": True, "speed_mbps": 200000,
            "addresses": [one["address"]], "pcie_width": 4, "pcie_width_max": 4,
        }  # fmt: skip
        result["asked"][one["name"]] = {
            "answers": {peer["address"]: mac(peer["host"], one["half"])},
            "pings": {peer["address"]: ""},
        }
        gids = [{"index": 3, "gid": mapped(one["address"]), "type": "RoCE v2"}]
        result["rdma"][one["rdma_device"]] = {
            "state": "ACTIVE", "link_layer": "Ethernet", "rate": "200 Gb/sec (4X HDR)", "gids": gids,
            "bytes": {"xmit": 0, "rcv": 0},
        }  # fmt: skip
    return result


def judge(host: str, plan: dict[str, Any], both: Readings, *rest: Any, **options: Any) -> list[Finding]:
    """What is found by all readings, and the same by what one host's check is given of them."""
    found = judge_all(host, plan, both, *rest, **options)
    others = {f"spark-{number}": {"reading": reading("spark-3") | {"links": {}}} for number in range(10, 20)}
    given = cable_ends({name: {"reading": one} for name, one in both.items()} | others, host, plan["interfaces"])
    assert len(given) <= len(both)
    assert judge_all(host, plan, {name: one["reading"] for name, one in given.items()}, *rest, **options) == found
    return found


def readings(change: Callable[[Readings], None] | None = None) -> Readings:
    both = {host: reading(host) for host in ("spark-2", "spark-3")}
    if change:
        change(both)
    return both


FIRST, SECOND = "enp1s0f1np1", "enP2p1s0f1np1"


def test_a_healthy_pair_is_silent_and_ok() -> None:
    both = readings()
    assert [finding for host in both for finding in judge(host, PLANS[host], both)] == []
    assert set(summary(PLANS["spark-3"], [], measured(106.7)).values()) == {"ok"}


SOCKET, _ = plan_fabric({"cables": [["spark-2:1", "spark-3:1"]], "transport": "socket"}, HOSTS)
LINK_LOCAL, _ = plan_fabric({"cables": [["spark-2:1", "spark-3:1"]], "mode": "link-local"}, HOSTS)


@pytest.mark.parametrize(
    ("plan", "result", "rdma", "bandwidth"),
    [
        (PLANS["spark-3"], None, "ok", "not measured"),
        (LINK_LOCAL["spark-2"], {"possible": True, "measured": [], "left_out": []}, "ok", "not measured"),
        (SOCKET["spark-2"], None, "not used", "not used"),
    ],
)
def test_what_was_not_measured_is_not_called_ok(plan: Any, result: Any, rdma: str, bandwidth: str) -> None:
    table = summary(plan, [], result)
    assert (table["rdma"], table["bandwidth"]) == (rdma, bandwidth)


def test_without_rdma_a_socket_fabric_is_fine() -> None:
    both = readings(gone("spark-2", "rdma", "rocep1s0f1"))
    assert judge("spark-2", SOCKET["spark-2"], both) == []


def at(host: str, part: str, name: str, **values: Any) -> Callable[[Readings], None]:
    def change(both: Readings) -> None:
        both[host][part][name].update(values)

    return change


def gone(host: str, part: str, name: str) -> Callable[[Readings], None]:
    def change(both: Readings) -> None:
        del both[host][part][name]

    return change


def pulled(both: Readings) -> None:
    for host in both:
        for name in (FIRST, SECOND):
            both[host]["links"][name]["carrier"] = False
            del both[host]["asked"][name]


def swapped(both: Readings) -> None:
    """spark-2's port 1 leads to titan's port 0."""
    both["titan"] = copy.deepcopy(both["spark-3"])
    both["titan"]["links"] = {
        "enp1s0f0np0": both["titan"]["links"][FIRST] | {"mac": "02:c7:00:00:00:0n"},
        "enP2p1s0f0np0": both["titan"]["links"][SECOND] | {"mac": "02:c7:00:00:01:0n"},
    }
    for half, name in enumerate((FIRST, SECOND)):
        both["spark-2"]["asked"][name]["answers"] = {f"192.168.10{half + 2}.11": f"02:c7:00:00:0{half}:0n"}


def moved(both: Readings) -> None:
    """The far end of the cable is in a port that no plan names."""
    both["spark-3"]["links"]["enp1s0f0np0"] = {**both["spark-3"]["links"][FIRST], "mac": "02:c7:00:00:00:77"}
    both["spark-2"]["asked"][FIRST]["answers"] = {"192.168.100.11": "02:c7:00:00:00:77"}


def swapped_and_received_by_all(both: Readings) -> None:
    swapped(both)
    both["spark-2"]["asked"][SECOND] = readings()["spark-2"]["asked"][SECOND]
    both["spark-2"]["asked"][FIRST]["answers"] = {
        "192.168.101.10": mac("spark-2", 1),
        "192.168.102.11": "02:c7:00:00:00:0n", "192.168.103.11": "02:c7:00:00:01:0n",
    }  # fmt: skip


def one_half_gone(both: Readings) -> None:
    asked = both["spark-2"]["asked"][FIRST]
    asked |= {"answers": {"192.168.101.11": mac("spark-3", 1)}, "pings": {"192.168.100.11": "100% packet loss"}}


def test_either_half_may_answer_for_both_where_packets_arrive() -> None:
    """As of a network that others keep: without arp_ignore the answer that arrives last may be the twin's."""
    both = readings(at("spark-2", "asked", FIRST, answers={"192.168.100.11": mac("spark-3", 1)}))
    assert judge("spark-2", PLANS["spark-2"], both) == []


def test_a_half_of_smaller_packets_that_may_answer_is_a_warning_where_others_keep_the_network() -> None:
    by_hand = {"spark-2:1": ["10.1.0.1/30"], "spark-3:1": ["10.1.0.2/30"]}
    plans, _ = plan_fabric({"keeper": "others", "cables": [{"addresses": by_hand}]}, HOSTS)
    both = readings(at("spark-2", "links", SECOND, mtu=1500))
    found = [one for one in judge("spark-2", plans["spark-2"], both) if one.rule == "fabric-mtu-halves"]
    assert [(one.severity, one.found) for one in found] == [
        ("warning", "MTU 9000, and 1500 on the other half of its port, which may answer ARP for it")
    ]
    both["spark-2"]["links"][SECOND]["mtu"] = 9000
    assert "fabric-mtu-halves" not in {one.rule for one in judge("spark-2", plans["spark-2"], both)}


PEER_1 = "spark-3: port 1 half 0 (enp1s0f1np1)"
FAULTS: list[tuple[str, Callable[[Readings], None], int, str, str]] = [
    # rule, what is changed, on how many halves of spark-2, what is found and expected on the first
    ("fabric-no-interface", gone("spark-2", "links", FIRST), 1, "there is no such interface", ""),
    ("fabric-link-down", at("spark-2", "links", FIRST, up=False, carrier=False), 1, "switched off", "up"),
    ("fabric-no-carrier", pulled, 2, "no carrier", f"a cable to {PEER_1}"),
    ("fabric-half-dead", at("spark-2", "links", FIRST, carrier=False), 1, "no carrier, while", PEER_1),
    ("fabric-link-speed", at("spark-2", "links", FIRST, speed_mbps=100000), 1, "100000 Mb/s", "200000 Mb/s"),
    ("fabric-link-speed", at("spark-2", "links", FIRST, speed_mbps=1000), 1, "1000 Mb/s", "200000 Mb/s"),
    ("fabric-link-speed", at("spark-2", "links", FIRST, speed_mbps=None), 1, "not report its speed", "200000 Mb/s"),
    ("fabric-mtu", at("spark-2", "links", FIRST, mtu=1500), 1, "MTU 1500", "MTU 9000"),
    ("fabric-address", at("spark-2", "links", FIRST, addresses=["192.168.100.10/24", "10.0.0.1/8"]), 1,
     "192.168.100.10/24, 10.0.0.1/8", "192.168.100.10/24"),
    ("fabric-pcie-narrow", at("spark-2", "links", SECOND, pcie_width=2), 1, "PCIe x2", "x4"),
    ("fabric-wrong-peer", swapped, 2, "connected to titan: port 0 half 0 (enp1s0f0np0)", PEER_1),
    ("fabric-wrong-peer", at("spark-2", "asked", FIRST, answers={"192.168.100.11": "02:00:00:00:00:99"}), 1,
     "an unknown machine (02:00:00:00:00:99)", PEER_1),
    # all that is behind one switch in the adapter hears what a half sends: its own twin, and both halves at the far end
    ("fabric-no-peer", one_half_gone, 1, "it does not answer, others do: the other half of its port", PEER_1),
    ("fabric-no-peer", at("spark-2", "asked", FIRST, answers={"192.168.101.10": mac("spark-2", 1)}), 1,
     "a carrier, but nobody answers", PEER_1),
    ("fabric-wrong-peer", swapped_and_received_by_all, 1, "connected to titan: port 0 half 0 (enp1s0f0np0)", PEER_1),
    ("fabric-wrong-peer", moved, 1, "connected to spark-3: port 0 half 0", PEER_1),
    ("fabric-no-peer", at("spark-2", "asked", FIRST, answers={}), 1, "a carrier, but nobody answers", PEER_1),
    ("fabric-frames", at("spark-2", "asked", FIRST, pings={"192.168.100.11": "100% packet loss"}), 1,
     "packets of 9000 bytes to spark-3 (192.168.100.11) do not come back: 100% packet loss", "whole packets"),
    ("fabric-no-rdma-device", gone("spark-2", "rdma", "rocep1s0f1"), 1, "no RDMA device rocep1s0f1", "rocep1s0f1"),
    ("fabric-rdma-state", at("spark-2", "rdma", "rocep1s0f1", state="DOWN"), 1, "rocep1s0f1 is DOWN", "ACTIVE"),
    ("fabric-link-layer", at("spark-2", "rdma", "rocep1s0f1", link_layer="InfiniBand"), 1, "InfiniBand", "Ethernet"),
    ("fabric-no-gid", at("spark-2", "rdma", "rocep1s0f1", gids=[]), 1, "no RoCE v2 GID for 192.168.100.10", "one"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "change", "halves", "found", "expected"), FAULTS, ids=[row[0] for row in FAULTS])
def test_a_fault_is_named(
    rule: str, change: Callable[[Readings], None], halves: int, found: str, expected: str
) -> None:
    findings = judge("spark-2", PLANS["spark-2"], readings(change))
    assert [finding.rule for finding in findings] == [rule] * halves
    assert findings[0].at in (where("spark-2", FIRST), where("spark-2", SECOND))
    assert found in findings[0].found
    assert expected in findings[0].expected
    assert findings[0].remedy


@pytest.mark.parametrize(
    ("declared", "read", "severity"),
    [
        ({}, 200000, None),
        ({}, 100000, "warning"),
        ({}, 50000, "warning"),
        ({}, 1000, "error"),
        ({"spark-2:1": 100}, 100000, None),
        ({"spark-3:1": 100}, 100000, None),
        ({"spark-2:1": 100}, 200000, "error"),
        ({"spark-2:1": 200}, 100000, "error"),
    ],
)
def test_a_slower_link_is_the_owner_s_choice_once_declared(
    declared: dict[str, int], read: int, severity: str | None
) -> None:
    plans, problems = plan_fabric({"cables": [["spark-2:1", "spark-3:1"]], "speeds": declared}, HOSTS)
    assert problems == []
    both = readings(at("spark-2", "links", FIRST, speed_mbps=read))
    for name in (FIRST, SECOND):
        both["spark-2"]["links"][name]["speed_mbps"] = read
    found = judge("spark-2", plans["spark-2"], both)
    assert {(finding.rule, finding.severity) for finding in found} == (
        {("fabric-link-speed", severity)} if severity else set()
    )
    if severity == "warning":
        assert f"write speeds: {{spark-2:1: {read // 1000}}}" in found[0].remedy


def test_a_peer_outside_of_the_run_is_known_by_its_address() -> None:
    alone = {"spark-2": reading("spark-2")}
    assert judge("spark-2", PLANS["spark-2"], alone, {"spark-3"}) == []


@pytest.mark.parametrize(
    ("change", "rule", "subject"),
    [
        (at("spark-2", "links", FIRST, carrier=False), "fabric-half-dead", "links"),
        (at("spark-2", "asked", FIRST, answers={}), "fabric-no-peer", "neighbours"),
        (at("spark-2", "asked", FIRST, pings={"192.168.100.11": "100% packet loss"}), "fabric-frames", "frames"),
    ],
)
def test_what_a_host_outside_of_the_run_may_be_the_reason_of_is_not_proven(
    change: Callable[[Readings], None], rule: str, subject: str
) -> None:
    """spark-3 may never have been converged; when it is part of the run, the same is an error."""
    both = readings(change)
    (finding,) = judge("spark-2", PLANS["spark-2"], {"spark-2": both["spark-2"]}, {"spark-3"})
    assert (finding.rule, finding.severity) == (rule, "warning")
    assert "-l spark-2,spark-3" in finding.remedy
    assert summary(PLANS["spark-2"], [finding], None)[subject] == "not proven"
    (finding,) = judge("spark-2", PLANS["spark-2"], {"spark-2": both["spark-2"]})
    assert finding.severity == "error"


def test_a_dark_port_of_a_switch_is_its_own_fault() -> None:
    switch = {"switches": {"qsfp": {"ports": {"spark-2:1": 10, "spark-3:1": 11}}}}
    plans, _ = plan_fabric(switch, HOSTS)
    dark = readings(pulled)
    findings = judge("spark-2", plans["spark-2"], {"spark-2": dark["spark-2"]}, {"spark-3"})
    assert {(finding.rule, finding.severity) for finding in findings} == {("fabric-no-carrier", "error")}


# Bandwidth ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sender", "server", "addresses"), [
    ("spark-3", "spark-2", ["192.168.100.10", "192.168.101.10"]),
    ("spark-2", "spark-3", ["192.168.100.11", "192.168.101.11"]),
])  # fmt: skip
def test_each_end_sends_by_each_half_alone_and_by_both_together(sender: str, server: str, addresses: list[str]) -> None:
    """ib_write_bw's client sends, and a degraded adapter is slow in sending alone: one way proves one host."""
    plan = PLANS[sender]["bandwidth"]
    assert [(one["name"], one["peer"], [rail["server"] for rail in one["rails"]]) for one in plan["measure"]] == [
        ("half 0", server, addresses[:1]),
        ("half 1", server, addresses[1:]),
        ("both halves", server, addresses),
    ]
    servers = PLANS[server]["bandwidth"]["listen"]
    assert {one["client"] for one in servers} == {sender}
    listening = [(one["device"], one["port"]) for one in servers]
    asked = [
        (rail["device"], rail["port"]) for one in plan["measure"] for rail in one["rails"]
    ]  # the same port on both ends, so the devices' names are the same
    assert listening == asked
    assert len({port for _, port in listening}) == 4
    assert PLANS["titan"]["bandwidth"] == {"listen": [], "measure": []}


def test_each_port_of_a_switch_sends_and_receives() -> None:
    switch = {"switches": {"qsfp": {"ports": {"spark-2:0": 1, "spark-3:0": 2, "titan:0": 3}}}}
    plans, _ = plan_fabric(switch, HOSTS)
    pairs = {(host, one["peer"]) for host, part in plans.items() for one in part["bandwidth"]["measure"]}
    assert pairs == {("spark-2", "spark-3"), ("spark-3", "spark-2"), ("spark-3", "titan"), ("titan", "spark-3")}


def test_both_ports_of_two_hosts_on_one_switch_are_measured_each() -> None:
    ends = {"spark-2:0": 1, "spark-2:1": 2, "spark-3:0": 3, "spark-3:1": 4}
    plans, _ = plan_fabric({"switches": {"qsfp": {"ports": ends}}}, HOSTS)
    for host in ("spark-2", "spark-3"):
        sent = {rail["interface"] for one in plans[host]["bandwidth"]["measure"] for rail in one["rails"]}
        assert sent == {one["name"] for one in plans[host]["interfaces"]}


def measured(*gbps: float | None, counted: float | None = 1.02, message: str = "") -> dict[str, Any]:
    names = [("rocep1s0f1", FIRST), ("roceP2p1s0f1", SECOND)]
    rails = [
        {
            "interface": interface, "device": device, "server": "192.168.100.10", "port": 18515, "gbps": rate,
            "message": message, "payload_bytes": 10**10,
            "counted_bytes": None if counted is None else int(counted * 10**10),
        }
        for (device, interface), rate in zip(names, gbps, strict=False)
    ]  # fmt: skip
    name = "half 0" if len(gbps) == 1 else "both halves"
    one = {"name": name, "segment": "spark-2:1--spark-3:1", "peer": "spark-2", "rails": rails}
    speeds = dict.fromkeys((FIRST, SECOND), 200000)
    return {"possible": True, "message": "", "virtualization": "none", "speeds": speeds, "iommu": {}, "measured": [one],
            "left_out": []}  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "result"),
    [
        ([], measured(106.7)),
        ([], measured(106.7, 105.9)),
        ([], measured(106.7, counted=None)),
        (["fabric-bandwidth"], measured(80.0)),
        (["fabric-bandwidth"], measured(106.7, 60.0)),
        (["fabric-bandwidth"], measured(87.4, 87.4)),
        (["fabric-degraded"], measured(13.23)),
        (["fabric-degraded"], measured(12.9, 13.1)),
        (["fabric-bandwidth"], measured(4.0)),
        (["fabric-not-rdma"], measured(106.7, counted=0.0)),
        (["fabric-not-rdma", "fabric-degraded"], measured(12.9, counted=0.1)),
        (["fabric-bandwidth-failed"], measured(None, message="Unable to find the Infiniband/RoCE device")),
    ],
)
def test_figures_are_judged(rules: list[str], result: dict[str, Any]) -> None:
    findings = judge_bandwidth("spark-3", GATES, result)
    assert [finding.rule for finding in findings] == rules
    assert all(finding.severity == "error" and finding.place.startswith("spark-3: ") for finding in findings)


def test_what_was_not_measured_for_a_limit_is_reported() -> None:
    result = measured(106.7) | {"measured": [], "left_out": ["spark-3"]}
    (finding,) = judge_bandwidth("spark-2", GATES, result)
    assert (finding.rule, finding.severity) == ("fabric-bandwidth-partner", "warning")
    assert "-l spark-2,spark-3" in finding.remedy
    assert summary(PLANS["spark-2"], [finding], result)["bandwidth"] == "not proven"


def test_the_known_fault_gives_both_figures() -> None:
    (finding,) = judge_bandwidth("spark-3", GATES, measured(13.0))
    assert finding.found == "it sends 13.0 Gb/s to spark-2, while the link says 200000 Mb/s"
    assert finding.remedy.startswith("switch spark-3 off, take its power plug out")
    (finding,) = judge_bandwidth("spark-3", GATES, measured(13.0) | {"iommu": {FIRST: "DMA-FQ", "eth0": "identity"}})
    assert finding.reason.endswith("its IOMMU group is of type DMA-FQ")
    slow = measured(13.0)
    slow["speeds"][FIRST] = 40000
    assert [finding.rule for finding in judge_bandwidth("spark-3", GATES, slow)] == ["fabric-bandwidth"]


@pytest.mark.parametrize(
    ("speed", "figures", "rules"),
    [
        (100000, (92.0,), []),
        (100000, (46.0, 46.0), []),
        (100000, (40.0, 40.0), ["fabric-bandwidth"]),
        (100000, (13.2,), ["fabric-degraded"]),
        (50000, (44.0,), []),
        (50000, (43.0,), ["fabric-bandwidth"]),
        (25000, (22.0,), []),
        (200000, (92.0, 82.0), ["fabric-bandwidth"]),
    ],
)
def test_a_slower_link_is_measured_by_its_own_speed(speed: int, figures: tuple[float, ...], rules: list[str]) -> None:
    result = measured(*figures) | {"speeds": dict.fromkeys((FIRST, SECOND), speed)}
    assert [finding.rule for finding in judge_bandwidth("spark-3", GATES, result)] == rules


# Hot-plug ----------------------------------------------------------------------------------------------------------

ROW = {"gbps": 98.0, "peer": "spark-3", "speed_mbps": 200000, "at_s": 900.0}
BOTH_MEASURED = {FIRST: ROW, SECOND: ROW}


@pytest.mark.parametrize(
    ("adapter", "declared", "rules"),
    [
        ({}, "keep", []),
        ({"state": "1"}, "keep", []),
        ({"marker": True, "state": "1"}, "keep", ["fabric-hotplug"]),
        ({"marker": True, "state": "1"}, "off", ["fabric-hotplug-on"]),
        ({"state": "1"}, "off", []),
        ({"enabled": True, "state": "1"}, "off", ["fabric-hotplug-restart"]),
        ({"marker": True, "enabled": True, "state": "1"}, "off", ["fabric-hotplug-on"]),
        ({"plugged_s": 600.0}, "off", ["fabric-replugged"]),
        ({"plugged_s": 600.0, "measured": {FIRST: ROW}}, "off", ["fabric-replugged"]),
        ({"plugged_s": 600.0, "measured": BOTH_MEASURED}, "off", []),
        ({"plugged_s": 901.0, "measured": BOTH_MEASURED}, "off", ["fabric-replugged"]),
        ({"measured": {FIRST: ROW | {"gbps": 13.2}, SECOND: ROW}}, "off", ["fabric-degraded"]),
        ({"measured": {FIRST: ROW | {"gbps": 60.0}, SECOND: ROW}}, "off", ["fabric-bandwidth"]),
        ({"measured": {FIRST: ROW | {"gbps": 44.0, "speed_mbps": 50000}, SECOND: ROW}}, "off", []),
    ],
)
def test_a_plugged_link_is_not_proven_until_it_is_measured(
    adapter: dict[str, Any], declared: str, rules: list[str]
) -> None:
    plans, _ = plan_fabric({"cables": [["spark-2:1", "spark-3:1"]], "hotplug": declared}, HOSTS)
    both = readings()
    both["spark-2"]["adapter"] |= adapter
    findings = judge("spark-2", plans["spark-2"], both)
    assert [finding.rule for finding in findings] == rules
    found = summary(plans["spark-2"], findings, None)["bandwidth"]
    assert found == {"fabric-replugged": "not proven", "fabric-degraded": "failed", "fabric-bandwidth": "failed"}.get(
        "".join(rules), "not measured"
    )
    again = judge("spark-2", plans["spark-2"], both, measured=True)
    assert [finding.rule for finding in again] == [rule for rule in rules if rule.startswith("fabric-hotplug")]
    assert not any("rescan" in finding.remedy and "never rescan" not in finding.remedy for finding in findings)


@pytest.mark.parametrize(
    ("adapter", "words"),
    [
        ({}, "lspci"),
        ({"marker": True, "state": "0"}, "push the plug in at both ends until it clicks"),
        ({"marker": True}, "push the plug in at both ends until it clicks"),
        ({"state": "0"}, "never rescan the PCI bus"),
        ({"state": "0"}, "restart the machines at both ends at the same time"),
        ({"marker": True, "state": "1"}, "lspci"),
    ],
)
def test_an_adapter_that_hot_plug_took_away_is_named_as_that(adapter: dict[str, Any], words: str) -> None:
    both = readings(gone("spark-2", "links", FIRST))
    both["spark-2"]["adapter"] |= adapter
    found = [one for one in judge("spark-2", PLANS["spark-2"], both) if one.rule == "fabric-no-interface"]
    assert words in found[0].remedy


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("", {}),
        ("{", {}),
        ("[]", {}),
        ("null", {}),
        ('{"a": 1, "b": {"gbps": 1}, "c": null}', {}),
        ('{"a": {"gbps": 1.5, "peer": "x", "speed_mbps": 200000, "at_s": 3}, "b": {}}',
         {"a": {"gbps": 1.5, "peer": "x", "speed_mbps": 200000, "at_s": 3}}),
    ],
)  # fmt: skip
def test_a_damaged_record_of_measurements_holds_nothing(text: str, known: dict[str, Any]) -> None:
    assert parse_measured(text) == known


@pytest.mark.parametrize(("virtualization", "severity"), [("container-other", "warning"), ("none", "error")])
def test_what_can_not_be_measured_is_never_ok(virtualization: str, severity: str) -> None:
    message = "Failed to get IB devices list: Function not implemented"
    result = {"possible": False, "message": message, "virtualization": virtualization}
    (finding,) = judge_bandwidth("spark-3", GATES, result)
    assert (finding.rule, finding.severity) == ("fabric-rdma-unproven", severity)
    assert finding.found == f"not possible here: {message}"
    assert summary(PLANS["spark-3"], [finding], result)["bandwidth"] == "not possible here"


# ARP ---------------------------------------------------------------------------------------------------------------


def test_the_question_is_a_probe() -> None:
    frame = arp.request("02:c7:00:01:00:00", "192.168.100.11")
    assert frame.hex() == (
        "ffffffffffff" "02c700010000" "0806" "0001" "0800" "06" "04" "0001"
        "02c700010000" "00000000" "000000000000" "c0a8640b"
    )  # fmt: skip
    assert arp.reply(frame) is None


def test_the_answer_is_read() -> None:
    answer = bytes.fromhex(
        "02c700010000" "02c700010001" "0806" "0001" "0800" "06" "04" "0002"
        "02c700010001" "c0a8640b" "02c700010000" "00000000" "000000000000"
    )  # fmt: skip
    assert arp.reply(answer) == ("192.168.100.11", "02:c7:00:01:00:01")
    assert arp.reply(answer[:30]) is None
    assert arp.reply(answer[:12] + b"\x08\x00" + answer[14:]) is None


def test_a_check_of_cables_knows_who_answered_and_who_is_declared() -> None:
    links = {"a": "02:aa", "declared": "02:bb", "answers": "02:cc", "stranger": "02:dd"}
    results = {
        name: {"reading": {"links": {"enp1s0f0np0": {"mac": mac}}, "asked": {}}} for name, mac in links.items()
    } | {"off": {}}
    results["a"]["reading"]["asked"] = {"enp1s0f0np0": {"answers": {"10.0.0.9": "02:cc"}}}
    ends = cable_ends(results, "a", [{"peers": [{"host": "declared"}]}])
    assert {*ends} == {"a", "declared", "answers"}
    assert cable_ends(results, "off", []) == {}
