# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement: what stops a first run on a host, what will hurt, what will be changed. Over bundles alone, so that a
host and its file are judged alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..._base.findings import Difference, Finding, finding_of, host_error, host_warning, of_sudo, ordered, refusal
from ..._base.place import Place
from ..._base.subject import View
from ..._plan.preflight.groups import of_groups
from ..._plan.preflight.needs import obstacles, preflight
from ..._subjects.fabric.subject import FABRIC
from ..._subjects.state import READS
from ..._subjects.system.subject import SYSTEM, versions

Verdict = Literal["ready", "will be changed", "stops you", "could not look"]
# Subjects whose differences are of the machine and not of what we set: no playbook repairs those.
_OF_THE_MACHINE = (FABRIC, SYSTEM)
# What a machine without Docker can't show; site.yml installs it.
_OF_DOCKER = {"containers", "images"}
# What can only be told once both ends have their addresses.
_LATER = {"fabric-no-peer", "fabric-frames"}


@dataclass(frozen=True)
class Examined:
    """One host. why: the reason why it could not be read; bundle: None then."""

    host: str
    findings: tuple[Finding, ...]
    bundle: Mapping[str, Any] | None
    why: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.bundle is None:
            return "could not look"
        if any(one.severity == "error" for one in self.findings):
            return "stops you"
        return "will be changed" if self.bundle["changes"] else "ready"


def examine(bundle: Mapping[str, Any]) -> Examined:
    """What a bundle shows. FleetError for one that lacks what the judgement needs."""
    host = bundle["host"]
    state = {**dict.fromkeys(READS), **bundle["state"]}
    try:
        found = [*_found(host, bundle, state)]
        found += [finding_of(one) for one in bundle["together"]]
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise refusal(
            "doctor-bundle",
            Place(host=host),
            found=f"it can't be judged: {type(cause).__name__} {cause}",
            expected="a file of this collection's doctor.yml, unchanged",
            remedy="ask for a new one: ansible-playbook doctor.yml",
        ) from cause
    seen: dict[tuple[str, str], Finding] = {}
    for one in found:
        seen.setdefault((one.rule, one.place), one)
    findings = [one for one in seen.values() if one.severity != "hint"]
    return Examined(host, tuple(ordered(findings)), bundle)


def _found(host: str, bundle: Mapping[str, Any], state: Mapping[str, Any]) -> Iterator[Finding]:
    mine = bundle["slice"]
    yield from obstacles(host, mine, state)
    yield from preflight(mine["needs"], state)
    view = View(host, {"hosts": {host: mine}, "drift": bundle["drift"], "services": {}}, {host: state})
    for subject in _OF_THE_MACHINE:
        for one in subject.differences(view):
            if isinstance(one, Difference) and not one.repairs and one.rule not in _LATER:
                yield _plain(one)
    of_docker = _OF_DOCKER if not (state["engine"] or {"installed": True})["installed"] else set()
    for part, why in sorted(bundle["unknown"].items()):
        if part in bundle["state"] and part not in of_docker:
            yield host_warning(
                "doctor-unread",
                part,
                found=f"it could not be read: {why}",
                remedy="mend that, then run doctor.yml again: what could not be read was not judged",
            )


def _plain(one: Difference) -> Finding:
    return Finding(
        rule=one.rule,
        kind=one.kind,
        severity=one.severity,
        at=replace(one.at, host=""),
        found=one.found,
        expected=one.expected,
        remedy=one.remedy,
        reason=one.reason,
        source=one.source,
    )


def together(plan: Mapping[str, Any], states: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Finding]]:
    """By host what only several hosts show: ranks of one service on hosts that differ."""
    compared = {
        host: {
            **state,
            "images": {name: image and image["identity"] for name, image in (state["images"] or {}).items()},
        }
        for host, state in states.items()
    }
    return {
        host: ordered(of_groups(plan["hosts"][host]["needs"]["groups"], compared))
        for host in states
        if plan["hosts"][host]["needs"]["groups"]
    }


def silent(host: str, why: str) -> Examined:
    """A host that could not be read, with the way to one that can."""
    remedy = of_sudo(why) or "bring it up, see that `ansible HOST -m ping` comes back, then run doctor.yml again"
    finding = host_error(
        "doctor-silent", Place(host=host), found=why or "no answer", expected="a host that can be read", remedy=remedy
    )
    return Examined(host, (finding,), None, why)


def facts(bundle: Mapping[str, Any]) -> dict[str, str]:
    """What the machine is, in one row."""
    state = bundle["state"]
    found, memory = versions(state), state.get("memory_bytes") or {}
    network = state.get("network") or {}
    shown = {name: found[name] or "-" for name in ("ota", "bios", "kernel", "driver", "nic_firmware", "docker")}
    return {
        "host": bundle["host"],
        **shown,
        "memory": f"{memory['total'] / (1 << 30):.1f} GiB" if memory else "-",
        "network": ", ".join(network.get("renderers", [])) or "-",
        "iommu": ", ".join(sorted({*(state.get("iommu") or {}).values()})) or "-",
    }
