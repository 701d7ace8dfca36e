# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock's file beside the inventory: read at the plan, added to by the run that brought something first."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ..._base import worded
from ..._base.findings import FleetError
from ..._base.own_files import replace_file
from .lock import EMPTY, MOST_BYTES, Lock, dump, parse

# Ansible reads no hidden name as an inventory, whatever its configuration.
NAME = ".fleet.lock"


def read(file: Path) -> Lock:
    """What is locked; nothing where there is no file. Raises FleetError for a damaged one."""
    try:
        with file.open("rb") as stream:
            return parse(stream.read(MOST_BYTES + 1), str(file))
    except FileNotFoundError:
        return EMPTY
    except OSError as problem:
        finding = worded.error("lock-damaged/read", str(file), found=problem.strerror or str(problem), file=file)
        raise FleetError(finding) from problem


def update(file: Path, change: Callable[[Lock], Lock], write: bool) -> tuple[str, str]:
    """Change the lock as one step, of two runs at once one after the other; its text before and after.

    change: given what is locked at that moment. write: otherwise only what it would be is returned.
    """
    file = file.resolve()
    with _alone(file.parent) if write else contextlib.nullcontext():
        before = read(file)
        after = change(before)
        if write and after != before:
            replace_file(file, dump(after).encode())
    return (dump(before) if before != EMPTY else "", dump(after) if after != EMPTY else "")


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other run changes the lock meanwhile. The folder is held, since the file is another one after each change."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
