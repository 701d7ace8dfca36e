# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One host with a stand-in whose speed follows from its options, so that the best of them is known."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.fixtures import Fleet, owned_lab

ROOT = Path(__file__).resolve().parents[2]
HOST, SERVICE = "titan", "chat"
GOAL = "4 users, prompt 64, answer 8"
# Of a token with the fastest options.
BEST_S = 0.06


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runs", type=int, default=25, help="how many starts a search may take")
    parser.addoption("--searches", type=int, default=500, help="how many are simulated")
    parser.addoption("--starts", type=int, default=1, help="from how many of five declarations it begins")


class Owner:
    """The owner of titan, with an inventory of its own. kept: where its searches are."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet, self.folder = fleet, folder
        lab = ROOT / "inventories" / "lab"
        shutil.copytree(lab, folder / "inventory", ignore=shutil.ignore_patterns(".fleet"))
        (folder / "inventory" / "hosts.yml").write_text(json.dumps({"all": {"hosts": {HOST: None}}}), "utf-8")
        self.kept = folder / "inventory" / ".fleet" / "observed" / "tune"
        self.flags: dict[str, Any] = {}

    @property
    def declared(self) -> dict[str, Any]:
        service = {
            "recipe": "lab-tiny",
            "hosts": [HOST],
            "port": 8000,
            "listen": "127.0.0.1",
            "silence": {"catalogue-unknown-variable": "the stand-in's own"},
            "workload": {"max_model_len": 2048, "max_num_seqs": 2, "pool": 16512},
            "flags": self.flags,
            "env": {"VLLM_STAND_IN_OPTIONS": f"{BEST_S}"},
            "image": {
                "reference": "gb10-lab/vllm-stand-in:0.32.0",
                "family": "upstream",
                "release": "0.32.0",
                "source": {"archive": "/srv/lab/vllm-stand-in-0.32.0.tar"},
            },
        }
        memory = {"memory_kib": 23068672}  # so that what is larger goes, too
        return {"fleet_fabric": None, "fleet_host": memory, "fleet_services": {SERVICE: service}}

    def play(self, playbook: str, *extra: str) -> subprocess.CompletedProcess[str]:
        begun = self.begin(playbook, *extra)
        output, _ = begun.communicate()
        return subprocess.CompletedProcess(begun.args, begun.returncode, output, "")

    def begin(self, playbook: str, *extra: str) -> subprocess.Popen[str]:
        """A group of processes of its own."""
        given = [f"-e{one}" for one in [json.dumps(self.declared), *extra]]
        return self.fleet.playbook(self.folder / "home", "-i", str(self.folder / "inventory"), playbook, *given)

    def tune(self, *extra: str) -> tuple[str, ...]:
        return ("gb10.fleet.tune", f"service={SERVICE}", f"goal='{GOAL}'", "rounds=2", *extra)

    def on_host(self, *words: str) -> str:
        return self.fleet.lab("exec", HOST, "--", *words).stdout


@pytest.fixture(scope="session")
def owner() -> Iterator[Owner]:
    with owned_lab("--hosts", HOST) as (fleet, own):
        found = Owner(fleet, own)
        done = found.play("site.yml")
        assert done.returncode == 0, done.stdout[-8000:]
        yield found
