# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One host with a service that site.yml brought, an owner's inventory outside of the project, and playbooks."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.fixtures import Fleet, owned_lab

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
        hosts = str(self.folder / "inventory" / "hosts.yml")
        words = ("-i", hosts, playbook, "-l", HOST, "-e", recipes, *arguments)
        return self.fleet.playbook(self.folder / "home", *words, **environment)

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
    with owned_lab("--hosts", HOST) as (fleet, own):
        yield Owner(fleet, own)
