# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a lab has left behind on this machine. Looks at the machine itself, not at what the lab believes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .lifecycle import init_process
from .workspace import CGROUP, Running, Workspace

_NAMESPACES = ("user", "net", "mnt", "pid")


@dataclass(frozen=True)
class Traces:
    """How to recognise a lab: words in command lines and mounts, its cgroup, the namespaces it had while it ran."""

    words: tuple[str, ...]
    cgroup: str
    namespaces: frozenset[str]

    @classmethod
    def of(cls, workspace: Workspace, running: Running | None = None, *also: Path) -> Traces:
        namespaces = _namespaces_of_lab(workspace, running) if running else frozenset()
        words = tuple(str(path) for path in (workspace.directory, *also))
        return cls(words, str(workspace.cgroup), namespaces - _namespaces("self"))

    def living(self) -> list[str]:
        """Processes, and mounts in any of the machine's mount namespaces."""
        return [*self._processes(), *self._mounts()]

    def all(self) -> list[str]:
        """With cgroups and files."""
        left = [word for word in (self.cgroup, *self.words) if Path(word).exists()]
        return [*self.living(), *left]

    def _processes(self) -> Iterator[str]:
        for process in _processes():
            command = _read(process / "cmdline").replace("\0", " ")
            here, branch = _read(process / "cgroup"), self.cgroup.rpartition("/")[2]
            # The number of a namespace that is gone is given to a new one: to another lab's, it may be.
            inside = _namespaces(process.name) & self.namespaces and f"/{CGROUP}" not in here
            if inside or branch in here or self._named_in(command):
                yield f"process {process.name}: {command}"

    def _named_in(self, text: str) -> bool:
        """Whether one of the paths stands there: .lab, and not .lab-molecule, which another job may have."""
        return any(re.search(re.escape(word) + r"(?![\w.-])", text) for word in self.words)

    def _mounts(self) -> Iterator[str]:
        seen = set()
        for process in _processes():
            for line in _read(process / "mountinfo").splitlines():
                if self._named_in(line) and line not in seen:
                    seen.add(line)
                    yield f"mount: {line}"


def _processes() -> Iterator[Path]:
    """All but the test and its parent, and zombies: those hold nothing, and only this machine's init can end them."""
    own = {str(os.getpid()), str(os.getppid())}
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and path.name not in own and not _is_zombie(path):
            yield path


def _is_zombie(process: Path) -> bool:
    return _read(process / "stat").rpartition(")")[2].split()[:1] == ["Z"]


def _read(path: Path) -> str:
    """Empty for a process that has ended meanwhile."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _namespaces_of_lab(workspace: Workspace, running: Running) -> frozenset[str]:
    """The daemon's and each host's."""
    hosts = (init_process(workspace, host) for host in running.lab.hosts)
    return frozenset().union(*(_namespaces(process) for process in (running.keeper, *hosts) if process))


def _namespaces(process: int | str) -> frozenset[str]:
    """Their identities, as the kernel writes them: ``net:[4026531840]``."""
    try:
        return frozenset(str(Path(f"/proc/{process}/ns/{kind}").readlink()) for kind in _NAMESPACES)
    except OSError:
        return frozenset()
