# SPDX-License-Identifier: GPL-3.0-or-later
"""Cables, addresses, frames, RDMA devices and GIDs: `_subjects.fabric.judge` over what the hosts read of themselves."""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..._base.findings import Difference, Finding
from ..._base.plan import Plan
from ..._base.received import one_line
from ..._base.subject import SITE, Differences, DriftContext, PreflightContext, Questions, Subject, Unknown
from ..._host.netplan.document import PATH as NETPLAN
from ..._host.netplan.judge import foreign_remedy
from .bandwidth import judge_adapter
from .hardware import RAILS, where
from .judge import judge
from .reading import READS

# What the role fabric puts right where the fleet keeps the fabric; anything else is a cable, a machine or its firmware.
_REPAIRED = {"fabric-link-down", "fabric-mtu", "fabric-address", "fabric-no-gid", "fabric-hotplug-on"}
# What also comes of a host at the other end that is off.
_OF_THE_PEER = {"fabric-no-carrier", "fabric-no-peer", "fabric-frames"}
# What hot-plug is set to, and nobody has declared otherwise.
_CHOICES = {"fabric-hotplug", "fabric-hotplug-restart"}


def _questions(asked: Questions) -> Mapping[str, Any]:
    """Whom to ask on each interface. Any rail's address may answer on a cable that hangs wrongly."""
    interfaces = asked.slice["fabric"]["interfaces"]
    return {
        "rails": sorted(RAILS) if interfaces else [],
        "fabric": {
            "peers": {
                interface["name"]: [peer["address"] for peer in interface["peers"] if peer["address"]]
                for interface in interfaces
            },
            "candidates": asked.addresses,
            "devices": [interface["rdma_device"] for interface in interfaces if interface["rdma_device"]],
        },
    }


def rail_addresses(plan: Plan) -> list[str]:
    """Of all rails of the fleet."""
    return sorted(
        interface["address"].partition("/")[0]
        for host in plan["hosts"].values()
        for interface in host["fabric"]["interfaces"]
        if interface["address"] and interface["rdma_device"]
    )


def _differences(view: DriftContext) -> Differences:
    yield from _others_netplan(view)
    readings = {host: state["fabric"] for host, state in view.states.items() if state["fabric"] is not None}
    if view.host in readings:
        yield from _judged(view, readings)


def _judged(view: DriftContext, readings: Mapping[str, Mapping[str, object]]) -> Differences:
    """One host's rails. readings: of all hosts that could be read, since they show whose MAC address answers."""
    fabric = view.slice["fabric"]
    places = {where(view.host, interface["name"]): interface for interface in fabric["interfaces"]}
    for finding in judge(view.host, fabric, readings):
        if finding.rule in _CHOICES:
            continue  # of the owner's, and no difference from what is declared
        peers = places[finding.at]["peers"] if finding.at in places else ()
        away = sorted({peer["host"] for peer in peers} & {*view.silent})
        if finding.rule in _OF_THE_PEER and away:
            yield Unknown(view.host, finding.at.thing, f"{finding.found}, and {', '.join(away)} could not be read")
        else:
            yield _difference(view, finding)


def _difference(view: DriftContext, finding: Finding) -> Difference:
    is_repaired = finding.rule in _REPAIRED and view.slice["fabric"]["keeper"] == "fleet"
    return view.of_finding(replace(finding, remedy="") if is_repaired else finding, finding.at.thing)


def _foreign_remedy(path: str) -> str:
    if path.endswith(".network") or path.startswith("/etc/network/"):
        return "take these interfaces out of that file; where doctor.yml lets it, restart the host"
    if not path.startswith(posixpath.dirname(NETPLAN)):
        return "delete the profile on the host: `nmcli -f NAME,FILENAME connection`, `nmcli connection delete NAME`"
    return f"{foreign_remedy(path)}, or ansible-playbook {SITE} -e fabric_foreign=move"


def _others_netplan(view: DriftContext) -> Iterator[Difference]:
    """Files of others that speak for our rails: netplan joins all files, so an interface would get both."""
    if view.slice["fabric"]["keeper"] == "others":
        return
    planned = {interface["name"] for interface in view.slice["fabric"]["interfaces"]}
    for file in view.state["netplan"] or ():
        strange = sorted({*file["claims"]} & ({*RAILS} | planned)) if planned else []
        lines = [line for name, line in file.get("lines", {}).items() if name in strange]
        path = one_line(file["path"])
        if path != NETPLAN and strange:
            yield view.difference(
                "error",
                "netplan-foreign",
                f"netplan {path}" if path.endswith(".yaml") else path,
                found="it also does" + (f", in line {min(lines)}" if lines else ""),
                expected=f"{NETPLAN} alone speaks for {', '.join(map(one_line, strange))}",
                remedy=_foreign_remedy(path),
                reason="the interface gets its addresses too, or instead, at the next boot",
            )


def _obstacles(look: PreflightContext) -> Iterator[Finding]:
    """Hot-plug that will take the adapter away."""
    adapter = look.part("fabric").get("adapter")
    for finding in judge_adapter(look.host, look.slice["fabric"], adapter) if adapter else ():
        if finding.rule in _CHOICES:
            yield replace(finding, at=replace(finding.at, host=""))


FABRIC = Subject("fabric", questions=_questions, read=READS, differences=_differences, obstacles=_obstacles)
