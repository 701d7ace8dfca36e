# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Which bandwidths are measured between whom, and what the figures mean.

Each cable is measured by both halves alone and then together, from its second end to its first; a switch from each port
to the one before. A measurement that can't be made is never taken for a good one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._fabric.hardware import DEGRADED_GBPS, SPEED_MBPS
from ansible_collections.gb10.fleet.plugins.module_utils._fabric.judge import where
from ansible_collections.gb10.fleet.plugins.module_utils._findings import Finding, error, warning

# perftest's own default; the following ports are ours while a measurement runs.
FIRST_PORT = 18515
# Counters also count headers: what was carried is at least the payload, but for the first and last messages.
_CARRIED = 0.9


def measurements(plans: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """For each host, listen and measure.

    listen: [{device, port, client}]. measure: [{name, segment, peer, rails: [{interface, device, server, port}]}].
    Only rails with planned addresses are measured; with link-local ones nothing is known to connect to.
    """
    plan: dict[str, dict[str, list[dict[str, Any]]]] = {host: {"listen": [], "measure": []} for host in plans}
    for host in sorted(plans):
        for pair in _pairs(host, plans[host]["interfaces"]):
            rails = [(one, peer) for one, peer in pair if peer["address"] and one["rdma_device"]]
            names = [f"half {one['half']}" for one, _ in rails]
            groups = [*zip(names, ([rail] for rail in rails), strict=True), ("both halves", rails)]
            for name, group in groups if len(rails) > 1 else []:
                server = group[0][1]["host"]
                listen = plan[server]["listen"]
                targets = []
                for one, peer in group:
                    port = FIRST_PORT + len(listen)
                    listen.append({"device": peer["rdma_device"], "port": port, "client": host})
                    targets.append(
                        {
                            "interface": one["name"],
                            "device": one["rdma_device"],
                            "server": peer["address"],
                            "port": port,
                        }
                    )
                plan[host]["measure"].append(
                    {"name": name, "segment": group[0][0]["segment"], "peer": server, "rails": targets}
                )
    return plan


def _pairs(
    host: str, interfaces: Iterable[Mapping[str, Any]]
) -> Iterator[list[tuple[Mapping[str, Any], Mapping[str, Any]]]]:
    """For each of a host's ports, its halves with the peer that they are measured against: the one before, by name."""
    ports: dict[Any, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
    for one in interfaces:
        before = [peer for peer in one["peers"] if peer["host"] < host]
        if one["kind"] != "link" and before:
            peer = max(before, key=lambda candidate: (candidate["host"], candidate["interface"]))
            ports.setdefault(one["port"], []).append((one, peer))
    yield from ports.values()


def judge_bandwidth(host: str, gates: Mapping[str, float], result: Mapping[str, Any]) -> list[Finding]:
    """The findings of one host's measurements.

    result: {possible, message, virtualization, speeds: {interface: Mb/s}, measured: [...], left_out: [peer]}; each of
    measured as in `measurements`, its rails with gbps (None: no result), message, payload_bytes and counted_bytes
    (None: not counted).
    """
    if not result["possible"]:
        return [_not_possible(host, result)]
    findings = [finding for one in result["measured"] for finding in _judge_one(host, gates, one, result["speeds"])]
    return findings + [_not_in_the_run(host, peer) for peer in result["left_out"]]


def _not_in_the_run(host: str, peer: str) -> Finding:
    return warning(
        "fabric-bandwidth-partner",
        f"{host}: ib_write_bw",
        found=f"not measured with {peer}",
        expected="a figure",
        remedy=f"run again with -l {host},{peer}, or without a limit",
        reason=f"{peer} is not in this run, or failed before",
        kind="fabric",
    )


def _not_possible(host: str, result: Mapping[str, Any]) -> Finding:
    """An error on a machine of its own; where there can be no RDMA, a warning that nothing was proven."""
    simulated = result["virtualization"] not in ("none", "unknown")
    remedy = "prove it on the real machine" if simulated else "install the driver: `modprobe mlx5_ib`, `ibv_devices`"
    return Finding(
        rule="fabric-rdma-unproven",
        kind="fabric",
        severity="warning" if simulated else "error",
        place=f"{host}: ib_write_bw",
        found=f"not possible here: {result['message']}",
        expected="RDMA, measured",
        remedy=remedy,
        reason="that RDMA carries the traffic, and how much, is not known",
    )


def _judge_one(
    host: str, gates: Mapping[str, float], one: Mapping[str, Any], speeds: Mapping[str, int | None]
) -> Iterator[Finding]:
    rails: Sequence[Mapping[str, Any]] = one["rails"]
    place = where(host, rails[0]["interface"]) if len(rails) == 1 else f"{host}: {one['segment']}, {one['name']}"
    failed = [rail for rail in rails if rail["gbps"] is None]
    if failed:
        message = "; ".join(f"{rail['device']}: {rail['message']}" for rail in failed)
        remedy = f"`show_gids` on {host} and {one['peer']}; a firewall must let the fabric's addresses through"
        found = f"ib_write_bw to {one['peer']} failed: {message}"
        yield error("fabric-bandwidth-failed", place, found=found, expected="a result", remedy=remedy, kind="fabric")
        return
    yield from _not_by_rdma(place, rails)
    total = sum(rail["gbps"] for rail in rails)
    gate = gates["rail_gbps"] if len(rails) == 1 else gates["port_gbps"]
    if total >= gate:
        return
    low, high = DEGRADED_GBPS
    degraded = all(low <= rail["gbps"] <= high and speeds.get(rail["interface"]) == SPEED_MBPS for rail in rails)
    found, expected = f"{total:.1f} Gb/s to {one['peer']}", f"at least {gate:g} Gb/s"
    if degraded:
        remedy = "switch both machines off, take their power plugs out for a minute, then start them with the cable in"
        reason = "the ConnectX-7 came up degraded: the link's speed does not show it"
        found += f", while the link says {SPEED_MBPS} Mb/s"
        yield error(
            "fabric-degraded",
            place,
            found=found,
            expected=expected,
            remedy=remedy,
            reason=reason,
            source="dgx-spark-playbooks pull request 108",
            kind="fabric",
        )
    else:
        remedy = "see that both halves have addresses of their own subnets and MTU 9000, and that nothing else runs"
        yield error(
            "fabric-bandwidth",
            place,
            found=found,
            expected=expected,
            remedy=remedy,
            source="NVIDIA playbook: its gate",
            kind="fabric",
        )


def _not_by_rdma(place: str, rails: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """The device's own counters prove that it, and not TCP, carried the data."""
    for rail in rails:
        counted = rail["counted_bytes"]
        if counted is not None and counted < _CARRIED * rail["payload_bytes"]:
            found = f"{rail['device']} counted {counted} bytes of {rail['payload_bytes']}"
            remedy = "look which device carried it: /sys/class/infiniband/*/ports/1/counters/port_xmit_data"
            yield error(
                "fabric-not-rdma",
                place,
                found=found,
                expected="all of them",
                remedy=remedy,
                source="cluster owner's notes, Verify RoCE",
                kind="fabric",
            )
