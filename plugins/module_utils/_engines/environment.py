# SPDX-License-Identifier: GPL-3.0-or-later
"""The address of each host in a group, and its NCCL, Gloo, UCX and Open MPI environment, from that host's interfaces.

Every variable says why it is set and where that is known from. The GID index is not among them: it is read at launch
(`_on_host.gids`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from .._base import worded
from .._base.addresses import ipv4
from .._base.findings import Finding, finding
from .._base.gb10 import topologies
from .._base.place import Place
from .._base.slice import FabricSlice, Interface

Variable = dict[str, str]  # name, value, reason, source
Slices = Mapping[str, FabricSlice]
Usable = Mapping[str, Sequence[Interface]]  # interfaces by host

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
    slices: Slices,
    hosts: Sequence[str],
    place: Place,
    transport: str | None = None,
    rails: str | None = None,
    written: Mapping[str, object] | None = None,
) -> tuple[dict[str, Member], list[Finding]]:
    """Each host's address and variables for a service over these hosts, head first, and what makes it impossible.

    slices: the plan's fabric slices by host. transport and rails: instead of the fabric's own. written: the
    variables of the recipe and the service, which say what its NCCL can do. A group of one host needs no variables.
    """
    if len(set(hosts)) < 2:
        return {host: Member() for host in hosts}, []
    transport = transport or slices[hosts[0]]["transport"]
    rails = rails or slices[hosts[0]]["rails"]
    usable = {host: _interfaces(slices[host], hosts, transport) for host in hosts}
    own_nccl = _ring_variable(written or {})
    ring = _ring_order(usable, hosts)
    findings = [_in_ring(ring, hosts, place, own_nccl)] if ring else [*_unconnected(usable, slices, hosts, place)]
    findings += [] if findings and findings[0].severity == "error" else _unaddressed(usable, slices, place)
    if any(finding.severity == "error" for finding in findings):
        return {}, findings
    common = _common_segments(usable)
    turned = [] if common else _like_ports(usable)
    findings += [_turn(turned, place)] if len(turned) == 2 and len(hosts) == 3 else []
    of_ring = [] if common else _ring(merges=bool(turned), alone=bool(ring))
    members = {}
    for host in hosts:
        chosen = [interface for interface in usable[host] if interface["segment"] in common] if common else usable[host]
        if rails == "single" or transport == "socket":
            chosen = [interface for interface in chosen if interface["half"] in (0, None)]
        if rails == "single" and common:
            chosen = chosen[:1]
        control = _control(chosen[0]) if common else _management(slices[host])
        members[host] = _member(control, chosen, transport, of_ring)
    return members, findings


# Who reaches whom -------------------------------------------------------------------------------------------------


def _interfaces(part: FabricSlice, hosts: Sequence[str], transport: str) -> list[Interface]:
    """The interfaces that lead to the group's other hosts, in the same order on each of them.

    NCCL pairs devices by their place in the list, so all ranks list the same cable first (ainode release 0.5.11).
    """
    leading = [
        interface
        for interface in part["interfaces"]
        if any(peer["host"] in hosts for peer in interface["peers"])
        and (interface["kind"] != "link" or transport == "socket")
    ]
    return sorted(leading, key=lambda item: (item["kind"] == "link", item["segment"], item["half"] or 0))


def _common_segments(usable: Usable) -> set[str]:
    """The cables or switches that every host of the group is on; none in a ring."""
    return set.intersection(
        *({str(interface["segment"]) for interface in interfaces} for interfaces in usable.values())
    )


def _neighbours(host: str, usable: Usable) -> set[str]:
    return {peer["host"] for interface in usable[host] for peer in interface["peers"] if peer["host"] in usable}


def _ring_order(usable: Usable, hosts: Sequence[str]) -> list[str]:
    """The hosts along their ring, from the first on; empty for what is none, or whose hosts all reach each other."""
    if len(hosts) < 4 or any(len(_neighbours(host, usable)) != 2 for host in hosts):
        return []
    order = [hosts[0], min(_neighbours(hosts[0], usable), key=hosts.index)]
    while onward := [*_neighbours(order[-1], usable).difference(order)]:
        order += onward
    return order if len(order) == len(hosts) else []


def _ring_variable(written: Mapping[str, object]) -> str:
    """The variable by which an owner's NCCL does without trees; empty where he sets none."""
    for name, value in topologies()["ring"]["shown_by"].items():
        if re.fullmatch(value, str(written.get(name, ""))):
            return f"{name}={written[name]}"
    return ""


def _in_ring(ring: Sequence[str], hosts: Sequence[str], place: Place, own_nccl: str) -> Finding:
    """Of four hosts and more in a ring of cables, for which no port is left to reach those that are opposite."""
    case = "stock" if not own_nccl else "own" if [*hosts] == [*ring] else "order"
    words = {"count": len(ring), "hosts": ", ".join(hosts), "ring": ", ".join(ring), "own": own_nccl}
    return _by_data("ring", case, place, **words, first=ring[0], opposite=ring[2])


def _by_data(name: str, case: str, place: Place, **words: object) -> Finding:
    """A finding about a topology, in the words of the data; its source is the topology's."""
    topology = topologies()[name]
    row = topology[case]
    texts = {key: row[key].format(**words) for key in ("found", "expected", "remedy", "reason") if key in row}
    return finding(row["severity"], row["rule"], place, **texts, source=topology["source"], kind="fabric")


def _like_ports(usable: Usable) -> list[tuple[str, str, int]]:
    """Cables between like ports, as both hosts and the port, each once."""
    return sorted(
        {
            (min(host, peer["host"]), max(host, peer["host"]), port)
            for host, interfaces in usable.items()
            for interface in interfaces
            for peer in interface["peers"]
            if interface["kind"] == "cable"
            and interface["port"] == peer["port"]
            and peer["host"] in usable
            and (port := interface["port"]) is not None
        }
    )


def _turn(like: Sequence[tuple[str, str, int]], place: Place) -> Finding:
    """The host of a triangle whose two plugs are to be swapped, so that port 0 of each goes to port 1 of the next."""
    ((host),) = {*like[0][:2]} & {*like[1][:2]}
    ends = [f"[{host}:{1 - port}, {second if first == host else first}:{port}]" for first, second, port in like]
    found = " and ".join(f"port {port} of {first} and of {second}" for first, second, port in like)
    return _by_data("triangle", "like_ports", place, found=found, host=host, ends=" and ".join(ends))


def _or_free(slices: Slices, first: str, second: str) -> str:
    """A cable between two hosts that their ports have room for."""
    ports = []
    for host in (first, second):
        taken = {interface["port"] for interface in slices[host]["interfaces"]}
        free = [port for port in (1, 0) if port not in taken]
        if not free:
            return f"both ports of {host} are taken: join the hosts by a switch, or choose other hosts"
        ports.append(f"{host}:{free[0]}")
    return f"declare one in fleet_fabric, like [{', '.join(ports)}], or choose other hosts"


def _unconnected(usable: Usable, slices: Slices, hosts: Sequence[str], place: Place) -> Iterator[Finding]:
    for first, second in combinations(sorted(set(hosts)), 2):
        if any(peer["host"] == second for interface in usable[first] for peer in interface["peers"]):
            continue
        found = f"no cable between {first} and {second}"
        remedy = f"{_or_free(slices, first, second)}; replicas: {len(hosts)} needs none, where each holds the model"
        yield worded.fabric_error("fabric-group-unconnected", place, found=found, remedy=remedy)


def _unaddressed(usable: Usable, slices: Slices, place: Place) -> list[Finding]:
    findings = []
    for host, interfaces in usable.items():
        if any(interface["address"] is None for interface in interfaces):
            findings.append(worded.fabric_error("fabric-group-link-local", place, host=host))
        elif not _common_segments(usable) and ipv4(slices[host]["management"]["address"]) is None:
            address = slices[host]["management"]["address"]
            findings.append(worded.fabric_error("fabric-group-management", place, host=host, address=address))
    return findings


def _control(interface: Interface) -> tuple[str, str]:
    return interface["name"], (interface["address"] or "").partition("/")[0]


def _management(part: FabricSlice) -> tuple[str, str]:
    return part["management"]["interface"], part["management"]["address"]


# What they get ---------------------------------------------------------------------------------------------------


def _member(
    control: tuple[str, str], chosen: Sequence[Interface], transport: str, of_ring: Sequence[Variable]
) -> Member:
    name, address = control
    way = (
        "the ranks meet over the management network: a ring has no route between all"
        if of_ring
        else ("the ranks meet over the cable; each host names its own interface")
    )
    devices = [f"{interface['rdma_device']}:1" for interface in chosen if interface["rdma_device"]]
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
        _variable("NCCL_DEBUG", "WARN", "without it a group that fails to form does not say why", _NCCL),
    ]
    variables += _roce(devices) if transport == "roce" else _socket(name)
    if transport == "roce":
        variables += of_ring
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


def _ring(*, merges: bool, alone: bool) -> list[Variable]:
    """What NCCL needs where each port leads to another host. alone: nothing but the ring's own cables is used."""
    triangle, fact = topologies()["triangle"], topologies()["triangle"]["like_ports" if merges else "unlike_ports"]
    found = [
        _variable("NCCL_IB_SUBNET_AWARE_ROUTING", "1", "each neighbour is in another subnet", triangle["source"]),
        _variable("NCCL_IB_MERGE_NICS", fact["merge"], fact["reason"], triangle["source"]),
    ]
    algorithm = _variable(
        "NCCL_ALGO", "Ring", "no tree over hosts that don't reach each other", topologies()["ring"]["source"]
    )
    return [*found, algorithm] if alone else found
