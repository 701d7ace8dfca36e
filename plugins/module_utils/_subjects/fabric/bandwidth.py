# SPDX-License-Identifier: GPL-3.0-or-later
"""Which bandwidths are measured between whom, and what the figures mean.

Each cable is measured by both halves alone and then together, from each of its ends: ib_write_bw's client sends, and a
ConnectX-7 that came up degraded is slow in sending alone (six owners' machines, September 2026). On a switch each port
is measured with the one before and the one after. A measurement that can't be made is never taken for a good one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..._base.findings import Finding, fabric_error, fabric_warning
from ..._base.place import Place
from ..._base.slice import Bandwidth, FabricSlice, Gates, Interface, Peer, Rail
from .hardware import DEGRADED_GBPS, HALF_MBPS, SPEED_MBPS, where

# perftest's own default; the following ports are ours while a measurement runs.
FIRST_PORT = 18515
# Counters also count headers: what was carried is at least the payload, but for the first and last messages.
_CARRIED = 0.9
POWER_DRAIN_SOURCE = "dgx-spark-playbooks pull request 108; owners' measurements of September 2026"


def measurements(plans: Mapping[str, FabricSlice]) -> dict[str, Bandwidth]:
    """For each host, listen and measure.

    listen: [{device, port, client}]. measure: [{name, segment, peer, rails: [{interface, device, server, port}]}].
    Only rails with planned addresses are measured; with link-local ones nothing is known to connect to.
    """
    plan: dict[str, Bandwidth] = {host: {"listen": [], "measure": []} for host in plans}
    for host in sorted(plans):
        for pair in _pairs(host, plans[host]["interfaces"]):
            rails = [(one, peer) for one, peer in pair if peer["address"] and one["rdma_device"]]
            names = [f"half {one['half']}" for one, _ in rails]
            groups = [*zip(names, ([rail] for rail in rails), strict=True), ("both halves", rails)]
            for name, group in groups if len(rails) > 1 else []:
                server = group[0][1]["host"]
                listen = plan[server]["listen"]
                targets: list[Rail] = []
                for one, peer in group:
                    port = FIRST_PORT + len(listen)
                    listen.append({"device": peer["rdma_device"] or "", "port": port, "client": host})
                    targets.append(
                        {
                            "interface": one["name"],
                            "device": one["rdma_device"] or "",
                            "server": peer["address"] or "",
                            "port": port,
                        }
                    )
                plan[host]["measure"].append(
                    {"name": name, "segment": group[0][0]["segment"], "peer": server, "rails": targets}
                )
    return plan


def _pairs(host: str, interfaces: Iterable[Interface]) -> Iterator[list[tuple[Interface, Peer]]]:
    """For each of a host's ports, its halves with the peers that they are measured against: the next ones, by name."""
    ports: dict[tuple[int | None, str, int | None], list[tuple[Interface, Peer]]] = {}
    for interface in (interface for interface in interfaces if interface["kind"] != "link"):
        ends = sorted((peer["host"], peer["interface"]) for peer in interface["peers"])
        before = [end for end in ends if end < (host, interface["name"])][-1:]
        after = [end for end in ends if end > (host, interface["name"])][:1]
        for peer in interface["peers"]:
            if (peer["host"], peer["interface"]) in before + after:
                ports.setdefault((interface["port"], peer["host"], peer["port"]), []).append((interface, peer))
    yield from ports.values()


def judge_bandwidth(host: str, gates: Gates, result: Mapping[str, Any]) -> list[Finding]:
    """The findings of one host's measurements.

    gates: for a port of 200 Gb/s; a slower one has to reach the same share of its speed.
    result: {possible, message, virtualization, speeds: {interface: Mb/s}, iommu: {interface: type of its IOMMU group},
    measured: [...], left_out: [peer]}. Each of measured is as in `measurements`, its rails with gbps (None: no result),
    message, payload_bytes and counted_bytes (None: not counted).
    """
    if not result["possible"]:
        return [_not_possible(host, result)]
    findings = [
        finding for measured_peer in result["measured"] for finding in _judge_one(host, gates, measured_peer, result)
    ]
    return findings + [_not_in_the_run(host, peer) for peer in result["left_out"]]


def _not_in_the_run(host: str, peer: str) -> Finding:
    return fabric_warning(
        "fabric-bandwidth-partner",
        Place(host=host, thing="ib_write_bw"),
        found=f"not measured with {peer}",
        expected="a figure",
        remedy=f"run again with -l {host},{peer}, or without a limit",
        reason=f"{peer} is not in this run, or failed before",
    )


def _not_possible(host: str, result: Mapping[str, object]) -> Finding:
    """An error on a machine of its own; where there can be no RDMA, a warning that nothing was proven."""
    simulated = result["virtualization"] not in ("none", "unknown")
    remedy = "prove it on the real machine" if simulated else "install the driver: `modprobe mlx5_ib`, `ibv_devices`"
    return Finding(
        rule="fabric-rdma-unproven",
        kind="fabric",
        severity="warning" if simulated else "error",
        at=Place(host=host, thing="ib_write_bw"),
        found=f"not possible here: {result['message']}",
        expected="RDMA, measured",
        remedy=remedy,
        reason="that RDMA carries the traffic, and how much, is not known",
    )


def _judge_one(host: str, gates: Gates, entry: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[Finding]:
    rails: Sequence[Mapping[str, Any]] = entry["rails"]
    place = (
        where(host, rails[0]["interface"])
        if len(rails) == 1
        else Place(host=host, thing=f"{entry['segment']}, {entry['name']}")
    )
    failed = [rail for rail in rails if rail["gbps"] is None]
    if failed:
        message = "; ".join(f"{rail['device']}: {rail['message']}" for rail in failed)
        remedy = f"`show_gids` on {host} and {entry['peer']}; a firewall must let the fabric's addresses through"
        found = f"ib_write_bw to {entry['peer']} failed: {message}"
        yield fabric_error("fabric-bandwidth-failed", place, found=found, expected="a result", remedy=remedy)
        return
    yield from _not_by_rdma(place, rails)
    total = sum(rail["gbps"] for rail in rails)
    speeds = [result["speeds"].get(rail["interface"]) or SPEED_MBPS for rail in rails]
    wanted = gate(gates, len(rails), min(speeds))
    if total >= wanted:
        return
    low, high = DEGRADED_GBPS
    degraded = all(
        low <= rail["gbps"] <= high and speed >= 2000 * high for rail, speed in zip(rails, speeds, strict=True)
    )
    found, expected = f"it sends {total:.1f} Gb/s to {entry['peer']}", f"at least {wanted:g} Gb/s"
    iommu = sorted({kind for rail in rails if (kind := result["iommu"].get(rail["interface"]))})
    aside = f"its IOMMU group is of type {', '.join(iommu)}" if iommu else ""
    if degraded:
        found += f", while the link says {min(speeds)} Mb/s"
        reason = "; ".join(
            filter(None, ("a ConnectX-7 that came up degraded is slow in sending, its link does not show it", aside))
        )
        yield fabric_error(
            "fabric-degraded",
            place,
            found=found,
            expected=expected,
            remedy=power_drain(host),
            reason=reason,
            source=POWER_DRAIN_SOURCE,
        )
    else:
        remedy = "see that both halves have addresses of their own subnets and MTU 9000, and that nothing else runs"
        yield fabric_error(
            "fabric-bandwidth",
            place,
            found=found,
            expected=expected,
            remedy=remedy,
            reason=aside,
            source="NVIDIA playbook: its gate",
        )


def gate(gates: Gates, halves: int, speed_mbps: int) -> float:
    """What has to be reached in Gb/s: the gate of a 200 Gb/s port, or its share of a slower one."""
    if halves == 1:
        return gates["rail_gbps"] * min(1.0, speed_mbps / HALF_MBPS)
    return gates["port_gbps"] * min(1.0, speed_mbps / SPEED_MBPS)


def power_drain(host: str) -> str:
    """The remedy for a ConnectX-7 that came up degraded; of the one machine that sends."""
    return (
        f"switch {host} off, take its power plug out for a minute, then start it with the cable in and the other "
        "end on; the other machine needs this only if it is named, too"
    )


def _not_by_rdma(place: Place, rails: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """The device's own counters prove that it, and not TCP, carried the data."""
    for rail in rails:
        counted = rail["counted_bytes"]
        if counted is not None and counted < _CARRIED * rail["payload_bytes"]:
            yield fabric_error(
                "fabric-not-rdma",
                place,
                found=f"{rail['device']} counted {counted} bytes of {rail['payload_bytes']}",
                expected="all of them",
                remedy="look which device carried it: /sys/class/infiniband/*/ports/1/counters/port_xmit_data",
                source="cluster owner's notes, Verify RoCE",
            )
