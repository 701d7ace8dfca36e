# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One host with a service that site.yml brought, an owner's inventory outside of the project, and playbooks."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.fixtures import Fleet, need_lab
from lab.vllm import images
from lab.workspace import Running

ROOT = Path(__file__).resolve().parents[2]
HOST = "titan"
PATIENCE_S = 60
POLL_S = 0.2


class Owner:
    """The owner of titan, with a copy of the inventory that the suite of drift has."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet, self.folder = fleet, folder
        shutil.copytree(
            ROOT / "tests" / "drift" / "inventory", folder / "inventory", ignore=shutil.ignore_patterns(".fleet")
        )
        (folder / "inventory" / "secrets" / "tiny").chmod(0o600)

    def play(self, playbook: str = "site.yml", *arguments: str) -> subprocess.CompletedProcess[str]:
        begun = self.begin(playbook, *arguments)
        output, _ = begun.communicate()
        return subprocess.CompletedProcess(begun.args, begun.returncode, output, "")

    def begin(self, playbook: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """In a session of its own, as a terminal has; both streams in one."""
        recipes = json.dumps({"fleet_recipe_dirs": [str(ROOT / "inventories" / "lab" / "recipes")]})
        program = Path(sys.executable).with_name("ansible-playbook")
        own = {"GB10_LAB_DIR": str(self.fleet.directory), "ANSIBLE_HOME": str(self.folder / "home"), "COLUMNS": "200"}
        hosts = str(self.folder / "inventory" / "hosts.yml")
        return subprocess.Popen(
            [str(program), "-i", hosts, playbook, "-l", HOST, "-e", recipes, *arguments],
            cwd=ROOT,
            env=os.environ | own | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def converge(self) -> str:
        done = self.play()
        assert done.returncode == 0, done.stdout[-8000:]
        return done.stdout

    def root(self, command: str) -> None:
        """On the host, whatever becomes of it: of some harms a part fails."""
        self.fleet.root(HOST, command, check=False)

    def becomes(self, right: str, patience_s: float = PATIENCE_S) -> bool:
        """Whether a shell command on the host succeeds within that time; the host itself waits for the moment."""
        loop = f"until {right}; do sleep {POLL_S}; done"
        return self.fleet.ok(HOST, f"timeout {patience_s} sh -c {shlex.quote(loop)}")


@pytest.fixture(scope="session")
def owner() -> Iterator[Owner]:
    """GB10_LAB_DIR: a lab that is up there is used, and left up."""
    need_lab()
    folder = images.default_directory()
    images.ensure_model("tiny", folder)
    images.ensure_image(images.STAND_IN, folder)
    given = os.environ.get("GB10_LAB_DIR")
    fleet = Fleet(Path(given) if given else Path(tempfile.mkdtemp(prefix="gb10-harm-")))
    was_up = Running.find(fleet.workspace.state) is not None
    if not was_up:
        fleet.lab("up", "--hosts", HOST, "--share", f"{folder}:/srv/lab")
    with tempfile.TemporaryDirectory(prefix="gb10-owner-") as own:
        yield Owner(fleet, Path(own))
    if not was_up:
        fleet.lab("down")
