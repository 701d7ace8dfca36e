# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts back what a service went by before a trial whose controller is gone: killed, interrupted, without a network.

A timer runs it every half minute while something is tried. The controller moves a deadline ahead of each step; where it
has passed, or a boot has taken it away, this host puts the files back, takes the timer away and starts the service.

Standard library only: the role installs this very file as the timer's program.
"""

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Run = Callable[[Sequence[str]], object]


def restore(folder: Path, index: Mapping[str, Any], run: Run) -> None:
    """The files as they were, and the image's name. folder: of the way back. index: ``{files: {path: kept name, None
    for one that was not there}, modes: {path: mode}, image, name}``. run: a command; raises where it fails."""
    for path, kept in index["files"].items():
        if kept is None:
            Path(path).unlink(missing_ok=True)
        else:
            _put(Path(path), (folder / kept).read_bytes(), index["modes"][path])
    if index["image"] and index["name"]:
        run(["docker", "tag", index["image"], index["name"]])


def read_index(folder: Path) -> dict[str, Any] | None:
    """It is written last: without it nothing is kept as a whole."""
    try:
        found: dict[str, Any] = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


@contextlib.contextmanager
def alone(deadline: Path) -> Iterator[None]:
    """Waits while another process of this host puts back or moves the deadline."""
    with deadline.with_name(f"{deadline.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def move(deadline: Path, seconds: float) -> None:
    """That long nobody puts back. By the clock that no one sets; it begins anew with a boot, as /run does."""
    _put(deadline, f"{time.monotonic() + seconds:.0f}\n".encode(), 0o600)


def is_over(deadline: Path) -> bool:
    try:
        return time.monotonic() > float(deadline.read_text("utf-8"))
    except (OSError, ValueError):
        return True


def _put(path: Path, content: bytes, mode: int) -> None:
    """A reader sees the old file or the new one, never a part."""
    descriptor, partial = tempfile.mkstemp(".partial", f".{path.name}.", path.parent)
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(descriptor, mode)
        stream.write(content)
        stream.flush()
        os.fsync(descriptor)
    Path(partial).replace(path)


def _run(words: Sequence[str]) -> None:
    subprocess.run(list(words), check=True, stdout=sys.stderr)


def put_back(folder: Path, unit: str, own: Sequence[Path], deadline: Path, run: Run = _run) -> bool:
    """Whether anything was done. unit: the service's. own: the files of the timer and its unit."""
    with alone(deadline):
        if not is_over(deadline):
            return False
        index = read_index(folder)
        if index is not None:
            run(["systemctl", "stop", unit])
            restore(folder, index, run)
            shutil.rmtree(folder, ignore_errors=True)
        _try(run, ["systemctl", "disable", own[0].name])
        for path in own:
            path.unlink(missing_ok=True)
        run(["systemctl", "daemon-reload"])
        # what was never started has no failure to forget
        _try(run, ["systemctl", "reset-failed", unit])
        run(["systemctl", "enable", "--now", unit])
        # last: it is the timer that runs this again where it was ended before
        _try(run, ["systemctl", "stop", own[0].name])
        deadline.unlink(missing_ok=True)
        return True


def _try(run: Run, words: Sequence[str]) -> None:
    with contextlib.suppress(subprocess.CalledProcessError):
        run(words)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    for name in ("--folder", "--deadline"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--unit", required=True)
    parser.add_argument("--own", type=Path, nargs="+", required=True, help="the timer's file first")
    asked = parser.parse_args(words)
    if put_back(asked.folder, asked.unit, asked.own, asked.deadline):
        print(f"the trial of {asked.unit} was left alone: what served before serves again", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
