# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where finished things lie: made once for equal inputs, and visible under their own name only when whole.

Beside each file or directory `x` lies `x.json`: the hash of the inputs that made it, and what its maker says of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..console import announce

Facts = dict[str, Any]


def inputs(*parts: str | Path) -> str:
    """One hash over texts and the contents of files; a directory stands for all files below it."""
    digest = hashlib.sha256()
    for part in parts:
        for content in _contents(part):
            digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:16]


def _contents(part: str | Path) -> Iterator[bytes]:
    if isinstance(part, str):
        yield part.encode()
    elif part.is_dir():
        for file in sorted(file for file in part.rglob("*") if file.is_file() and "__pycache__" not in file.parts):
            yield file.relative_to(part).as_posix().encode()
            yield file.read_bytes()
    else:
        yield part.read_bytes()


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Two builds at once: the second waits, and then finds what the first one made."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            announce(f"another build works in {directory}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ensure(path: Path, wanted: str, make: Callable[[Path], Facts]) -> Facts:
    """What the maker says of `path`, made now unless it is there from the same inputs."""
    record = path.with_name(f"{path.name}.json")
    known = _read(record)
    if path.exists() and known.get("inputs") == wanted:
        return known
    part = path.with_name(f"{path.name}.part")
    remove(part)
    try:
        facts: Facts = {"inputs": wanted, **make(part)}
        # Without its record the old one counts as missing: a kill between these lines costs a rebuild, no more.
        record.unlink(missing_ok=True)
        if path.is_dir():
            remove(path)
        part.rename(path)
        part.write_text(json.dumps(facts, indent=2, sort_keys=True) + "\n")
        part.rename(record)
    finally:
        remove(part)
    return facts


def _read(record: Path) -> Facts:
    try:
        known = json.loads(record.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


@contextlib.contextmanager
def scratch(directory: Path) -> Iterator[Path]:
    """An empty work directory that is gone afterwards; what a killed build left in it goes first."""
    work = directory / "scratch"
    remove(work)
    work.mkdir(parents=True)
    try:
        yield work
    finally:
        remove(work)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def step(text: str) -> Iterator[None]:
    announce(f"{text} ...")
    started = time.monotonic()
    yield
    announce(f"{text}: {time.monotonic() - started:.0f} s")
