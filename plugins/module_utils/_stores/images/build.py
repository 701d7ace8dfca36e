# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds an image on this host by Docker's own BuildKit, and says beforehand what is in the way.

Nothing is left of a build that fails: BuildKit names an image only when all its steps ended well. What it has built so
far stays in its cache, so that the next try goes on from there.
"""

import json
import os
import queue
import re
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..._base.findings import Finding, FleetError
from ..._base.sizes import GIB, size
from ..._base.staging import Progress, refusal, require_space
from ..._facts.builds.running import failure, jobs_for, needs_git, policy, step_of, words
from .identity import Reference

_MEMINFO = Path("/proc/meminfo")
# Of BuildKit's output, what may say why it failed.
_KEPT_LINES = 200
_TICK_SECONDS = 5


def available_memory() -> int:
    """What programs can still have without anything being ended, in bytes (MemAvailable)."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _MEMINFO.read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def build_obstacles(order: Mapping[str, Any], docker_root: Path) -> list[Finding]:
    """What this host lacks for a build: programs, memory for one compiler, room. order: of
    `_facts.builds.build.Build`."""
    found: list[Finding] = []
    for command, wanted, package in (
        (["docker", "buildx", "version"], True, "docker-buildx-plugin (with Docker's packages) or docker-buildx"),
        (["git", "--version"], needs_git(order), "git"),
    ):
        if wanted and not _runs(command):
            found += refusal(
                "build-program",
                " ".join(command),
                found="it does not run",
                expected="a program that a build needs",
                remedy=f"apt-get install {package} on that host",
            ).findings
    available = available_memory()
    if not jobs_for(order, available):
        found += refusal(
            "build-memory",
            "/proc/meminfo",
            found=f"{size(available)} available",
            expected=f"{order['job_gib']:g} GiB for one compiler beside {order['floor_gib']:g} GiB that stay free",
            remedy="stop a service of that host for that time (gb10.fleet.stop), or name a host with more: "
            "image.source {host: ...}",
        ).findings
    try:
        require_space(docker_root, int(order["disk_gib"] * GIB), "a build (docker builder prune frees earlier builds)")
    except FleetError as error:
        found += error.findings
    return found


def build_image(
    order: Mapping[str, Any], reference: Reference, folder: Path, progress: Progress, *, anew: bool
) -> None:
    """Build and name one image. folder: where the files that are handed to BuildKit lie meanwhile. anew: from nothing.

    Raises FleetError with the step that failed, and when the controller is gone; then nothing runs on.
    """
    jobs = max(1, jobs_for(order, available_memory()))
    progress.start(f"image {reference}, building with {jobs} jobs", 0)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as context, _policy(order, folder) as environment:
        for name, text in order["files"].items():
            file = Path(context, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        output: deque[str] = deque(maxlen=_KEPT_LINES)
        with _running(words(order, str(reference), context, jobs, anew), environment) as process:
            step = "begun"
            for line in _lines(process):
                output.append(line)
                step = step_of(line) or step
                progress.report(step)
            status = process.wait()
    if status:
        why = failure(output, jobs)
        raise refusal(
            why.rule, f"docker buildx build {reference}", found=why.found, expected=why.expected, remedy=why.remedy
        )


@contextmanager
def _policy(order: Mapping[str, Any], folder: Path) -> Iterator[Mapping[str, str]]:
    """The variables of a build that may fetch what is pinned alone. Raises FleetError where Docker does not obey: an
    earlier one builds without a word."""
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix="policy-") as file:
        json.dump(policy(order), file)
        file.flush()
        environment = {**os.environ, "EXPERIMENTAL_BUILDKIT_SOURCE_POLICY": file.name}
        command = ["docker", "buildx", "build", "--builder=default", "--progress=plain", "-"]
        tried = subprocess.run(
            command, env=environment, input=b"FROM localhost/gb10-denied\n", capture_output=True, check=False
        )
        if b"denied by policy" not in tried.stderr:
            raise refusal(
                "build-policy",
                "docker buildx build",
                found=tried.stderr.decode(errors="replace").strip()[-200:] or "no word of the build's policy",
                expected="a BuildKit that refuses what the build does not pin (Docker 23, buildx 0.10, or newer)",
                remedy="install a newer docker-ce and docker-buildx-plugin (or docker.io, docker-buildx) on that host",
            )
        yield environment


def _runs(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@contextmanager
def _running(command: Iterable[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """The command while it runs; ended with the block, upon which BuildKit ends what it does for it."""
    with subprocess.Popen(
        [*command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    """What it prints, and an empty line now and then while it prints nothing: a compiler may be silent for minutes."""
    found: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout
        for line in process.stdout:
            found.put(line.rstrip("\n"))
        found.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = found.get(timeout=_TICK_SECONDS)
        except queue.Empty:
            line = ""
        if line is None:
            return
        yield line
