# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools that the builder calls: their output goes to a log, their failure is told, no process or mount stays."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .. import kernel
from ..errors import LabError

_TAIL = 12


class UnavailableError(LabError):
    """This machine lacks something that can't be made here; the sentence says what, and what to set or install."""


def run(argv: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run a tool in mount and process namespaces of its own: whatever ends it or us, nothing of it stays."""
    apart = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    _finish([*apart, *argv], log, os.environ | (environment or {}), kernel.die_with_parent)


def run_inside(root: Path, overlaid: Mapping[str, Path], argv: Sequence[str], log: Path) -> None:
    """Run a program of the tree `root` as its `/`, with the machine's /dev, /proc and /sys.

    overlaid: directories of `root` that lie elsewhere, so that what is written there stays apart from the tree.
    """

    def enter() -> None:
        kernel.die_with_parent()
        kernel.unshare(kernel.Namespace.MOUNT)
        kernel.make_mounts_private()
        for name in ("dev", "proc", "sys"):
            kernel.mount(f"/{name}", root / name, flags=kernel.Mount.BIND | kernel.Mount.RECURSIVE)
        for target, source in overlaid.items():
            kernel.bind(source, root / target.lstrip("/"))
        os.chroot(root)
        os.chdir("/")

    apart = ("unshare", "--pid", "--fork", "--kill-child")
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
    _finish([*apart, *argv], log, environment, enter)


def _finish(argv: Sequence[str | Path], log: Path, environment: Mapping[str, str], prepare: Callable[[], None]) -> None:
    with log.open("ab") as output:
        output.write(f"$ {' '.join(map(str, argv))}\n".encode())
        with subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            preexec_fn=prepare,  # noqa: PLW1509  # this program has no threads
        ) as tool:
            assert tool.stdout
            try:
                shutil.copyfileobj(tool.stdout, output)
            except BaseException:
                tool.kill()
                # The end of the pipe is the end of the last process that the tool had: nothing writes files any more.
                tool.stdout.read()
                raise
    if tool.returncode:
        last = "".join(f"\n    {line}" for line in log.read_text(errors="replace").splitlines()[-_TAIL:])
        raise LabError(f"a tool ended with status {tool.returncode}; the end of {log}:{last}")
