# SPDX-License-Identifier: GPL-3.0-or-later
"""The address of each host in a group, and its NCCL, Gloo, UCX and Open MPI environment, from that host's interfaces.

Every variable says why it is set and where that is known from. The GID index is not among them: it is read at launch
(`_on_host.gids`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from .._base.findings import Finding, fabric_error
from .._base.place import Place

Variable = dict[str, str]  # name, value, reason, source
Slices = Mapping[str, Mapping[str, Any]]

_NO_GDR = "GPUDirect RDMA does not work on GB10 (no dma-buf, no nvidia-peermem): data goes through host buffers"
_SOURCE = "cluster owner's notes, NCCL IB with GDR disabled"
_NAMES = "cluster owner's notes, NCCL/MPI environment variables"
_NCCL = "NCCL user guide, since 2.21"


@dataclass(frozen=True)
class Member:
    """A host's part in a group of hosts.

    address: the IPv4 address that the other ranks reach it by, None in a group of one. variables: of its containers.
    """

    address: str | None = None
    variables: Sequence[Variable] = ()


def group_environment(
    slices: Slices, hosts: Sequence[str], place: Place, transport: str | None = None, rails: str | None = None
) -> tuple[dict[str, Member], list[Finding]]:
    """Each host's address and variables for a service over these hosts, head first, and what makes it impossible.

    slices: the plan's fabric slices by host. transport and rails: instead of the fabric's own. A group of one host
    needs no variables.
    """
    if len(set(hosts)) < 2:
        return {host: Member() for host in hosts}, []
    transport = transport or slices[hosts[0]]["transport"]
    rails = rails or slices[hosts[0]]["rails"]
    usable = {host: _interfaces(slices[host], hosts, transport) for host in hosts}
    findings = _unconnected(usable, hosts, place) or _unaddressed(usable, slices, place)
    if findings:
        return {}, findings
    common = _common_segments(usable)
    members = {}
    for host in hosts:
        chosen = [one for one in usable[host] if one["segment"] in common] if common else usable[host]
        if rails == "single" or transport == "socket":
            chosen = [one for one in chosen if one["half"] in (0, None)]
        if rails == "single" and common:
            chosen = chosen[:1]
        control = _control(chosen[0]) if common else _management(slices[host])
        members[host] = _member(control, chosen, transport, is_ring=not common)
    return members, []


# Who reaches whom -------------------------------------------------------------------------------------------------


def _interfaces(part: Mapping[str, Any], hosts: Sequence[str], transport: str) -> list[Mapping[str, Any]]:
    """The interfaces that lead to the group's other hosts, in the same order on each of them.

    NCCL pairs devices by their place in the list, so all ranks list the same cable first (ainode release 0.5.11).
    """
    leading = [
        one
        for one in part["interfaces"]
        if any(peer["host"] in hosts for peer in one["peers"]) and (one["kind"] != "link" or transport == "socket")
    ]
    return sorted(leading, key=lambda one: (one["kind"] == "link", one["segment"], one["half"] or 0))


def _common_segments(usable: Mapping[str, Sequence[Mapping[str, Any]]]) -> set[str]:
    """The cables or switches that every host of the group is on; none in a ring."""
    return set.intersection(*({str(one["segment"]) for one in interfaces} for interfaces in usable.values()))


def _unconnected(
    usable: Mapping[str, Sequence[Mapping[str, Any]]], hosts: Sequence[str], place: Place
) -> list[Finding]:
    findings = []
    for first, second in combinations(sorted(set(hosts)), 2):
        if any(peer["host"] == second for one in usable[first] for peer in one["peers"]):
            continue
        findings.append(
            fabric_error(
                "fabric-group-unconnected",
                place,
                found=f"no cable between {first} and {second}",
                expected="a cable or a switch between every two hosts of a group",
                remedy=f"declare one in fleet_fabric, like [{first}:1, {second}:1], or choose other hosts",
                reason="every rank exchanges tensors with every other",
            )
        )
    return findings


def _unaddressed(usable: Mapping[str, Sequence[Mapping[str, Any]]], slices: Slices, place: Place) -> list[Finding]:
    findings = []
    for host, interfaces in usable.items():
        if any(one["address"] is None for one in interfaces):
            findings.append(
                fabric_error(
                    "fabric-group-link-local",
                    place,
                    found=f"{host} has link-local addresses",
                    expected="addresses that the plan knows",
                    remedy="write mode: static in fleet_fabric",
                    reason="the ranks get each other's addresses before they start",
                )
            )
        elif not _common_segments(usable) and _as_ip(slices[host]["management"]["address"]) is None:
            address = slices[host]["management"]["address"]
            findings.append(
                fabric_error(
                    "fabric-group-management",
                    place,
                    found=f'{host} is reached as "{address}"',
                    expected="its management address, which a ring's ranks meet over",
                    remedy=f"write ansible_host: <address> for {host} in the inventory",
                )
            )
    return findings


def _as_ip(text: str) -> ipaddress.IPv4Address | None:
    try:
        return ipaddress.IPv4Address(text)
    except ValueError:
        return None


def _control(interface: Mapping[str, Any]) -> tuple[str, str]:
    return interface["name"], interface["address"].partition("/")[0]


def _management(part: Mapping[str, Any]) -> tuple[str, str]:
    return part["management"]["interface"], part["management"]["address"]


# What they get ---------------------------------------------------------------------------------------------------


def _member(control: tuple[str, str], chosen: Sequence[Mapping[str, Any]], transport: str, *, is_ring: bool) -> Member:
    name, address = control
    way = (
        "the ranks meet over the management network: a ring has no route between all"
        if is_ring
        else ("the ranks meet over the cable; each host names its own interface")
    )
    devices = [f"{one['rdma_device']}:1" for one in chosen if one["rdma_device"]]
    variables = [
        _variable("NCCL_SOCKET_IFNAME", name, way, _NAMES),
        _variable(
            "GLOO_SOCKET_IFNAME",
            name,
            way + "; Gloo else takes 127.0.1.1 of /etc/hosts",
            "seen with vLLM on two lab hosts",
        ),
        _variable("TP_SOCKET_IFNAME", name, way, "NVIDIA playbook"),
        _variable("MN_IF_NAME", name, way, "cluster owner's notes, CRITICAL env vars"),
        _variable("OMPI_MCA_btl_tcp_if_include", name, way, _NAMES),
    ]
    variables += _roce(devices) if transport == "roce" else _socket(name)
    if is_ring and transport == "roce":
        variables += _ring()
    return Member(address, sorted(variables, key=lambda variable: variable["name"]))


def _variable(name: str, value: str, reason: str, source: str) -> Variable:
    return {"name": name, "value": value, "reason": reason, "source": source}


def _roce(devices: Sequence[str]) -> list[Variable]:
    rails = "both halves of the port: one carries half of the cable" if len(devices) > 1 else "one rail, as declared"
    return [
        _variable(
            "NCCL_NET", "IB", "RDMA or an error: falling back to TCP costs 10 to 20 times", "sparkrun, NemoClaw, Pulsar"
        ),
        _variable("NCCL_IB_HCA", "=" + ",".join(devices), f"these devices and no others (=); {rails}", _SOURCE),
        _variable("NCCL_IB_ADDR_FAMILY", "AF_INET", "GIDs of IPv4 addresses alone", _NCCL),
        _variable("NCCL_IB_ROCE_VERSION_NUM", "2", "RoCE v2, as the rails' addresses", _NCCL),
        _variable("NCCL_NET_PLUGIN", "none", "plug-ins of images try dma-buf and crash on GB10", _SOURCE),
        _variable("NCCL_DMABUF_ENABLE", "0", _NO_GDR, _SOURCE),
        _variable("NCCL_NET_GDR_LEVEL", "LOC", _NO_GDR, _SOURCE),
        _variable("NCCL_NET_GDR_C2C", "0", _NO_GDR, _SOURCE),
        _variable("UCX_NET_DEVICES", ",".join(devices), "UCX over the same RDMA devices", "sparkrun"),
    ]


def _socket(name: str) -> list[Variable]:
    return [
        _variable("NCCL_NET", "Socket", "TCP on purpose (transport: socket): 4 to 6 GB/s instead of 22", _NAMES),
        _variable("UCX_NET_DEVICES", name, "UCX over TCP on the same interface", _NAMES),
    ]


def _ring() -> list[Variable]:
    source = "NVIDIA playbook and sparkrun, ring"
    return [
        _variable("NCCL_IB_SUBNET_AWARE_ROUTING", "1", "each neighbour is in another subnet", source),
        _variable("NCCL_IB_MERGE_NICS", "0", "the two ports lead to different hosts", source),
    ]
