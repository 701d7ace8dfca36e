# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab's directory on this machine: what lies where, who may work on it, and whether its lab runs."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from . import base, cgroups
from .console import announce
from .errors import LabError
from .model import Lab

# A unix socket's path has 107 characters; ssh's longest here is DIRECTORY/ssh/HOST.RANDOM with 15 and 17 of them.
_LONGEST_DIRECTORY = 107 - len("/ssh/") - 15 - 17
_MARK = ".gb10-lab"
# How the cgroup of each lab is called, before its id.
CGROUP = "gb10-lab-"


@dataclass(frozen=True)
class Workspace:
    directory: Path

    @classmethod
    def at(cls, directory: Path) -> Workspace:
        path = directory.resolve()
        if len(str(path)) > _LONGEST_DIRECTORY:
            raise LabError(
                f"{path} is {len(str(path))} characters long, sockets in it allow {_LONGEST_DIRECTORY}: "
                "choose a shorter one, for instance -d /tmp/lab"
            )
        return cls(path)

    @property
    def id(self) -> str:
        return hashlib.sha256(str(self.directory).encode()).hexdigest()[:8]

    @property
    def cgroup(self) -> Path:
        return cgroups.tree() / f"{CGROUP}{self.id}"

    @property
    def hosts(self) -> Path:
        return self.directory / "hosts"

    @property
    def state(self) -> Path:
        return self.directory / "state.json"

    @property
    def control(self) -> Path:
        return self.directory / "control"

    @property
    def key(self) -> Path:
        return self.directory / "id_ed25519"

    @property
    def ssh_config(self) -> Path:
        return self.directory / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def ssh_masters(self) -> Path:
        return self.directory / "ssh"

    @property
    def images(self) -> Path:
        """Where our inventories for a lab keep by what its images are known: fleet_lock_file."""
        return self.directory / "fleet.lock"

    @property
    def log(self) -> Path:
        return self.directory / "labd.log"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One `up` or `down` at a time.

        Refuses a directory that holds something else, because `down` removes what is in it.
        """
        mark = self.directory / _MARK
        if self.directory.exists() and not mark.exists() and any(self.directory.iterdir()):
            raise LabError(f"{self.directory} is not a lab and not empty: choose another directory with -d")
        while True:
            self.directory.mkdir(parents=True, exist_ok=True)
            with mark.open("w") as lock:
                self._wait_for(lock)
                # A `down` that we waited for has removed the file; then the lock is on nothing.
                if mark.exists() and mark.stat().st_ino == os.fstat(lock.fileno()).st_ino:
                    yield
                    return

    def _wait_for(self, lock: TextIO) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            announce(f"another `up` or `down` works on {self.directory}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)

    def clear(self, *, keep_directory: bool) -> None:
        """Remove what `up` makes in it and what is known of its hosts, and the directory unless it holds more."""
        base.remove_tree(self.hosts)
        base.remove_tree(self.ssh_masters)
        keys = (self.key, self.key.with_suffix(".pub"), self.known_hosts)
        for file in (self.state, _unfinished(self.state), self.control, self.ssh_config, *keys, self.log, self.images):
            file.unlink(missing_ok=True)
        rest = {entry.name for entry in self.directory.iterdir()} - {_MARK}
        if not rest and not keep_directory:
            (self.directory / _MARK).unlink(missing_ok=True)
            self.directory.rmdir()


@dataclass(frozen=True)
class Running:
    """A lab that is up. keeper: the process whose namespaces are the lab's; started: its start time, in clock ticks."""

    lab: Lab
    keeper: int
    started: int

    def save(self, path: Path) -> None:
        text = json.dumps({"lab": self.lab.as_json(), "keeper": self.keeper, "started": self.started}, indent=2)
        part = _unfinished(path)
        part.write_text(text + "\n")
        part.rename(path)

    @classmethod
    def find(cls, state: Path) -> Running | None:
        """What the state file speaks of, if that very process is alive."""
        try:
            data: dict[str, Any] = json.loads(state.read_text())
        except FileNotFoundError:
            return None
        running = cls(Lab.from_json(data["lab"]), data["keeper"], data["started"])
        return running if start_time(running.keeper) == running.started else None

    @contextlib.contextmanager
    def network(self) -> Iterator[int]:
        """The lab's network namespace, open."""
        handle = os.open(f"/proc/{self.keeper}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield handle
        finally:
            os.close(handle)


def _unfinished(path: Path) -> Path:
    return path.with_suffix(".part")


def start_time(process: int) -> int | None:
    """Clock ticks after boot; with the number it identifies a process for good. None: it has ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    # The second field is the name in parentheses, which may hold anything.
    state, *numbers = stat.rpartition(")")[2].split()
    return None if state == "Z" else int(numbers[18])
