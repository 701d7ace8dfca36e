# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's branch of this machine's cgroup v2 tree: one group a host, one for the daemon. To kill it kills the lab."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from .errors import LabError

# Files that a delegatee must own (/sys/kernel/cgroup/delegate), of those that every kernel has.
_DELEGATED = ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads")
_POLL_SECONDS = 0.02
_KILL_SECONDS = 60


def tree() -> Path:
    """Where cgroup v2 is mounted: /sys/fs/cgroup, or .../unified on a hybrid machine."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    raise LabError(
        "no cgroup v2 tree is mounted on this machine, and systemd on the hosts needs one: "
        "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified"
    )


def create(branch: Path, owners: dict[str, int]) -> None:
    """With the controllers that the tree's root hands down (none on a hybrid machine). owners: {host: id}."""
    try:
        branch.mkdir()
    except OSError as error:
        raise LabError(f"{branch} can't be made ({error.strerror}): the lab needs a writable cgroup v2 tree") from error
    controllers = (branch / "cgroup.controllers").read_text().split()
    for name in ("labd", *owners):
        (branch / name).mkdir()
    with contextlib.suppress(OSError):
        (branch / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))
    for host, owner in owners.items():
        for path in (branch / host, *(branch / host / name for name in _DELEGATED)):
            os.chown(path, owner, owner)


def processes(group: Path) -> list[int]:
    try:
        return [int(line) for line in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def is_populated(branch: Path) -> bool:
    try:
        return "populated 1" in (branch / "cgroup.events").read_text()
    except OSError:
        return False


def processor_seconds(branch: Path) -> float:
    """What all processes that ever were in the branch have used."""
    used = dict(line.split() for line in (branch / "cpu.stat").read_text().splitlines())
    return int(used["usage_usec"]) / 1e6


def remove(branch: Path) -> None:
    """Kill whatever runs in the branch, wait for its end, remove the groups."""
    if not branch.exists():
        return
    (branch / "cgroup.kill").write_text("1")
    deadline = time.monotonic() + _KILL_SECONDS
    while is_populated(branch):
        if time.monotonic() > deadline:
            raise LabError(f"processes in {branch} don't end after SIGKILL: look at {branch}/**/cgroup.procs")
        time.sleep(_POLL_SECONDS)
    for directory, _, _ in os.walk(branch, topdown=False):
        Path(directory).rmdir()
