# SPDX-License-Identifier: GPL-3.0-or-later
"""The packet filter: its units, its file of rules, and what the kernel holds."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..._base import worded
from ..._base.findings import Difference, Finding
from ..._base.gb10 import data_table
from ..._base.received import Foreign, one_line
from ..._base.slice import Files, FirewallSlice, Rules
from ..._base.subject import (
    Differences,
    DriftContext,
    PreflightContext,
    Questions,
    SliceContext,
    Subject,
    Unknown,
    unified,
)
from ..._host.probe.listeners import holder
from .host import FILE, UNIT
from .plan import HOST, plan_firewall
from .reading import READS
from .ruleset import TABLE

# Our units, and the files that they are made of. The second brings our table back after nftables' own unit flushed all.
_UNITS = {
    f"/etc/systemd/system/{UNIT}": "roles/firewall/files/gb10-firewall.service",
    "/etc/systemd/system/nftables.service.d/gb10-fleet.conf": "roles/firewall/files/nftables.conf",
}


def firewall(here: SliceContext) -> FirewallSlice:
    """``firewall_plan``."""
    return with_files(
        plan_firewall(
            here.settings.get("firewall"),
            here.fleet["firewall"],
            here.apis,
            here.peers,
            here.slices["fabric"],
            here.meetings,
        )
    )


def with_files(plan: Rules) -> FirewallSlice:
    """The plan with our units; on a host that is open they are not to be."""
    is_filtered = plan["state"] != "open"
    files: Files = {
        path: {"mode": "0644", "source": source} if is_filtered else {"mode": "0644", "content": None}
        for path, source in _UNITS.items()
    }
    return {**plan, "files": files, "units": {UNIT: "enabled"} if is_filtered else {}}


def _questions(asked: Questions) -> Mapping[str, Any]:
    return {"firewall": asked.slice["firewall"]}


def _differences(view: DriftContext) -> Differences:
    """Our table of rules: its file, and what the kernel holds, each against the planned rules; they are two things."""
    found = view.state["firewall"]
    if found is None:
        return
    if found["text"] != found["planned"]:
        yield _rules(view, f"file {FILE}", "firewall-file", found["planned"], found["text"], "no such file")
    table = f"nftables table {TABLE}"
    if found["why"]:
        yield Unknown(view.host, table, one_line(found["why"], 4096))
    elif found["live"] != found["live_planned"]:
        yield _rules(view, table, "firewall-live", found["live_planned"], found["live"], "not in the kernel")


def _rules(view: DriftContext, place: str, rule: str, want: Foreign, have: Foreign, nothing: str) -> Difference:
    return view.difference(
        "error",
        rule,
        place,
        found="other rules" if have else nothing,
        expected="the planned rules" if want else nothing,
        diff=unified(want, have) if want and have else "",
    )


# Programs of every DGX OS that listen and that the rules let in, or that only ask (DHCP, time, names).
_SYSTEM: Collection[str] = data_table("system_programs")
# From here on the kernel gives ports to programs that only ask (net.ipv4.ip_local_port_range).
_ASKING = 32768


def _obstacles(look: PreflightContext) -> Iterator[Finding]:
    """Who else listens on a host that is to be closed for the first time: nobody is cut off unasked."""
    plan = look.slice["firewall"]
    if plan["state"] != "closed" or look.state.get("closed"):
        return
    known = {(opened["protocol"], opened["port"]) for opened in plan["open"]}
    for protocol, found in (("tcp", look.state.get("listening")), ("udp", look.state.get("listening_udp"))):
        listeners = {
            listener["port"]: listener
            for listener in found or ()
            if not listener["local"]
            and listener["process"] not in _SYSTEM
            and (protocol == "tcp" or listener["port"] < _ASKING)
        }
        for port, one in sorted(listeners.items()):
            if (protocol, port) not in known and port not in plan["shut"]:
                yield _cut(port, protocol, holder(one, look.state.get("containers") or ()) or one_line(one["process"]))


def _cut(port: int, protocol: str, who: str) -> Finding:
    return worded.host_error(
        "firewall-unknown-listener", f"port {port}/{protocol}", who=who or "a program", port=port, protocol=protocol
    )


FIREWALL = Subject(
    "firewall", HOST, firewall, questions=_questions, read=READS, differences=_differences, obstacles=_obstacles
)
