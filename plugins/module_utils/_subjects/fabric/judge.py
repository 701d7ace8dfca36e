# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric's plan against what hosts read of themselves: each cable, half, neighbour, frame size and RDMA device.

A reading is what `fabric_info` returns: links, asked, rdma, adapter (`_subjects.fabric.reading`). Who is at the other
end is known by the MAC address that answers: the readings of all hosts show whose it is.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, error, fabric_error, fabric_warning, warning
from ..._base.slice import FabricSlice, Interface, Peer
from ..._on_host.gids import Gid, index_of
from .bandwidth import judge_adapter, judge_earlier
from .hardware import RAILS, SPEED_MBPS, SPEEDS_GBPS, interfaces_of, where
from .hotplug import POWER_BOTH, SEAT, absent

Reading = Mapping[str, Any]
# MAC address -> the host and interface of each that says it is its own
Owners = Mapping[str, set[tuple[str, str]]]

PCIE_LANES = 4
_LINK = {"fabric-no-interface", "fabric-link-down", "fabric-no-carrier", "fabric-half-dead", "fabric-link-speed"}
# What each line of the summary stands for.
SUBJECTS = {
    "links": _LINK,
    "addresses": {*_LINK, "fabric-address", "fabric-mtu", "fabric-mtu-halves"},
    "neighbours": {*_LINK, "fabric-wrong-peer", "fabric-no-peer"},
    "frames": {*_LINK, "fabric-wrong-peer", "fabric-no-peer", "fabric-frames"},
    "rdma": {*_LINK, "fabric-no-rdma-device", "fabric-rdma-state", "fabric-link-layer", "fabric-no-gid"},
    "bandwidth": {
        "fabric-bandwidth",
        "fabric-bandwidth-failed",
        "fabric-bandwidth-partner",
        "fabric-degraded",
        "fabric-not-rdma",
        "fabric-replugged",
    },
}


def judge(
    host: str,
    plan: FabricSlice,
    readings: Mapping[str, Reading],
    left_out: Collection[str] = (),
    *,
    measured: bool = False,
) -> list[Finding]:
    """What is not as planned on one host.

    readings: by host; those of the others show whose MAC address answers. left_out: hosts that are not part of the run
    (``--limit``) and may not have been converged: what depends on them is a warning, since it is not proven.
    measured: this run has measured the bandwidth, so that earlier measurements say nothing more.
    """
    interfaces = plan["interfaces"]
    known = {interface["name"]: where(host, interface["name"]) for interface in interfaces}
    adapter = readings[host]["adapter"]
    owners: dict[str, set[tuple[str, str]]] = {}
    for name, reading in readings.items():
        for one, link in reading["links"].items():
            owners.setdefault(link["mac"], set()).add((name, one))
    findings = [
        finding
        for wanted in interfaces
        for finding in _Interface(host, wanted, plan, readings, owners, left_out).findings()
    ]
    if measured:
        return [*findings, *judge_adapter(host, plan, adapter | {"plugged_s": None})]
    return [*findings, *judge_adapter(host, plan, adapter), *judge_earlier(host, plan["gates"], adapter, known)]


def summary(plan: FabricSlice, findings: Iterable[Finding], bandwidth: Mapping[str, object] | None) -> dict[str, str]:
    """For each subject ``ok``, ``failed``, ``not proven``, ``not used``, and of the bandwidth what became of it.

    bandwidth: the result of `fabric_bandwidth`, None where nothing was measured.
    """
    severities: dict[str, set[str]] = {"error": set(), "warning": set()}
    for finding in findings:
        severities[finding.severity].add(finding.rule)
    table = {
        subject: "failed" if known & severities["error"] else "not proven" if known & severities["warning"] else "ok"
        for subject, known in SUBJECTS.items()
    }
    if plan["transport"] == "socket":
        table |= dict.fromkeys(("rdma", "bandwidth"), "not used")
    elif bandwidth is None:
        table["bandwidth"] = "not measured" if table["bandwidth"] == "ok" else table["bandwidth"]
    elif not bandwidth["possible"]:
        table["bandwidth"] = "not possible here"
    elif not bandwidth["measured"] and not bandwidth["left_out"]:
        table["bandwidth"] = "not measured"
    return table


class _Interface:
    """One planned interface and everything that was read about it."""

    def __init__(
        self,
        host: str,
        wanted: Interface,
        plan: FabricSlice,
        readings: Mapping[str, Reading],
        owners: Owners,
        left_out: Collection[str],
    ) -> None:
        self.host, self.wanted, self.readings, self.owners, self.left_out = host, wanted, readings, owners, left_out
        self.uses_rdma = plan["transport"] == "roce" and wanted["rdma_device"] is not None
        self.reading = readings[host]
        self.link = self.reading["links"].get(wanted["name"])
        self.asked = self.reading["asked"].get(wanted["name"], {"answers": {}, "pings": {}})
        halves = interfaces_of(wanted["port"]) if wanted["port"] is not None else []
        self.other_half = next((self.reading["links"].get(half) for half in halves if half != wanted["name"]), None)
        self.kept_by_others = plan["keeper"] == "others"
        self.place = where(host, wanted["name"])
        self.expected = ", ".join(where(peer["host"], peer["interface"]).text for peer in wanted["peers"])

    def findings(self) -> Iterator[Finding]:
        if self.link is None:
            remedy = "look for the adapter: `lspci -d 15b3:`, `dmesg | grep mlx5`"
            found = "there is no such interface"
            if why := absent(self.reading["adapter"]) if self.wanted["rdma_device"] else "":
                found, remedy = f"{found}: {why}", SEAT
            yield worded.fabric_error("fabric-no-interface", self.place, found=found, remedy=remedy)
        elif not self.link["up"]:
            yield worded.fabric_error("fabric-link-down", self.place)
        elif not self.link["carrier"]:
            yield self._without_carrier()
        else:
            yield from self._settings(self.link)
            yield from self._neighbours(self.link)
            if self.uses_rdma and (device := self.wanted["rdma_device"]):
                yield from self._rdma(device, self.link)

    def _of_peer(self, peer: str, rule: str, *, found: str, expected: str, remedy: str, reason: str = "") -> Finding:
        """What also the other end may be the reason of: no error when the run leaves that host out."""
        if peer not in self.left_out:
            return fabric_error(rule, self.place, found=found, expected=expected, remedy=remedy, reason=reason)
        found += f"; {peer} is not in this run, or failed before, so the cable is not proven"
        remedy = f"run again with -l {self.host},{peer}, or without a limit"
        return fabric_warning(rule, self.place, found=found, expected=expected, remedy=remedy, reason=reason)

    # Link ---------------------------------------------------------------------------------------------------------

    def _without_carrier(self) -> Finding:
        """The carrier of a cable needs the other end to be up, that of a switch's port does not."""
        peer = self.wanted["peers"][0]["host"] if self.wanted["kind"] == "cable" else ""
        if self.other_half is not None and self.other_half["carrier"]:
            remedy = f"look at the same half of the other end; if it is up, reseat the cable, then {POWER_BOTH}"
            return self._of_peer(
                peer,
                "fabric-half-dead",
                found="no carrier, while the port's other half has one",
                expected=self.expected,
                remedy=remedy,
                reason="half the bandwidth is missing",
            )
        remedy = "plug the cable in at both ends, and see that the other machine is on"
        return self._of_peer(
            peer, "fabric-no-carrier", found="no carrier", expected=f"a cable to {self.expected}", remedy=remedy
        )

    def _settings(self, link: Mapping[str, Any]) -> Iterator[Finding]:
        wanted = self.wanted
        yield from self._speed(link["speed_mbps"])
        if wanted["mtu"] not in (None, link["mtu"]):
            yield worded.fabric_error("fabric-mtu", self.place, mtu=link["mtu"], wanted_mtu=wanted["mtu"])
        twin = self.other_half
        if self.kept_by_others and twin and twin["carrier"] and twin["mtu"] < link["mtu"]:
            yield worded.fabric_warning("fabric-mtu-halves", self.place, half_mtu=twin["mtu"], mtu=link["mtu"])
        if wanted["address"] is not None and link["addresses"] != [wanted["address"]]:
            found = ", ".join(link["addresses"]) or "no address"
            yield worded.fabric_error("fabric-address", self.place, found=found, expected=wanted["address"])
        if wanted["rdma_device"] and link["pcie_width"] is not None and link["pcie_width"] < PCIE_LANES:
            yield worded.fabric_warning(
                "fabric-pcie-narrow", self.place, pcie_width=link["pcie_width"], pcie_lanes=PCIE_LANES
            )

    def _speed(self, speed: int | None) -> Iterator[Finding]:
        """As declared; without a declaration 200 Gb/s, and a warning of any other that cables and switches have."""
        wanted = self.wanted["speed_mbps"]
        if self.wanted["rdma_device"] is None or speed == (wanted or SPEED_MBPS):
            return
        found = "the interface does not report its speed" if speed is None else f"{speed} Mb/s"
        remedy = "use a cable for 200 Gb/s (QSFP56), without a splitter"
        finding = error
        if wanted is not None:
            remedy = (
                "look at the cable, and at the speed that the switch's port is set to; or correct fleet_fabric.speeds"
            )
        elif speed is not None and speed // 1000 in SPEEDS_GBPS:
            finding = warning
            remedy += (
                f"; if it is meant to be slower, write speeds: {{{self.host}:{self.wanted['port']}: {speed // 1000}}}"
            )
        expected = f"{wanted or SPEED_MBPS} Mb/s"
        yield finding("fabric-link-speed", self.place, found=found, expected=expected, remedy=remedy, kind="fabric")

    # Neighbours ---------------------------------------------------------------------------------------------------

    def _neighbours(self, link: Mapping[str, object]) -> Iterator[Finding]:
        answered = {owner for mac in self.asked["answers"].values() for owner in self.owners.get(mac, {("", mac)})}
        # the halves of a port sit behind one switch in the adapter: its own twin hears all that it sends
        seen = {one for one in answered if _port(one) != _port((self.host, self.wanted["name"]))}
        for peer in self.wanted["peers"]:
            expected = (peer["host"], peer["interface"])
            twins = {one for one in seen if _port(one) == _port(expected)}
            # A peer that was not read (--limit) is known by its address alone.
            unread = peer["host"] not in self.readings and peer["address"] in self.asked["answers"]
            # Where the kernel's settings let either half answer for both, it is a ping that proves the way.
            if expected in twins or unread or (twins and self.asked["pings"].get(peer["address"] or "") == ""):
                yield from self._frames(peer, link)
            else:
                yield self._wrong_neighbour(peer, seen - twins, by_twin=bool(twins))

    def _wrong_neighbour(self, peer: Peer, seen: set[tuple[str, str]], *, by_twin: bool) -> Finding:
        expected = where(peer["host"], peer["interface"]).text
        # of each port the half that is like this one
        like = {known.interface for known in RAILS.values() if known.half == self.wanted["half"]}
        of_ports = {_port(one): one for one in sorted(seen, key=lambda one: (one[1] in like, one))}
        places = sorted(of_ports.values())
        strangers = [where(host, name).text if host else f"an unknown machine ({name})" for host, name in places]
        if self.wanted["kind"] == "cable" and strangers:
            remedy = f"plug this cable where it is declared to go, or declare it as it hangs: {', '.join(strangers)}"
            return worded.fabric_error(
                "fabric-wrong-peer", self.place, expected=expected, remedy=remedy, strangers=", ".join(strangers)
            )
        others = [*strangers, *(["the other half of its port"] if by_twin else [])]
        found = f"it does not answer, others do: {', '.join(others)}" if others else "a carrier, but nobody answers"
        remedy = f"see that {peer['host']} is converged (site.yml) and its interface up"
        return self._of_peer(peer["host"], "fabric-no-peer", found=found, expected=expected, remedy=remedy)

    def _frames(self, peer: Peer, link: Mapping[str, object]) -> Iterator[Finding]:
        """Link-local addresses are not planned: the peer's are those that its interface answered for."""
        its = (peer["host"], peer["interface"])
        answered = [address for address, mac in self.asked["answers"].items() if its in self.owners.get(mac, ())]
        for address in [peer["address"]] if peer["address"] else answered:
            if message := self.asked["pings"].get(address, ""):
                found = f"packets of {link['mtu']} bytes to {peer['host']} ({address}) do not come back: {message}"
                remedy = "set the MTU of the other end, and of a switch between, to the same"
                expected = f"whole packets of {link['mtu']} bytes"
                yield self._of_peer(peer["host"], "fabric-frames", found=found, expected=expected, remedy=remedy)

    # RDMA ---------------------------------------------------------------------------------------------------------

    def _rdma(self, device: str, link: Mapping[str, Any]) -> Iterator[Finding]:
        port = self.reading["rdma"].get(device)
        if port is None:
            remedy = "load the driver: `modprobe mlx5_ib`; `rdma link`"
            yield worded.fabric_error("fabric-no-rdma-device", self.place, expected=device, remedy=remedy)
            return
        if port["state"] != "ACTIVE":
            found = f"{device} is {port['state'] or 'unreadable'}"
            yield worded.fabric_error("fabric-rdma-state", self.place, found=found)
        if port["link_layer"] != "Ethernet":
            remedy = f"set the port to Ethernet: `mlxconfig -d ... set LINK_TYPE_P1=2`, then {POWER_BOTH}"
            found = f"link layer {port['link_layer'] or 'unknown'}"
            yield worded.fabric_error("fabric-link-layer", self.place, found=found, remedy=remedy)
        table = [Gid(row["index"], row["gid"], row["type"], self.wanted["name"]) for row in port["gids"]]
        planned = self.wanted["address"]
        for address in (text.partition("/")[0] for text in ([planned] if planned else link["addresses"])):
            if index_of(table, address) is None:
                name = self.wanted["name"]
                remedy = f"run site.yml; if the address is set, set it again: `nmcli connection up netplan-{name}`, or "
                remedy += f"`networkctl reconfigure {name}` where networkd configures it"
                found = f"{device} has no RoCE v2 GID for {address}"
                yield worded.fabric_error("fabric-no-gid", self.place, found=found, remedy=remedy)


def _port(one: tuple[str, str]) -> tuple[str, str]:
    """The host and port of an interface, or the interface itself where it is no half of a port."""
    known = RAILS.get(one[1])
    return one[0], str(known.port) if known else one[1]
