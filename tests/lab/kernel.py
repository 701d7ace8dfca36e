# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Linux calls that Python's standard library lacks before 3.12: namespaces, mounts, pivot_root."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
from collections.abc import Iterator
from enum import IntFlag
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)

# Calls that libc has no wrapper for. pivot_root: numbers of linux/arch/{x86,arm64}.
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
# The newer calls have one number everywhere (linux/unistd.h), flags from linux/mount.h and linux/fcntl.h.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_OPEN_TREE_CLONE, _MOVE_EMPTY_PATH = 1, 4
_MOUNT_READ_ONLY, _MOUNT_ID_MAP = 0x1, 0x100000
_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
# linux/prctl.h, linux/securebits.h
_PR_SET_PDEATHSIG = 1
_PR_SET_SECUREBITS = 28
_SECBIT_NO_SETUID_FIXUP = 1 << 2
_MNT_DETACH = 2


class _MountAttributes(ctypes.Structure):
    """struct mount_attr of linux/mount.h."""

    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


class Namespace(IntFlag):
    """CLONE_NEW* of linux/sched.h."""

    TIME = 0x00000080
    MOUNT = 0x00020000
    CGROUP = 0x02000000
    UTS = 0x04000000
    IPC = 0x08000000
    USER = 0x10000000
    PID = 0x20000000
    NET = 0x40000000


class Mount(IntFlag):
    """MS_* of linux/mount.h."""

    NONE = 0
    NO_SUID = 2
    NO_DEV = 4
    NO_EXEC = 8
    BIND = 4096
    RECURSIVE = 16384
    PRIVATE = 1 << 18
    SHARED = 1 << 20


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(kinds: Namespace) -> None:
    """Leave the given namespaces for new ones (of the process ids: only for the children to come)."""
    _check(_libc.unshare(int(kinds)), f"unshare {kinds!r}")


def setns(descriptor: int, kind: Namespace) -> None:
    """Enter the namespace that an open /proc/PID/ns file stands for. Acts on the calling thread."""
    _check(_libc.setns(descriptor, int(kind)), f"setns {kind!r}")


def mount(
    source: Path | str,
    target: Path | str,
    kind: str | None = None,
    flags: Mount = Mount.NONE,
    options: str | None = None,
) -> None:
    _check(
        _libc.mount(
            os.fsencode(source),
            os.fsencode(target),
            kind.encode() if kind else None,
            ctypes.c_ulong(int(flags)),
            options.encode() if options else None,
        ),
        f"mount {kind or 'bind'} {source} on {target}",
    )


def bind(source: Path | str, target: Path | str) -> None:
    mount(source, target, flags=Mount.BIND)


def bind_mapped(source: Path | str, target: Path, users: int | None, *, read_only: bool = False) -> None:
    """A view of a directory in which this machine's owners are the same numbers of the user namespace ``users``.

    None: no such mapping; then all belongs to nobody there. Raises OSError (EINVAL) if the file system can't do it;
    ext4, xfs, btrfs and tmpfs can.
    """
    clone = _libc.syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(source), _OPEN_TREE_CLONE | os.O_CLOEXEC)
    _check(min(clone, 0), f"open_tree {source}")
    try:
        flags = (_MOUNT_READ_ONLY if read_only else 0) | (_MOUNT_ID_MAP if users is not None else 0)
        wanted = _MountAttributes(flags, 0, 0, users or 0)
        size = ctypes.sizeof(wanted)
        done = _libc.syscall(_MOUNT_SETATTR, clone, b"", _AT_EMPTY_PATH, ctypes.byref(wanted), size)
        _check(done, f"mount_setattr {source}")
        moved = _libc.syscall(_MOVE_MOUNT, clone, b"", _AT_FDCWD, os.fsencode(target), _MOVE_EMPTY_PATH)
        _check(moved, f"move_mount to {target}")
    finally:
        os.close(clone)


def make_mounts_private() -> None:
    """No mount made from here on is seen outside, none made outside appears here."""
    mount("none", "/", flags=Mount.RECURSIVE | Mount.PRIVATE)


def make_mounts_shared() -> None:
    """As systemd has them on a machine, though not in what it takes for a container: without it what its helpers mount
    is lost, credentials of units among it."""
    mount("none", "/", flags=Mount.RECURSIVE | Mount.SHARED)


def pivot_root(new_root: Path) -> None:
    """Make ``new_root`` (a mount) the root and drop the old one. chroot won't do: it forbids user namespaces inside."""
    os.chdir(new_root)
    _check(_libc.syscall(_PIVOT_ROOT[platform.machine()], b".", b"."), f"pivot_root to {new_root}")
    _check(_libc.umount2(b".", _MNT_DETACH), "detach the old root")
    os.chdir("/")


def become_user_keeping_privileges(user: int) -> None:
    """Another owner for what is made next. Ubuntu's AppArmor lets only the privileged make user namespaces."""
    _check(_libc.prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP, 0, 0, 0), "prctl(PR_SET_SECUREBITS)")
    os.setresuid(user, user, user)


def die_with_parent() -> None:
    """SIGKILL when the parent ends. The kernel forgets this at a change of uid: call it after the last one."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


@contextlib.contextmanager
def inside_network(descriptor: int) -> Iterator[None]:
    """The calling thread is in another network namespace; sockets made there stay there."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    setns(descriptor, Namespace.NET)
    try:
        yield
    finally:
        setns(home, Namespace.NET)
        os.close(home)
