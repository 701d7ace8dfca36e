# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The running system: kernel settings, swap, read-ahead, limits; versions and packages; clock, memory, disks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._drift.difference import SITE, Difference, View
from ansible_collections.gb10.fleet.plugins.module_utils._findings import Severity
from ansible_collections.gb10.fleet.plugins.module_utils._host_tuning.files import systemd_limit
from ansible_collections.gb10.fleet.plugins.module_utils._settings.kernel_settings import OFF, normalised
from ansible_collections.gb10.fleet.plugins.module_utils._sizes import GIB, size


def _differs(
    view: View, resource: str, rule: str, want: str, have: str, severity: Severity, remedy: str, **more: str
) -> Difference:
    return Difference(view.host, resource, rule, want, have, severity, remedy, **more)


def _repaired(view: View, resource: str, rule: str, want: str, have: str) -> Difference:
    return _differs(view, resource, rule, want, have, "warning", view.converge(SITE), repairs=SITE)


def of_sysctl(view: View) -> Iterator[Difference]:
    """Live values: a file can be right and the kernel not, or the other way round."""
    live = view.state["sysctl"]
    if live is None:
        return
    for part in ("host_tuning", "fabric"):
        for key, value in sorted(view.slice[part].get("sysctl", {}).items()):
            want, have = normalised(str(value)), live[key]
            if want != have:
                yield _repaired(view, f"sysctl {key}", "sysctl-live", want, have or "no such setting")


def of_kernel(view: View) -> Iterator[Difference]:
    """Swap, read-ahead and the limit on locked memory, as they are now."""
    kernel, tuning = view.state["kernel"], view.slice["host_tuning"]
    if kernel is None:
        return
    if "swap" in tuning and tuning["swap"] != (kernel["swap"] != OFF):
        yield _repaired(view, "swap", "swap-live", "on" if tuning["swap"] else "off", kernel["swap"])
    for disk, kib in sorted(kernel["read_ahead"].items()):
        if kib != tuning.get("read_ahead_kb", kib):
            want = f"{tuning['read_ahead_kb']} KiB"
            yield _repaired(view, f"read-ahead of {disk}", "read-ahead-live", want, f"{kib} KiB")
    if "memlock" in tuning and _kib(kernel["memlock"]) != _kib(systemd_limit(tuning["memlock"])):
        want = f"DefaultLimitMEMLOCK={systemd_limit(tuning['memlock'])}"
        yield _differs(
            view, "systemd's limit on locked memory", "memlock-live", want, kernel["memlock"], "warning",
            "systemctl daemon-reexec, then restart the services",
        )  # fmt: skip
    if kernel["reboot_required"]:
        yield _differs(
            view, "reboot", "reboot-pending", "what is installed runs", "an update waits for a reboot", "hint",
            "reboot the host when its services may stop",
        )  # fmt: skip


def _kib(limit: str) -> str:
    """systemd shows bytes where KiB were written."""
    return f"{int(limit) // 1024}K" if limit.isdecimal() else limit


def versions(state: Mapping[str, Any]) -> dict[str, str | None]:
    """What runs, by the names of ``fleet_host.versions``; None where there is none or it could not be read."""
    kernel, firmware, engine = state["kernel"] or {}, state["firmware"] or {}, state["engine"] or {}
    return {
        "kernel": kernel.get("release"),
        "driver": state["driver"],
        "nic_firmware": firmware.get("nic_firmware"),
        "docker": engine.get("version"),
        "docker_store": engine.get("store"),
    }


def of_versions(view: View) -> Iterator[Difference]:
    """Declared versions, and packages that are to be held."""
    found = versions(view.state)
    for name, pattern in sorted(view.slice["versions"]["running"].items()):
        have = found[name]
        if have is not None and not fnmatchcase(have, pattern):
            yield _differs(
                view, f"version of {name}", "version", pattern, have, "warning",
                "install the declared version, or declare this one in fleet_host.versions",
            )  # fmt: skip
    packages = view.state["packages"]
    for name in view.slice["versions"]["held"] if packages is not None else ():
        package = packages[name]
        if package is None or not package["held"]:
            have = "not installed" if package is None else f"{package['version']}, not held"
            yield _differs(
                view, f"package {name}", "package-held", "held", have, "warning",
                f"sudo apt-get install {name}; sudo apt-mark hold {name}",
            )  # fmt: skip
    if packages is not None and packages["earlyoom"]:
        yield _differs(
            view, "package earlyoom", "package-earlyoom", "not installed", str(packages["earlyoom"]["version"]), "hint",
            "sudo apt-get remove earlyoom, or accept it",
            reason="it ends a model load that needs most of the memory for a moment", source="peers, contradictions",
        )  # fmt: skip


def of_room(view: View) -> Iterator[Difference]:
    """Free memory and disk."""
    free, memory, disks = view.settings["free"], view.state["memory_bytes"], view.state["disks"]
    if memory is not None and memory["available"] < free["memory_gib"] * GIB:
        yield _differs(
            view, "free memory", "memory-low", f"at least {size(int(free['memory_gib'] * GIB))}",
            size(memory["available"]), "warning",
            "see what takes it (ps aux --sort=-rss | head; docker stats --no-stream), and stop what nobody declared",
            reason="below this the kernel reclaims what the GPU needs, and a host hangs instead of failing",
        )  # fmt: skip
    seen: set[tuple[int, int]] = set()
    for path, disk in sorted((disks or {}).items()):
        if disk["free"] < free["disk_gib"] * GIB and (disk["free"], disk["total"]) not in seen:
            # paths with equal figures lie on one file system
            seen.add((disk["free"], disk["total"]))
            yield _differs(
                view, f"disk of {path}", "disk-low", f"at least {size(int(free['disk_gib'] * GIB))} free",
                f"{size(disk['free'])} of {size(disk['total'])}", "warning",
                "remove what is not needed: docker image prune, or prune.yml of the roles image_store and model_store",
            )  # fmt: skip


def of_clock(view: View) -> Iterator[Difference]:
    """The host's clock against the controller's. The reading lies somewhere between asking and hearing the answer."""
    clock, asked = view.state["clock"], view.state["asked_between"]
    if clock is None or asked is None:
        return
    ahead, behind = clock - asked[1], asked[0] - clock
    allowed = view.settings["clock_s"]
    if max(ahead, behind) > allowed:
        way = "ahead of" if ahead > behind else "behind"
        yield _differs(
            view, "clock", "clock-off", f"within {allowed} s of the controller's",
            f"at least {max(ahead, behind):.0f} s {way} it", "warning",
            "sudo timedatectl set-ntp true; timedatectl timesync-status says whom it asks",
            reason="logs of ranks don't line up, and certificates and tokens fail",
        )  # fmt: skip
