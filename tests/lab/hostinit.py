# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's start: its namespaces, its root, and the process that becomes its systemd."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from . import userns
from .errors import LabError
from .imitations import lookalikes
from .kernel import Mount, Namespace, bind, make_mounts_private, make_mounts_shared, mount, pivot_root, setns, unshare

_PSEUDO = Mount.NO_SUID | Mount.NO_DEV | Mount.NO_EXEC
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse", "net/tun")
# Docker's own stores need a real file system: overlay on overlay fails.
_OFF_OVERLAY = {"docker": "var/lib/docker", "containerd": "var/lib/containerd"}
_SIGNALS = range(1, 65)


@dataclass(frozen=True)
class Place:
    """What a host is made of, as the lab's daemon sees it.

    directory: mounts ``layer-0`` (the uppermost), ``layer-1``, ... and ``disk`` with owners mapped for the host,
    ``share-0``, ``share-1``, ...; ``shares`` are where those appear on the host. users: its user namespace, open.
    """

    name: str
    directory: Path
    layers: int
    shares: tuple[str, ...]
    cgroup: Path
    users: int

    @property
    def root(self) -> Path:
        return self.directory / "root"

    @property
    def layer_names(self) -> list[str]:
        return [f"layer-{number}" for number in range(self.layers)]


def start(place: Place, network: int) -> int:
    """Boot a host in the given network namespace. Returns the number of its systemd, once that runs.

    Raises LabError with the reason if the host could not be built.
    """
    outcome_reader, outcome_writer = os.pipe()
    child = os.fork()
    if child == 0:
        _in_child(lambda: _fork_first_process(place, network, outcome_writer), outcome_writer)
    os.close(outcome_writer)
    os.waitpid(child, 0)
    with os.fdopen(outcome_reader) as outcome:
        process, _, failure = outcome.read().partition("\n")
    if failure or not process:
        raise LabError(f"{place.name} can't be built: {failure.strip() or 'its first process ended without a word'}")
    return int(process)


def _in_child(act: Callable[[], None], outcome: int) -> NoReturn:
    """Whatever goes wrong is told; the child never returns to the parent's code."""
    try:
        act()
    except BaseException:
        os.write(outcome, ("\n" + traceback.format_exc()).encode())
    finally:
        os._exit(0)


def _fork_first_process(place: Place, network: int, outcome: int) -> None:
    """Enter the host's namespaces; the next child is process 1 there, and the daemon's own child when this one ends."""
    (place.cgroup / "cgroup.procs").write_text("0")
    with Path("/proc/self/timens_offsets").open("w") as clocks:  # opened while that is allowed
        userns.enter(place.users)
        setns(network, Namespace.NET)
        unshare(Namespace.PID | Namespace.MOUNT | Namespace.UTS | Namespace.IPC | Namespace.CGROUP | Namespace.TIME)
        clocks.write(_since_now())
    first = os.fork()
    if first == 0:
        _in_child(lambda: _boot(place), outcome)
    os.write(outcome, f"{first}\n".encode())


def _since_now() -> str:
    """A host's uptime begins at its own boot: `OnBootSec=` and `uptime` mean that."""
    clocks = {"monotonic": time.CLOCK_MONOTONIC, "boottime": time.CLOCK_BOOTTIME}
    offsets = {name: divmod(-time.clock_gettime_ns(clock), 10**9) for name, clock in clocks.items()}
    return "".join(f"{name} {seconds} {nanoseconds}\n" for name, (seconds, nanoseconds) in offsets.items())


def _boot(place: Place) -> None:
    make_mounts_private()
    _mount_disk(place)
    _mount_pseudo(place.root)
    _make_devices(place.root)
    for index, wanted in enumerate(place.shares):
        target = place.root / wanted.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        bind(place.directory / f"share-{index}", target)
    # Debian's range is out of a user namespace's ids; without one, ping is for root only.
    (place.root / "proc/sys/net/ipv4/ping_group_range").write_text("0 65535")
    lookalikes.install(place.root)
    pivot_root(place.root)
    make_mounts_shared()
    socket.sethostname(place.name)
    _become_systemd()


def _mount_disk(place: Place) -> None:
    disk = place.directory / "disk"
    # "volatile" (no fsync) leaves a mark that forbids the next mount; the page cache outlives a host's reboot here.
    shutil.rmtree(disk / "work/work/incompat", ignore_errors=True)
    lower = ":".join(str(place.directory / name) for name in place.layer_names)
    layers = f"lowerdir={lower},upperdir={disk / 'upper'},workdir={disk / 'work'}"
    mount("overlay", place.root, "overlay", options=f"{layers},userxattr,volatile")
    for store, target in _OFF_OVERLAY.items():
        (place.root / target).mkdir(parents=True, exist_ok=True)
        bind(disk / store, place.root / target)


def _mount_pseudo(root: Path) -> None:
    mount("proc", root / "proc", "proc", _PSEUDO)
    mount("sysfs", root / "sys", "sysfs", _PSEUDO)
    mount("cgroup2", root / "sys/fs/cgroup", "cgroup2", _PSEUDO)
    mount("tmpfs", root / "run", "tmpfs", Mount.NO_SUID | Mount.NO_DEV, "mode=755")
    mount("tmpfs", root / "dev", "tmpfs", Mount.NO_SUID, "mode=755,size=64k")


def _make_devices(root: Path) -> None:
    dev = root / "dev"
    for name in _DEVICES:
        source = Path("/dev", name)
        if source.exists():
            target = dev / name
            target.parent.mkdir(exist_ok=True)
            target.touch()
            bind(source, target)
    for name in ("pts", "shm", "mqueue"):
        (dev / name).mkdir()
    mount("devpts", dev / "pts", "devpts", Mount.NO_SUID | Mount.NO_EXEC, "newinstance,ptmxmode=0666,mode=620,gid=5")
    mount("tmpfs", dev / "shm", "tmpfs", Mount.NO_SUID | Mount.NO_DEV, "mode=1777")
    mount("mqueue", dev / "mqueue", "mqueue", _PSEUDO)
    for name, target_text in (
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ):
        (dev / name).symlink_to(target_text)


def _become_systemd() -> NoReturn:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for number in _SIGNALS:
        if number not in (signal.SIGKILL, signal.SIGSTOP) and number in signal.valid_signals():
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.execve("/sbin/init", ["/sbin/init"], {"container": "gb10-lab", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
