# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""User namespaces: root of a host is an unprivileged user of this machine, and every host's is another one.

The kernel counts keys, inotify instances and more by user. With one user for all, the fifth lab would starve the first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from . import kernel
from .errors import LabError
from .model import MAX_HOSTS

_IDS = 65_536
# Blocks of 2^16 ids in the range that systemd-nspawn takes for containers, far from what adduser puts in /etc/subuid.
_FIRST_BLOCK, _LAST_BLOCK = 10_000, 28_671


def first_id(lab_id: str, index: int) -> int:
    """What id 0 of a lab's host number ``index`` is on this machine. Labs that meet by chance share quotas, no more."""
    lab = int(lab_id, 16) % ((_LAST_BLOCK - _FIRST_BLOCK) // MAX_HOSTS)
    return (_FIRST_BLOCK + lab * MAX_HOSTS + index) * _IDS


def create(first: int) -> int:
    """A user namespace whose ids begin at ``first`` outside, as an open descriptor."""

    def unshare_user() -> None:
        kernel.become_user_keeping_privileges(first)
        kernel.unshare(kernel.Namespace.USER)

    def map_ids(process: int) -> None:
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{process}/{name}").write_text(f"0 {first} {_IDS}\n")

    return _namespace_of_child(unshare_user, "user", map_ids)


def new_network(users: int) -> int:
    """A network namespace in which root of the user namespace may do everything, as an open descriptor."""

    def unshare_network() -> None:
        enter(users)
        kernel.unshare(kernel.Namespace.NET)

    return _namespace_of_child(unshare_network, "net")


def enter(users: int) -> None:
    """Make the calling process root of the user namespace."""
    kernel.setns(users, kernel.Namespace.USER)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def _namespace_of_child(unshare: Callable[[], None], kind: str, prepare: Callable[[int], None] = lambda _: None) -> int:
    """What a short-lived child made, opened here: the calling process itself stays where it is."""
    made_reader, made_writer = os.pipe()
    done_reader, done_writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(done_writer)
            unshare()
            os.write(made_writer, b"x")
            os.read(done_reader, 1)
        finally:
            os._exit(0)
    os.close(made_writer)
    os.close(done_reader)
    try:
        if not os.read(made_reader, 1):
            raise LabError(f"this machine's kernel made no {kind} namespace: look at `sysctl user` for limits")
        prepare(child)
        return os.open(f"/proc/{child}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(made_reader)
        os.close(done_writer)
        os.waitpid(child, 0)
