# SPDX-License-Identifier: GPL-3.0-or-later
"""What a supervisor decides of its host's memory, pure: when caches go during a load, whether a rank takes more than
was planned, and who ended its processes for want of memory. Sizes are bytes, times seconds of one monotonic clock.

On a GB10 the driver waits for memory that the page cache holds, and a host hangs where nobody gives it up
(docs/explanation/memory.md, "The memory guard").
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from .service import Guard

GIB = 1 << 30
# What is not worth the work: less than this in the cache, or given back by the last time.
LEAST = 256 << 20
_PAUSE_S, _VAIN_PAUSE_S = 1.0, 10.0
# The memory guard's and the kernel's own words; what is killed may choose the rest of the line.
_KILLED = re.compile(r"^(?:sending SIG(?:TERM|KILL) to|(?:Memory cgroup out|Out) of memory: Killed) process (\d+)\b")


@dataclass(frozen=True)
class Memory:
    """Of /proc/meminfo: what nobody has, and what can be had since the kernel would give up its caches."""

    free: int
    available: int


def read_memory(meminfo: str) -> Memory:
    """/proc/meminfo's text; ValueError for one without these lines."""
    found = {name: int(kib) * 1024 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB$", meminfo, re.MULTILINE)}
    missing = [name for name in ("MemFree", "MemAvailable") if name not in found]
    if missing:
        raise ValueError(f"/proc/meminfo has no {missing[0]} line")
    return Memory(found["MemFree"], found["MemAvailable"])


# Load -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drop:
    """Caches were dropped. gained: how much more is free since."""

    at: float
    gained: int


def drops_caches(now: Memory, floor: int, last: Drop | None, at: float) -> bool:
    """Whether to drop caches and compact now, while a model loads: what is free is under the floor, caches hold some of
    the rest, and the last time was not just now, or in vain."""
    if now.free >= floor or now.available - now.free < LEAST:
        return False
    return last is None or at - last.at >= (_PAUSE_S if last.gained >= LEAST else _VAIN_PAUSE_S)


# Creep ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Taken:
    """What a rank's processes take. pids: theirs, on the host. gpu: of it, what the driver says of them."""

    bytes: int
    gpu: int
    pids: Collection[int]


def over_since(since: float | None, taken: int, high: int, at: float) -> float | None:
    """From when on a rank has taken more than the plan's high bound without a break; None while it doesn't."""
    if taken <= high:
        return None
    return at if since is None else since


def creeps(since: float | None, guard: Guard, at: float) -> bool:
    return since is not None and at - since >= guard.creep_s


def creep_sentence(taken: Taken, guard: Guard) -> str:
    return (
        f"it takes {taken.bytes / GIB:.1f} GiB of memory, {taken.gpu / GIB:.1f} of them the GPU's, and for "
        f"{guard.creep_s / 60:.0f} minutes more than the {guard.high_bytes / GIB:.1f} GiB that were planned at most"
    )


# Ended by a killer ------------------------------------------------------------------------------------------------


def killer(journal: str, pids: Collection[int]) -> str:
    """A clause that names who killed one of these processes for want of memory, or an empty string.

    journal: the lines of the memory guard and of the kernel.
    """
    for line in journal.splitlines():
        found = _KILLED.match(line)
        if found and int(found[1]) in pids:
            who = "the memory guard" if line.startswith("sending") else "the kernel's out-of-memory killer"
            return f"{who} ended process {found[1]} of it, since the host had too little memory left"
    return ""


def compute_apps(output: str) -> dict[int, int]:
    """Bytes by process, of ``nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits``; a process
    whose memory the driver does not tell counts for nothing."""
    rows = re.findall(r"^\s*(\d+),\s*(\d+)\s*$", output, re.MULTILINE)
    found: dict[int, int] = {}
    for pid, mib in rows:
        found[int(pid)] = found.get(int(pid), 0) + (int(mib) << 20)
    return found
