# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker's answers to three questions, in a file that who starts the server keeps: it can't reach Docker itself.

A socket of Docker's knows no smaller right than all of it, which is the host. All that the server can do is to have
the same three questions asked again, by a byte that says nothing else.
"""

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..._base import own_files
from ..images.docker import Run

# Where the server finds both.
FOLDER = Path("/run/gb10-peer")
FILE, LOOK = "answers.json", "look"
# What the server needs. `docker info` knows more, a proxy's password among it.
_INFO = ("Driver", "DriverStatus", "DockerRootDir", "ServerErrors")
_IMAGE = ("Architecture", "Config", "Id", "Os", "RepoDigests", "RepoTags", "RootFS", "Size")
# How long Docker may take over its answers, with many images.
_PATIENCE_SECONDS = 60
_AGAIN_SECONDS = 0.02


def ask(run: Run) -> dict[str, list[Any]]:
    """``{version, info, images}``, each as status, stdout (of the last two parsed) and stderr."""
    version = run(["docker", "version", "--format", "{{.Server.Version}}"])
    info = run(["docker", "info", "--format", "{{json .}}"])
    status, ids, why = run(["docker", "image", "ls", "--all", "--quiet", "--no-trunc"])
    names = sorted(set(ids.split()))
    # one that was removed in between makes the status 1, beside all others
    found = run(["docker", "image", "inspect", *names])[1] if names else "[]"
    return {
        "version": [*version],
        "info": [info[0], _only(_INFO, json.loads(info[1] or "{}")), info[2]],
        "images": [status, [_only(_IMAGE, image) for image in json.loads(found or "[]")], why],
    }


def _answered(content: bytes) -> dict[str, Any]:
    """What `keep` wrote. ValueError or a like error for anything else."""
    answers: dict[str, Any] = json.loads(content)
    for name in ("version", "info", "images"):
        _status, _out, _why = answers[name]
    return answers


def _only(keys: Sequence[str], value: dict[str, object]) -> dict[str, Any]:
    return {key: value[key] for key in keys if key in value}


class Answers:
    """The questions of `Docker` in the server. folder: with the file and the FIFO by which it is written anew."""

    def __init__(self, folder: Path = FOLDER, seconds: float = _PATIENCE_SECONDS) -> None:
        self._file, self._look, self._seconds = folder / FILE, folder / LOOK, seconds

    def run(self, arguments: list[str]) -> tuple[int, str, str]:
        """As `run_command`, for what `Docker` asks of images that are here: status, stdout, stderr."""
        is_image = arguments[1:3] == ["image", "inspect"]
        if not is_image and arguments[1] not in ("version", "info"):
            return 126, "", f"docker {arguments[1]} is nothing that a host does for another"
        if not self._look.exists():
            return 127, "", f"there is no {self._look}, which leads to Docker"
        if is_image:
            return self._image(*arguments[3:])
        answers = self._read() or self._anew()
        status, out, why = answers[arguments[1]]
        return status, out if isinstance(out, str) else json.dumps(out), why

    def _image(self, name: str) -> tuple[int, str, str]:
        """It may have come a moment ago."""
        status, images, why = self._anew()["images"]
        if status:
            return status, "", why
        found = [image for image in images if name in (image.get("RepoTags") or ())]
        return (0, json.dumps(found), "") if found else (1, "", f"No such image: {name}")

    def _read(self) -> dict[str, Any] | None:
        return own_files.look(self._file, _answered)[0]

    def _anew(self) -> dict[str, Any]:
        before, deadline = self._made(), time.monotonic() + self._seconds
        look = os.open(self._look, os.O_WRONLY | os.O_NONBLOCK)
        os.write(look, b"\n")
        os.close(look)
        while self._made() == before:
            if time.monotonic() > deadline:
                raise TimeoutError(f"Docker has not answered for {self._seconds:.0f} s")
            time.sleep(_AGAIN_SECONDS)
        return self._read() or {}

    def _made(self) -> tuple[int, int] | None:
        """Which file it is: each is a new one, complete before it takes the old one's place."""
        if not self._file.exists():
            return None
        found = self._file.stat()
        return found.st_ino, found.st_mtime_ns


def keep(folder: Path, run: Run, pause: Callable[[float], None] = time.sleep, seconds: float = 0.1) -> None:
    """Write the file whenever something comes through the FIFO, whatever it is; without end.

    run: asks Docker. seconds: how long it rests after each, so that nobody keeps Docker busy.
    """
    # also open for writing: it doesn't end with the last who wrote
    look = os.open(folder / LOOK, os.O_RDWR)
    while os.read(look, 1 << 16):
        try:
            answers: dict[str, Any] = ask(run)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as problem:
            failed = [1, "", f"Docker's answer can't be read: {problem}"]
            answers = {"version": failed, "info": failed, "images": failed}
        partial = folder / f"{FILE}.partial"
        partial.write_text(json.dumps(answers), encoding="utf-8")
        partial.rename(folder / FILE)
        pause(seconds)
