# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric's plan: from ``fleet_fabric`` to each host's interfaces, addresses, peers and netplan file."""

from collections.abc import Iterator, Mapping, Sequence

from ..._base import worded
from ..._base.findings import Finding
from ..._base.layout import LIBRARY, MARK
from ..._base.place import Place
from ..._base.slice import FabricSlice, FileEntry, Files, Identity, Interface, Peer
from ..._host.netplan import document as netplan
from .addresses import Addressed, allocate
from .bandwidth import measurements
from .declared import End, HostFacts, Segment, read_fabric
from .hardware import HALVES, RAILS, interfaces_of, rail
from .spec import FabricDeclared

SYSCTL_PATH = "/etc/sysctl.d/90-gb10-fabric.conf"
_PRE_UP = "roles/fabric/files/networkmanager-pre-up.sh"
_FOLDER = f"{LIBRARY}/netplan"
_RECOVER = "gb10-netplan-recover.service"
# What changes netplan files and takes a change back, and where it lies in this collection.
_GUARD = {
    f"{_FOLDER}/__main__.py": "roles/fabric/files/netplan_main.py",
    f"{_FOLDER}/gb10_netplan/guard.py": "plugins/module_utils/_on_host/netplan/guard.py",
    f"{_FOLDER}/gb10_netplan/links.py": "plugins/module_utils/_on_host/netplan/links.py",
    f"{_FOLDER}/gb10_netplan/record.py": "plugins/module_utils/_on_host/netplan/record.py",
    "/etc/systemd/system/gb10-netplan-change.service": "roles/fabric/files/gb10-netplan-change.service",
    f"/etc/systemd/system/{_RECOVER}": f"roles/fabric/files/{_RECOVER}",
}


def plan_fabric(written: object, hosts: Mapping[str, HostFacts]) -> tuple[dict[str, FabricSlice], list[Finding]]:
    """Each host's fabric slice, and every problem of the declaration. Never raises for what an owner wrote.

    written: ``fleet_fabric``, or None. A slice is a plain map::

        mode         static | link-local
        keeper       fleet | others: who gives the interfaces their addresses
        transport    roce | socket;  rails: dual | single          what `_engines.environment` goes by
        gates        {rail_gbps, port_gbps}                         what `verify` demands of ib_write_bw on 200 Gb/s
        hotplug      off | keep                                     what becomes of the adapter's hot-plug
        management   {interface, address}                           the way of the controller
        interfaces   [{name, kind: cable | switch | link, segment, port, half, rdma_device, address, mtu,
                       speed_mbps (null: as read), peers: [{host, interface, port, half, rdma_device, address}]}]
        sysctl       {key: value} for the rails
        netplan      the document as data, {} where the host has no interface in the fabric, or others keep it
        files        {path: {mode, content or source}}; content null where no file of ours is to be; without netplan's
                     where others keep the fabric, since theirs may have its name
        units        {unit: enabled}: what takes an unfinished change back at boot
        bandwidth    {listen, measure}: what `verify` measures, as `_subjects.fabric.bandwidth.measurements` says
    """
    fabric, findings = read_fabric(written, hosts)
    addressed, problems = allocate(fabric.settings, fabric.segments, hosts)
    findings = [*findings, *problems, *_mode_hints(fabric.settings, addressed)]
    slices = {name: _slice(name, fabric.settings, addressed, hosts[name]) for name in sorted(hosts)}
    for name, measured in measurements(slices).items():
        slices[name]["bandwidth"] = measured
    return slices, findings


def guard_files() -> Files:
    """What changes netplan files on a host and takes a change back, ``{path: {mode, source}}``."""
    return {path: {"mode": "0644", "source": source} for path, source in _GUARD.items()}


def _mode_hints(settings: FabricDeclared, addressed: Sequence[Addressed]) -> Iterator[Finding]:
    if settings["mode"] == "link-local" and addressed:
        yield worded.fabric_hint("fabric-link-local", Place(variable="fleet_fabric", option="mode"))
    for cable in addressed:
        if cable.segment.kind != "link" and len(cable.subnets()) == 1:
            yield worded.fabric_warning("fabric-one-half", cable.segment.place, segment=cable.segment.name)


def _slice(host: str, settings: FabricDeclared, addressed: Sequence[Addressed], facts: HostFacts) -> FabricSlice:
    interfaces = [
        interface
        for cable in addressed
        for end in cable.segment.ends
        if end.host == host
        for interface in _interfaces(end, settings, cable)
    ]
    interfaces.sort(key=lambda interface: (interface["kind"] == "link", interface["port"], interface["half"]))
    ours = interfaces if settings["keeper"] == "fleet" else []
    document = netplan.document(ours, settings["mode"]) if ours else {}
    rails = [interface["name"] for interface in ours if interface["kind"] != "link"]
    sysctl = _sysctl(rails)
    own: Files = {netplan.PATH: {"mode": netplan.MODE, "content": netplan.text(document) if document else None}}
    pre_up: FileEntry = {"mode": "0755", "source": _PRE_UP} if rails else {"mode": "0755", "content": None}
    return {
        "mode": settings["mode"],
        "keeper": settings["keeper"],
        "transport": settings["transport"],
        "rails": settings["rails"],
        "hotplug": str(settings["hotplug"]),
        "gates": {**settings["gates"]},
        "management": {"interface": settings["management"]["interface"], "address": facts.address},
        "interfaces": interfaces,
        "sysctl": sysctl,
        "netplan": document,
        "files": {
            **(own if settings["keeper"] == "fleet" else {}),
            netplan.NETWORKMANAGER: {"mode": "0644", "content": netplan.networkmanager(rails) if rails else None},
            netplan.NETWORKMANAGER_PRE_UP: pre_up,
            SYSCTL_PATH: {"mode": "0644", "content": _sysctl_text(sysctl) if sysctl else None},
            **(guard_files() if ours else {}),
        },
        "units": {_RECOVER: "enabled"} if ours else {},
    }


def _interfaces(end: End, settings: FabricDeclared, addressed: Addressed) -> Iterator[Interface]:
    """The interfaces of one end: both halves of a port, or a link's single interface."""
    segment = addressed.segment
    others = [other for other in segment.ends if other != end]
    is_link = segment.kind == "link"
    # Link-local addresses of both halves would share a subnet; NVIDIA's cx7-netplan.yaml leaves the second out, too.
    halves = HALVES[: len(addressed.addresses[end])] if settings["mode"] == "static" else HALVES[:1]
    for half in (None,) if is_link else halves:
        yield {
            **_identity(end, settings, addressed, half),
            "kind": segment.kind,
            "segment": segment.name,
            "mtu": segment.mtu if is_link else settings["mtu"],
            "speed_mbps": _speed(end, settings, segment),
            "peers": [_peer(other, settings, addressed, half) for other in others],
        }


def _speed(end: End, settings: FabricDeclared, segment: Segment) -> int | None:
    """What the owner wrote for this port or, of a cable, for its other end; None where the speed is read."""
    ends = [end, *(segment.ends if segment.kind == "cable" else ())]
    return next((settings["speeds"][str(side)] * 1000 for side in ends if str(side) in settings["speeds"]), None)


def _identity(end: End, settings: FabricDeclared, addressed: Addressed, half: int | None) -> Identity:
    address = str(addressed.addresses[end][half or 0])
    if half is None:
        return {"name": end.port, "port": None, "half": None, "rdma_device": None, "address": address}
    known = rail(int(end.port), half)
    return {
        "name": known.interface,
        "port": known.port,
        "half": half,
        "rdma_device": known.device,
        "address": address if settings["mode"] == "static" else None,
    }


def _peer(end: End, settings: FabricDeclared, addressed: Addressed, half: int | None) -> Peer:
    identity = _identity(end, settings, addressed, half)
    address = identity["address"]
    return {
        "host": end.host,
        "interface": identity["name"],
        "port": identity["port"],
        "half": identity["half"],
        "rdma_device": identity["rdma_device"],
        "address": None if address is None else address.partition("/")[0],
    }


def _sysctl(rails: Sequence[str]) -> dict[str, int]:
    """Each half answers ARP for its own address alone, and has no IPv6: its GID table is the same at every boot.

    Both halves of a port receive each other's broadcasts. By default either would answer for both addresses, and RoCE
    packets of one rail arrive at the other's device (Linux, Documentation/networking/ip-sysctl.rst, arp_ignore). A half
    without an address has an MTU of its own, too: what is larger is lost without a word, and TCP waits for ever.
    """
    return {
        key: value
        for name in rails
        for key, value in (
            (f"net.ipv4.conf.{name}.arp_announce", 2),
            (f"net.ipv4.conf.{name}.arp_ignore", 1),
            (f"net.ipv6.conf.{name}.disable_ipv6", 1),
        )
    } | {f"net.ipv4.conf.{half}.arp_ignore": 1 for name in rails for half in interfaces_of(RAILS[name].port)}


def _sysctl_text(sysctl: Mapping[str, int]) -> str:
    return "\n".join([MARK, *(f"{key} = {value}" for key, value in sysctl.items()), ""])
