# SPDX-License-Identifier: GPL-3.0-or-later
"""Which bandwidths are measured between whom, and what the figures mean.

Each cable is measured by both halves alone and then together, from each of its ends: ib_write_bw's client sends, and a
ConnectX-7 that came up degraded is slow in sending alone (six owners' machines, September 2026). On a switch each port
is measured with the one before and the one after. A measurement that can't be made is never taken for a good one. A
link that hot-plug has taken away and brought back counts as not measured.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..._base import worded
from ..._base.findings import Finding
from ..._base.place import Place
from ..._base.slice import Bandwidth, FabricSlice, Gates, Interface, Peer, Rail
from .hardware import DEGRADED_GBPS, HALF_MBPS, SPEED_MBPS, where
from .hotplug import MARKER, RESTART, UNLESS, unproven

# perftest's own default; the following ports are ours while a measurement runs.
FIRST_PORT = 18515
# Counters also count headers: what was carried is at least the payload, but for the first and last messages.
_CARRIED = 0.9


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
    place = Place(host=host, thing="ib_write_bw")
    if not result["possible"] and result["virtualization"] in ("none", "unknown"):
        return [worded.fabric_error("fabric-rdma-unproven/machine", place, message=result["message"])]
    if not result["possible"]:  # where there can be no RDMA
        return [worded.fabric_warning("fabric-rdma-unproven/simulated", place, message=result["message"])]
    findings = [
        finding for measured_peer in result["measured"] for finding in _judge_one(host, gates, measured_peer, result)
    ]
    absent = result["left_out"]
    return findings + [
        worded.fabric_warning("fabric-bandwidth-partner", place, host=host, peer=peer) for peer in absent
    ]


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
        yield worded.fabric_error("fabric-bandwidth-failed", place, host=host, peer=entry["peer"], message=message)
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
    found = f"it sends {total:.1f} Gb/s to {entry['peer']}"
    iommu = sorted({kind for rail in rails if (kind := result["iommu"].get(rail["interface"]))})
    aside = f"its IOMMU group is of type {', '.join(iommu)}" if iommu else ""
    if degraded:
        found += f", while the link says {min(speeds)} Mb/s"
        aside = f"; {aside}" if aside else ""
        drain = power_drain(host)
        yield worded.fabric_error("fabric-degraded/now", place, found=found, wanted=wanted, remedy=drain, aside=aside)
    else:
        yield worded.fabric_error("fabric-bandwidth/now", place, found=found, wanted=wanted, reason=aside)


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
            yield worded.fabric_error(
                "fabric-not-rdma", place, device=rail["device"], counted=counted, payload=rail["payload_bytes"]
            )


def judge_adapter(host: str, plan: FabricSlice, adapter: Mapping[str, Any]) -> list[Finding]:
    """What hot-plug makes of a host's links, beside what `_subjects.fabric.judge` says of each one.

    plan: the host's fabric slice. adapter: {marker, enabled, state, plugged_s, measured}, of
    `_subjects.fabric.reading`.
    """
    rails = [interface["name"] for interface in plan["interfaces"] if interface["rdma_device"]]
    if not rails or plan["transport"] != "roce":
        return []
    place = Place(host=host, thing="ConnectX-7")
    findings = []
    if adapter["marker"] and plan["hotplug"] == "off":
        findings.append(worded.fabric_warning("fabric-hotplug-on", place, marker=MARKER, unless=UNLESS))
    elif plan["hotplug"] == "off" and adapter["enabled"]:
        findings.append(worded.fabric_warning("fabric-hotplug-restart", place, unless=UNLESS))
    elif adapter["marker"]:
        findings.append(worded.fabric_warning("fabric-hotplug", place, unless=UNLESS))
    if names := unproven(adapter, rails):
        minutes, links = adapter["plugged_s"] / 60, ", ".join(names)
        findings.append(worded.fabric_warning("fabric-replugged", place, minutes=minutes, links=links, restart=RESTART))
    return findings


def judge_earlier(host: str, gates: Gates, adapter: Mapping[str, Any], names: Mapping[str, Place]) -> list[Finding]:
    """Measurements since the boot that were below the gate. names: the place of each interface."""
    findings = []
    for name, place in names.items():
        row = adapter["measured"].get(name)
        if row is None or row["gbps"] >= (wanted := gate(gates, 1, int(row["speed_mbps"]) or SPEED_MBPS)):
            continue
        low, high = DEGRADED_GBPS
        drain = power_drain(host)
        found = f"it sent {row['gbps']:.1f} Gb/s to {row['peer']} when it was last measured, since the machine's start"
        if low <= row["gbps"] <= high:
            slow = worded.fabric_error("fabric-degraded/earlier", place, found=found, wanted=wanted, remedy=drain)
        else:
            slow = worded.fabric_error("fabric-bandwidth/earlier", place, found=found, wanted=wanted, remedy=drain)
        findings.append(slow)
    return findings
