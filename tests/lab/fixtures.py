# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For tests of every suite: a lab for the whole session, and short ways to act on it.

``from lab.fixtures import fleet`` in a conftest.py (``tests`` is on pytest's path). Without root or the packages that
the lab needs, tests that use it are skipped; where that must not happen, set GB10_LAB_REQUIRED=1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from . import orders, requirements
from .errors import LabError
from .vllm import images
from .workspace import Running, Workspace

COMMAND = Path(__file__).resolve().parent / "lab"
_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 180


class Fleet:
    """A lab in a directory, driven through its own command line."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.workspace = Workspace.at(directory)

    @property
    def ssh_config(self) -> Path:
        return self.workspace.ssh_config

    def running(self) -> Running:
        found = Running.find(self.workspace.state)
        assert found, f"no lab is up in {self.directory}"
        return found

    def lab(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """``lab -d DIRECTORY ...``; a failure is a failed test that shows what was said."""
        result = subprocess.run(
            [str(COMMAND), "-d", str(self.directory), *arguments], check=False, text=True, capture_output=True
        )
        assert not check or result.returncode == 0, f"lab {' '.join(arguments)}: {result.stdout}{result.stderr}"
        return result

    def ssh(self, host: str, command: str, *, check: bool = True) -> str:
        """A shell command on the host, as its user."""
        return self.lab("ssh", host, command, check=check).stdout

    def root(self, host: str, command: str, *, check: bool = True) -> str:
        """A shell command on the host, as its root and without SSH."""
        result = self._on_host(host, command)
        assert not check or result.returncode == 0, f"{host}: {command}: {result.stdout}{result.stderr}"
        return result.stdout

    def playbook(self, folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
        """``ansible-playbook`` of this checkout, in a session of its own as a terminal has, both streams in one.

        folder: its Ansible keeps there what it keeps.
        """
        program = Path(sys.executable).with_name("ansible-playbook")
        own = {"GB10_LAB_DIR": str(self.directory), "ANSIBLE_HOME": str(folder), "COLUMNS": "200"}
        return subprocess.Popen(
            [str(program), *words],
            cwd=COMMAND.parents[2],
            env=os.environ | own | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def ok(self, host: str, command: str) -> bool:
        return self._on_host(host, command).returncode == 0

    def _on_host(self, host: str, command: str) -> subprocess.CompletedProcess[str]:
        """As ``lab exec`` does, without starting Python: a test that waits for something asks many times."""
        try:
            words = orders.host_command(self.workspace, host, ["sh", "-c", command])
        except LabError as error:
            return subprocess.CompletedProcess([], 1, "", str(error))
        environment = os.environ | {"PATH": requirements.complete_path()}
        return subprocess.run(words, check=False, text=True, capture_output=True, env=environment)


def eventually(true: Callable[[], bool], what: str, seconds: float = _PATIENCE_SECONDS) -> None:
    """Wait for what takes its time; the limit only ends a test that has failed."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not after {seconds} s: {what}"
        time.sleep(_POLL_SECONDS)


def rank_rows(status: str, *services: str) -> list[list[str]]:
    """Service, rank, host and state of each rank in the table of status.yml. Sentences begin with the same names."""
    rows = [line.split()[:4] for line in status.splitlines()]
    return [row for row in rows if len(row) == 4 and row[0] in services and row[1].isdigit()]


def need_lab() -> None:
    try:
        requirements.check()
    except LabError as error:
        if os.environ.get("GB10_LAB_REQUIRED"):
            pytest.fail(f"no lab: {error}")
        pytest.skip(f"no lab: {error}")


@contextmanager
def lab_of(*options: str) -> Iterator[Fleet]:
    """A lab by ``lab up`` with these options. GB10_LAB_DIR: one that is up there is used, and left up."""
    need_lab()
    given = os.environ.get("GB10_LAB_DIR")
    found = Fleet(Path(given) if given else Path(tempfile.mkdtemp(prefix="gb10-lab-")))
    was_up = Running.find(found.workspace.state) is not None
    if not was_up:
        found.lab("up", *options)
    try:
        yield found
    finally:
        if not was_up:
            found.lab("down")


@contextmanager
def owned_lab(*options: str) -> Iterator[tuple[Fleet, Path]]:
    """The same, with the stand-in shared with its hosts, and a folder of their owner's."""
    need_lab()  # before the stand-in is built
    with (
        lab_of(*options, "--share", images.stand_in_share()) as fleet,
        tempfile.TemporaryDirectory(prefix="gb10-owner-") as own,
    ):
        yield fleet, Path(own)


@pytest.fixture
def new_fleet() -> Iterator[Callable[[], Fleet]]:
    """Makes directories for labs of one test; what is up in them at its end goes down."""
    need_lab()
    fleets: list[Fleet] = []

    def make() -> Fleet:
        fleets.append(Fleet(Path(tempfile.mkdtemp(prefix="gb10-lab-"))))
        return fleets[-1]

    yield make
    for fleet in fleets:
        fleet.lab("down")


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    """titan, spark-2, spark-3 with their cable. GB10_LAB_DIR: a lab that is up there is used, and left up."""
    need_lab()
    given = os.environ.get("GB10_LAB_DIR")
    found = Fleet(Path(given)) if given else Fleet(Path(tempfile.mkdtemp(prefix="gb10-lab-")))
    was_up = Running.find(found.workspace.state) is not None
    found.lab("up")
    yield found
    if not was_up:
        found.lab("down")
