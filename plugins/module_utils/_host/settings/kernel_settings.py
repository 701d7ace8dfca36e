# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running kernel is set to: sysctl keys, disks' read-ahead, swap. Read as one flat map, compared, then written.

Live values and the files that set them at boot are two things: either can drift without the other.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..._base.findings import Finding, FleetError, error, host_error
from ..._base.place import Place
from ..._base.sizes import GIB, size

# (exit code, stdout, stderr) of an argument list
Run = Callable[[list[str]], tuple[int, str, str]]
Values = dict[str, str]

SWAP, ON, OFF = "swap", "on", "off"
_READ_AHEAD = "queue/read_ahead_kb"
_MEMINFO = Path("/proc/meminfo")
# Writing one of a pair zeroes the other (Linux, Documentation/admin-guide/sysctl/vm.rst, dirty_bytes)
_COUNTERPARTS = (("vm.dirty_bytes", "vm.dirty_ratio"), ("vm.dirty_background_bytes", "vm.dirty_background_ratio"))

_SYSCTL = Place(variable="sysctl")


def contradictions(sysctl: Mapping[str, object], place: Place = _SYSCTL) -> list[Finding]:
    """Keys that can't both have the value that was asked for: the kernel zeroes one when the other is set.

    place: where the keys are declared."""
    return [
        error(
            "tuning-contradiction",
            place.below(*ratio.split(".")),
            found=f"set together with {amount}",
            expected="one of the two",
            remedy=f"remove {ratio}, or set {amount} to null",
            reason="the kernel zeroes one when the other is written",
            source="Linux, Documentation/admin-guide/sysctl/vm.rst",
        )
        for amount, ratio in _COUNTERPARTS
        if amount in sysctl and ratio in sysctl
    ]


# What stays available while swap is emptied: below this a GB10 hangs (``memory.floor_gib`` of data/gb10.yml, which a
# host does not have).
_FLOOR = 6 * GIB


def swap_stays(swapped: int, available: int) -> list[Finding]:
    """Why swap can't be switched off now: what lies in it has to find room in memory first. Both in bytes."""
    if swapped == 0 or swapped <= available - _FLOOR:
        return []
    return [
        host_error(
            "swap-does-not-fit",
            SWAP,
            found=f"{size(swapped)} lie in swap, and {size(available)} of memory are available",
            expected=f"room for it, and {size(_FLOOR)} that stay free",
            remedy="stop what takes the memory (docker ps, ps aux --sort=-rss), or restart the host unless "
            "gb10.fleet.doctor shows restart-known-bad; then run again",
            reason="the copy back takes the last memory, and a GB10 hangs instead of ending a program",
            source="an owner's reading: 8.5 GB swapped, 13.9 GB available; NVCheckup's rule",
        )
    ]


@dataclass(frozen=True)
class Wanted:
    """What is declared. None leaves read-ahead or swap as it is; read-ahead is wanted of each disk."""

    sysctl: Mapping[str, object]
    read_ahead_kb: int | None = None
    swap: bool | None = None

    def differing(self, live: Values) -> Values:
        """The values that have to be written for `live` to become what is wanted."""
        values = {key: normalised(str(value)) for key, value in self.sysctl.items()}
        if self.read_ahead_kb is not None:
            values |= {name: str(self.read_ahead_kb) for name in live if name.endswith(_READ_AHEAD)}
        if self.swap is not None and self.swap != (live[SWAP] != OFF):
            values[SWAP] = ON if self.swap else OFF
        return {name: value for name, value in values.items() if live[name] != value}


def normalised(value: str) -> str:
    """A value as it is compared: the kernel separates fields by tabs, people by spaces."""
    return " ".join(value.split())


def sysctl_path(key: str) -> Path:
    """The file of a sysctl key. As in sysctl(8), a slash in it stands for a dot in a name: net.ipv4.conf.eth0/1."""
    return Path("/proc/sys", *(part.replace("/", ".") for part in key.split(".")))


def swap_areas(swaps: str) -> str:
    """The names of the active swap areas of /proc/swaps' text, with commas between; "off" without any."""
    return ", ".join(line.split()[0] for line in swaps.splitlines()[1:]) or OFF


def read_live(sysctl: Mapping[str, object]) -> Values:
    """The asked sysctl keys, each NVMe disk's read-ahead, and the active swap areas.

    Raises FleetError for every key at once that this kernel does not have.
    """
    values, unknown = {}, []
    for key in sorted(sysctl):
        try:
            values[key] = normalised(sysctl_path(key).read_text(encoding="utf-8"))
        except OSError as cause:
            unknown.append(_unreadable(key, cause))
    if unknown:
        raise FleetError(*unknown)
    for disk in sorted(Path("/sys/block").glob("nvme*")):
        if re.fullmatch(r"nvme\d+n\d+", disk.name):
            values[f"{disk.name}/{_READ_AHEAD}"] = normalised((disk / _READ_AHEAD).read_text(encoding="ascii"))
    return values | {SWAP: swap_areas(Path("/proc/swaps").read_text(encoding="utf-8"))}


def before_us(wanted: Wanted, live: Values) -> Values:
    """What the undo record keeps of the values that are declared, whether they differ or not, with the other one of a
    pair."""
    values = {name: live[name] for name in wanted.sysctl}
    for pair in _COUNTERPARTS:
        if {*pair} & {*values}:
            values |= {name: normalised(sysctl_path(name).read_text(encoding="utf-8")) for name in pair}
    if wanted.read_ahead_kb is not None:
        values |= {name: value for name, value in live.items() if name.endswith(_READ_AHEAD)}
    return values | ({SWAP: live[SWAP]} if wanted.swap is not None else {})


def unlike_before(before: Values) -> Values:
    """Of what `before_us` kept, the values that are others now, in the order in which they can be set; none of what
    this machine no longer has."""
    now = {SWAP: swap_areas(Path("/proc/swaps").read_text(encoding="utf-8"))}
    for name in before:
        if name != SWAP and _path(name).exists():
            now[name] = normalised(_path(name).read_text(encoding="utf-8"))
    # of a pair the kernel zeroes one when the other is written, and takes no zero itself
    ordered = sorted(before.items(), key=lambda item: (item[1] == "0", item[0]))
    return {name: now[name] for name, value in ordered if name in now and not _same(name, now[name], value)}


def put_back(before: Values, run: Run) -> None:
    """Set the running kernel to what `before_us` kept. Raises FleetError for what the kernel did not take."""
    for name, now in unlike_before(before).items():
        if name == SWAP:
            _switch_swap(ON if now == OFF else OFF, run)
            continue
        try:
            _path(name).write_text(f"{before[name]}\n", encoding="utf-8")
        except OSError as cause:
            raise FleetError(_refused(name, before[name], f"{cause.strerror} on writing {_path(name)}")) from cause


def _same(name: str, now: str, before: str) -> bool:
    return (now == OFF) == (before == OFF) if name == SWAP else now == before


def _path(name: str) -> Path:
    return Path("/sys/block") / name if name.endswith(_READ_AHEAD) else sysctl_path(name)


def write_live(wanted: Wanted, values: Values, run: Run) -> None:
    """Sets each value in the running kernel, and reads all back. Raises FleetError for what the kernel did not take."""
    for name, value in values.items():
        if name == SWAP:
            _switch_swap(value, run)
            continue
        path = _path(name)
        try:
            path.write_text(f"{value}\n", encoding="utf-8")
        except OSError as cause:
            raise FleetError(_refused(name, value, f"{cause.strerror} on writing {path}")) from cause

    live = read_live(wanted.sysctl)
    if left := wanted.differing(live):
        raise FleetError(*(_refused(name, value, f"it says {live[name]!r} now") for name, value in left.items()))


def _switch_swap(wanted: str, run: Run) -> None:
    if wanted == OFF:
        memory = _memory(_MEMINFO.read_text(encoding="ascii"))
        if found := swap_stays(memory["SwapTotal"] - memory["SwapFree"], memory["MemAvailable"]):
            raise FleetError(*found)
    command = [f"swap{wanted}", "--all"]
    code, _, errors = run(command)
    if code:
        raise FleetError(_refused(SWAP, wanted, errors.strip() or f"{command[0]} ended with {code}"))


def _memory(meminfo: str) -> dict[str, int]:
    """The lines of /proc/meminfo in bytes."""
    return {name: int(kib) << 10 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB$", meminfo, re.MULTILINE)}


def _unreadable(key: str, cause: OSError) -> Finding:
    return host_error(
        "tuning-unreadable",
        f"sysctl.{key}",
        found=f"{sysctl_path(key)}: {cause.strerror}",
        expected="a setting of this host's kernel",
        remedy="correct the key, or remove it for this host with null",
    )


def _refused(name: str, value: str, why: str) -> Finding:
    return host_error(
        "tuning-refused",
        name,
        found=why,
        expected=f"the kernel to take {value!r}",
        remedy="write a value that it takes, or null to leave it as it is; `journalctl -k -n 20` on that host may say "
        "more, and in a container the settings are the outer machine's",
    )
