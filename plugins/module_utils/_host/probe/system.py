# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the running system: kernel and its settings, firmware, packages, units, clock, memory, disks."""

import platform
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._base.staging import existing_parent
from ..settings.kernel_settings import normalised, swap_areas, sysctl_path
from .parts import Part, Run, UnreadableError, output
from .units import read_units

# Highest first (sysctl.d(5), systemd-system.conf(5)).
_ROOTS = tuple(map(Path, ("/etc", "/run", "/usr/local/lib", "/usr/lib")))
_SYSCTL = tuple(root / "sysctl.d" for root in _ROOTS)
_SYSTEMD = tuple(root / "systemd" / "system.conf.d" for root in _ROOTS)
# As long as systemd-networkd-wait-online waits for a network, which Docker's unit waits for.
_BOOT_S = 120.0
_INFINIBAND = Path("/sys/class/infiniband")
_DRIVER = Path("/sys/module/nvidia/version")


def read_later(ours: Mapping[str, str], folders: Sequence[Path]) -> list[dict[str, Any]]:
    """``{key, value, file, line}`` of every setting of ours that a file sets too which is read later at boot.

    ours: ``{key: our file}``. systemd reads the files of all folders in the order of their names, and one of the same
    name once, from the first folder that has it (sysctl.d(5), systemd-system.conf(5)).
    """
    files: dict[str, Path] = {}
    for folder in folders:
        for path in folder.glob("*.conf"):
            files.setdefault(path.name, path)
    return [
        {"key": key, "value": value, "file": str(path), "line": line}
        for name, path in sorted(files.items())
        if str(path) not in ours.values()
        for key, value, line in _settings(path)
        if key in ours and name > Path(ours[key]).name
    ]


def _settings(path: Path) -> Iterator[tuple[str, str, int]]:
    """Key, value and line of each setting of a file; none of a file that can't be read."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for number, line in enumerate(lines, 1):
        key, is_set, value = line.strip().lstrip("-").partition("=")
        if is_set:
            yield key.strip().replace("/", "."), normalised(value), number


def read_kernel(run: Run) -> dict[str, Any]:
    """``{release, cmdline, swap, read_ahead: {disk: KiB}, memlock}``: what runs, not what the files say."""
    disks = sorted(path for path in Path("/sys/block").glob("nvme*") if re.fullmatch(r"nvme\d+n\d+", path.name))
    shown = output(run, ["systemctl", "show", "--property=DefaultLimitMEMLOCK"])
    return {
        "release": platform.release(),
        "cmdline": Path("/proc/cmdline").read_text(encoding="utf-8").strip(),
        "swap": swap_areas(Path("/proc/swaps").read_text(encoding="utf-8")),
        "read_ahead": {disk.name: int(_text(disk / "queue" / "read_ahead_kb") or -1) for disk in disks},
        "memlock": shown.strip().partition("=")[2],
        "reboot_required": Path("/run/reboot-required").exists(),
    }


# What the kernel knows the use of: what is neither here nor free was taken by a driver, on a GB10 the GPU's.
_ACCOUNTED = ("MemFree", "Buffers", "Cached", "AnonPages", "Slab", "PageTables", "KernelStack", "SwapCached", "Percpu")


def memory_bytes(meminfo: str) -> dict[str, int]:
    """Of /proc/meminfo's text, in bytes: ``{total, available, swapped, unaccounted}``.

    swapped: what lies in swap. unaccounted: what no process, cache or table of the kernel holds, so a driver does.
    """
    found = {name: int(kib) * 1024 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB$", meminfo, re.MULTILINE)}
    if not {"MemTotal", "MemAvailable"} <= found.keys():
        raise UnreadableError("/proc/meminfo lacks MemTotal or MemAvailable")
    known = sum(found.get(name, 0) for name in _ACCOUNTED)
    return {
        "total": found["MemTotal"],
        "available": found["MemAvailable"],
        "swapped": found.get("SwapTotal", 0) - found.get("SwapFree", 0),
        "unaccounted": max(0, found["MemTotal"] - known) if "MemFree" in found else 0,
    }


def read_driver(run: Run) -> str | None:
    """NVIDIA's driver; None where there is none."""
    if _DRIVER.exists():
        return _DRIVER.read_text(encoding="ascii").strip()
    try:
        code, out, _err = run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    except FileNotFoundError:
        return None
    return out.strip() if code == 0 else None


def read_firmware() -> dict[str, str | None]:
    """The ConnectX-7 firmware; None where there is no such device."""
    firmware = sorted({_text(path) or "" for path in _INFINIBAND.glob("*/fw_ver")} - {""})
    return {"nic_firmware": ", ".join(firmware) or None}


def read_packages(run: Run, names: Iterable[str]) -> dict[str, dict[str, Any] | None]:
    """``{version, held}`` by name; None for one that is not installed."""
    wanted = sorted(names)
    form = "${Package} ${db:Status-Want} ${db:Status-Status} ${Version}\n"
    try:
        _code, out, _err = run(["dpkg-query", "--show", f"--showformat={form}", *wanted])
    except FileNotFoundError as error:
        raise UnreadableError("there is no dpkg-query") from error
    rows = (line.split() for line in out.splitlines())
    found = {row[0]: {"version": row[3], "held": row[1] == "hold"} for row in rows if row[2:3] == ["installed"]}
    return {name: found.get(name) for name in wanted}


def wait_for_boot(
    run: Run, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Until the host has booted, at most `_BOOT_S` seconds: SSH lets people in while units and addresses still come.

    It has once systemd's default target has no job left. `systemctl is-system-running` would wait for what a timer has
    started as well, which may be the check that asks.
    """
    end = clock() + _BOOT_S
    try:
        while output(run, ["systemctl", "show", "--property=Job", "--value", "default.target"]).strip():
            if clock() >= end:
                return
            sleep(0.5)
    except UnreadableError:
        return  # no systemd runs here: each part says for itself what it lacks


def free_bytes(paths: Iterable[str]) -> dict[str, dict[str, int]]:
    """``{free, total}`` of the file system of each path, or of its nearest parent that exists."""
    disks = {name: shutil.disk_usage(existing_parent(Path(name))) for name in paths}
    return {name: {"free": disk.free, "total": disk.total} for name, disk in disks.items()}


def _text(path: Path) -> str | None:
    try:
        return normalised(path.read_text(encoding="utf-8"))
    except OSError:
        return None


READS: Mapping[str, Part] = {
    # None for a key that this kernel does not have
    "sysctl": lambda _run, ask: {key: _text(sysctl_path(key)) for key in sorted(ask["sysctl"])},
    "sysctl_later": lambda _run, ask: read_later(ask["sysctl_files"], _SYSCTL),
    "memlock_later": lambda _run, ask: read_later(ask["memlock_files"], _SYSTEMD),
    "kernel": lambda run, _ask: read_kernel(run),
    "firmware": lambda _run, _ask: read_firmware(),
    "packages": lambda run, ask: read_packages(run, ask["packages"]),
    "units": lambda run, ask: read_units(run, ask["units"]),
    "clock": lambda _run, _ask: time.time(),
    "disks": lambda _run, ask: free_bytes(ask["disks"]),
}
