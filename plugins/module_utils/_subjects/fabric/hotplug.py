# SPDX-License-Identifier: GPL-3.0-or-later
"""The ConnectX-7's hot-plug, as DGX OS has it since spring 2026: what it does to a host, and what that makes of a link.

With the package dgx-spark-mlnx-hotplug and its marker file, the adapter is removed from the PCI bus while no cable is
seen: cable pulled, or the machine at its other end switched off. Interfaces and RDMA devices are gone then. Once the
cable is back they return, and the link says 200 Gb/s, but many of them carry a seventh of it until the machine is
started with the cable in. Sources: NVIDIA/NV-Kernels pull request 271; NVIDIA's Holoscan guide, which renames the
marker; owners' journals of July to September 2026 (docs/reference/sources.md).
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ..._base.findings import Finding, fabric_error, warning
from ..._base.place import Place
from ..._base.slice import FabricSlice, Gates
from .bandwidth import POWER_DRAIN_SOURCE, gate, power_drain
from .hardware import DEGRADED_GBPS, SPEED_MBPS

MARKER = "/etc/nvidia/cx7-hotplug-enabled"
# The name that NVIDIA's own guide gives it.
DISABLED = "/etc/nvidia/cx7-hotplug-disabled"
STATE = "/sys/devices/platform/MTKP0001:00/pcie_hotplug/debug_state"
ENABLED = "/sys/devices/platform/MTKP0001:00/pcie_hotplug/hotplug_enabled"
# Gone with a boot, as is what it says.
MEASURED = "/run/gb10-fabric/bandwidth.json"
_PLUGIN = re.compile(r"^\[\s*(?P<seconds>\d+\.\d+)\].*\bcx7-pcie-hotplug \S+ Cable plugin\s*$", re.MULTILINE)
_SOURCE = "NVIDIA/NV-Kernels pull request 271; owners' journals of September 2026"
_warning = partial(warning, kind="fabric", source=_SOURCE)

ABSENT = "the adapter is switched off, since hot-plug sees no cable, or no machine that is on at its other end"
# One machine alone does not help: while it starts, the adapter of the other one leaves.
_UNLESS = "unless doctor.yml shows restart-known-bad"
RESTART = f"restart the machines at both ends at the same time, the cable in, {_UNLESS}"
POWER_BOTH = f"power off and on both ends, {_UNLESS}"
SEAT = (
    f"push the plug in at both ends until it clicks, then {RESTART}; never rescan the PCI bus, that hangs the machine; "
    "`hotplug: off` in fleet_fabric prevents it"
)


def plugged_at(journal: str) -> float | None:
    """Seconds after the boot of the last cable that was plugged in since, from the journal with monotonic times."""
    return max((float(found["seconds"]) for found in _PLUGIN.finditer(journal)), default=None)


def parse_measured(text: str) -> dict[str, dict[str, Any]]:
    """What was measured since the boot: interface -> {gbps, peer, speed_mbps, at_s}; a damaged record holds nothing."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    rows = found.items() if isinstance(found, dict) else ()
    return {
        name: row
        for name, row in rows
        if isinstance(row, dict)
        and all(isinstance(row.get(key), int | float) for key in ("gbps", "speed_mbps", "at_s"))
        and isinstance(row.get("peer"), str)
    }


def absent(adapter: Mapping[str, object]) -> str:
    """Why there is no adapter, where hot-plug is the reason; else empty."""
    if adapter["state"] == "0" or (adapter["marker"] and adapter["state"] != "1"):
        return ABSENT
    return ""


def unproven(adapter: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """The interfaces whose bandwidth was not measured since a cable was last plugged in."""
    plugged = adapter["plugged_s"]
    if plugged is None:
        return []
    return [name for name in names if name not in adapter["measured"] or adapter["measured"][name]["at_s"] < plugged]


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
        remedy = f"run site.yml, then restart the machine, {_UNLESS}"
        findings.append(
            _warning("fabric-hotplug-on", place, found=f"{MARKER} is there", expected="no hot-plug", remedy=remedy)
        )
    elif plan["hotplug"] == "off" and adapter["enabled"]:
        found = "hot-plug is on until the machine restarts"
        remedy = f"restart the machine, {_UNLESS}"
        findings.append(_warning("fabric-hotplug-restart", place, found=found, expected="no hot-plug", remedy=remedy))
    elif adapter["marker"]:
        remedy = f"write hotplug: off in fleet_fabric (15 to 20 W more when idle), run site.yml, restart it, {_UNLESS}"
        reason = "a pulled cable, or a machine that is switched off at its other end, takes the adapter away"
        findings.append(
            _warning("fabric-hotplug", place, found="hot-plug is on", expected="", remedy=remedy, reason=reason)
        )
    if names := unproven(adapter, rails):
        minutes = f"{adapter['plugged_s'] / 60:.0f}"
        found = f"a cable was plugged in {minutes} min after the start, and {', '.join(names)} not measured since"
        remedy = f"ansible-playbook verify.yml measures it; if it is slow, {RESTART}"
        reason = "a link that was plugged in while the machine ran often carries 13 Gb/s, whatever speed it says"
        findings.append(
            _warning("fabric-replugged", place, found=found, expected="a measurement", remedy=remedy, reason=reason)
        )
    return findings


def judge_earlier(host: str, gates: Gates, adapter: Mapping[str, Any], names: Mapping[str, Place]) -> list[Finding]:
    """Measurements since the boot that were below the gate. names: the place of each interface."""
    findings = []
    for name, place in names.items():
        row = adapter["measured"].get(name)
        if row is None or row["gbps"] >= (wanted := gate(gates, 1, int(row["speed_mbps"]) or SPEED_MBPS)):
            continue
        low, high = DEGRADED_GBPS
        rule = "fabric-degraded" if low <= row["gbps"] <= high else "fabric-bandwidth"
        found = f"it sent {row['gbps']:.1f} Gb/s to {row['peer']} when it was last measured, since the machine's start"
        expected, remedy = f"at least {wanted:g} Gb/s", power_drain(host)
        findings.append(
            fabric_error(rule, place, found=found, expected=expected, remedy=remedy, source=POWER_DRAIN_SOURCE)
        )
    return findings
