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
from typing import Any

MARKER = "/etc/nvidia/cx7-hotplug-enabled"
# The name that NVIDIA's own guide gives it.
DISABLED = "/etc/nvidia/cx7-hotplug-disabled"
STATE = "/sys/devices/platform/MTKP0001:00/pcie_hotplug/debug_state"
ENABLED = "/sys/devices/platform/MTKP0001:00/pcie_hotplug/hotplug_enabled"
# Gone with a boot, as is what it says.
MEASURED = "/run/gb10-fabric/bandwidth.json"
_PLUGIN = re.compile(r"^\[\s*(?P<seconds>\d+\.\d+)\].*\bcx7-pcie-hotplug \S+ Cable plugin\s*$", re.MULTILINE)

ABSENT = "the adapter is switched off, since hot-plug sees no cable, or no machine that is on at its other end"
# One machine alone does not help: while it starts, the adapter of the other one leaves.
UNLESS = "unless doctor.yml shows restart-known-bad"
RESTART = f"restart the machines at both ends at the same time, the cable in, {UNLESS}"
POWER_BOTH = f"power off and on both ends, {UNLESS}"
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
