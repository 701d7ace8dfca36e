# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement: what stops a first run on a host, what will hurt, what will be changed. Over bundles alone, so that a
host and its file are judged alike."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal, cast

from ..._base import worded
from ..._base.faults import Fault, guarded
from ..._base.findings import Difference, Finding, finding_of, of_sudo, ordered
from ..._base.place import Place
from ..._base.plan import Plan
from ..._base.reading import State
from ..._base.subject import DriftContext, PreflightContext, Subject
from ..._plan.preflight.groups import Alike, of_groups
from ..._plan.preflight.needs import preflight
from ..._subjects.fabric.judge import judge
from ..._subjects.fabric.subject import FABRIC
from ..._subjects.registry import SUBJECTS
from ..._subjects.state import READS
from ..._subjects.system.known_bad import reported, versions
from ..._subjects.system.next_boot import judged
from ..._subjects.system.subject import SYSTEM
from ..bench.expected import judged as slower
from ..bench.expected import records
from ..init.login import problem

Verdict = Literal["ready", "will be changed", "stops you", "could not look"]
# Subjects whose differences are of the machine and not of what we set: no playbook repairs those.
_OF_THE_MACHINE = (FABRIC, SYSTEM)
# What a machine without Docker can't show; site.yml installs it.
_OF_DOCKER = {"containers", "images"}
# What can only be told once both ends have their addresses.
_LATER = {"fabric-no-peer", "fabric-frames"}


@dataclass(frozen=True)
class Examined:
    """One host. why: the reason why it could not be read; bundle: None then. faults: what was not judged by a slip of
    ours."""

    host: str
    findings: tuple[Finding, ...]
    bundle: Mapping[str, Any] | None
    why: str = ""
    faults: tuple[Fault, ...] = ()

    @property
    def verdict(self) -> Verdict:
        if self.bundle is not None and any(finding.severity == "error" for finding in self.findings):
            return "stops you"
        if self.bundle is None or self.faults:
            return "could not look"
        return "will be changed" if self.bundle["changes"] else "ready"


def examine(bundle: Mapping[str, Any]) -> Examined:
    """What a bundle shows. A fault of ours in one subject ends none of the others."""
    host = bundle["host"]
    state = cast(State, {**dict.fromkeys(READS), **bundle["state"]})
    found = [*_found(host, bundle, state)]
    seen: dict[tuple[str, str], Finding] = {}
    for finding in found:
        if isinstance(finding, Finding) and finding.severity != "hint":
            seen.setdefault((finding.rule, finding.place), finding)
    faults = tuple(item for item in found if isinstance(item, Fault))
    return Examined(host, tuple(ordered(seen.values())), bundle, faults=faults)


def examine_file(bundle: Mapping[str, object]) -> Examined:
    """What a file shows that somebody else may have changed. FleetError for one that lacks what the judgement needs."""
    examined = examine(bundle)
    if examined.faults:
        raise worded.refusal(
            "doctor-bundle/examine-file",
            Place(host=examined.host),
            part=examined.faults[0].part,
            slip=examined.faults[0].slip,
        )
    return examined


def _found(host: str, bundle: Mapping[str, Any], state: State) -> Iterator[Finding | Fault]:
    mine = bundle["slice"]
    plan = cast(Plan, {"hosts": {host: mine}, "drift": bundle["drift"], "services": {}})
    view = DriftContext(host, plan, {host: state})
    for subject in SUBJECTS:
        yield from guarded(host, subject.name, partial(_in_the_way, subject, view.look))
    yield from guarded(host, "what the plan needs", lambda: preflight(mine["needs"], state))
    for subject in _OF_THE_MACHINE:
        yield from guarded(host, subject.name, partial(_lasting, subject, view))
    yield from guarded(host, "what could not be read", lambda: _unread(bundle, state))
    yield from guarded(host, "what hosts share", lambda: (finding_of(item) for item in bundle["together"]))


def _in_the_way(subject: Subject, look: PreflightContext) -> Iterator[Finding]:
    yield from (judged(look, obstacle) for obstacle in subject.obstacles(look))


def _lasting(subject: Subject, view: DriftContext) -> Iterator[Finding]:
    """What no playbook repairs."""
    for difference in subject.differences(view):
        if isinstance(difference, Difference) and not difference.repairs and difference.rule not in _LATER:
            yield judged(view.look, _plain(difference))


def _unread(bundle: Mapping[str, Any], state: State) -> Iterator[Finding]:
    of_docker = _OF_DOCKER if not (state["engine"] or {"installed": True})["installed"] else set()
    for part, why in sorted(bundle["unknown"].items()):
        if part in bundle["state"] and part not in of_docker:
            yield worded.host_warning("doctor-unread", part, why=why)


def _plain(difference: Difference) -> Finding:
    kept = {field.name: getattr(difference, field.name) for field in fields(Finding)}
    return Finding(**kept | {"at": replace(difference.at, host="")})


def together(plan: Plan, states: Mapping[str, State]) -> dict[str, list[Finding]]:
    """By host what only several hosts show: ranks of one service on hosts that differ, and machines that are slow."""
    compared: dict[str, Alike] = {
        host: {
            "architecture": state["architecture"],
            "driver": state["driver"],
            "images": {name: image and image["identity"] for name, image in (state["images"] or {}).items()},
        }
        for host, state in states.items()
    }
    readings = {host: state["fabric"] for host, state in states.items() if state["fabric"] is not None}
    slow = slower(plan, records(plan), {host: _of_rails(host, plan, readings) for host in readings})
    return {
        host: ordered(
            [
                *of_groups(plan["hosts"][host]["needs"]["groups"], compared),
                *(_plain(difference) for difference in slow if difference.host == host),
            ]
        )
        for host in states
        if plan["hosts"][host]["needs"]["groups"] or any(difference.host == host for difference in slow)
    }


def _of_rails(host: str, plan: Plan, readings: Mapping[str, Mapping[str, Any]]) -> str:
    """What is wrong with a host's rails first; empty where nothing is."""
    found = judge(host, plan["hosts"][host]["fabric"], readings)
    return next((f"{one.at.text}: {one.found}" for one in found if one.severity != "hint"), "")


def silent(host: str, why: str) -> Examined:
    """A host that could not be read, with the way to one that can."""
    otherwise = "bring it up, see that `ansible HOST -m ping` comes back, then run doctor.yml again"
    found, remedy = problem(host, "your account", why) or (why or "no answer", of_sudo(why) or otherwise)
    finding = worded.host_error("doctor-silent", Place(host=host), found=found, remedy=remedy)
    return Examined(host, (finding,), None, why)


def facts(bundle: Mapping[str, Any]) -> dict[str, str]:
    """What the machine is, in one row."""
    state = bundle["state"]
    found, memory = versions(state), state.get("memory_bytes") or {}
    network = state.get("network") or {}
    shown = {name: found[name] or "-" for name in ("ota", "bios", "kernel", "driver")}
    # one look at the fleet shows which hosts run a kernel and a driver that nobody has reported together
    shown["reported"] = (found["driver"] and (reported(state) or "by nobody")) or "-"
    shown |= {name: found[name] or "-" for name in ("nic_firmware", "docker")}
    return {
        "host": bundle["host"],
        **shown,
        "memory": f"{memory['total'] / (1 << 30):.1f} GiB" if memory else "-",
        "network": ", ".join(network.get("renderers", [])) or "-",
        "iommu": ", ".join(sorted({*(state.get("iommu") or {}).values()})) or "-",
    }
