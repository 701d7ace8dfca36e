# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One host with stand-ins of known speed: two that are equal, and one that takes a tenth longer for everything."""

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
HOST = "titan"
# Seconds of the stand-in: a thousand tokens of a prompt, and each token of an answer.
PREFILL_S, TOKEN_S, SLOWER = 0.2, 0.02, 1.1
# Service: port, and how much longer it takes.
SERVICES = {"chat": (8000, 1.0), "same": (8001, 1.0), "slower": (8002, SLOWER)}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runs", type=int, default=20, help="how often two services are compared, equal ones and others")


def stand_in(
    host: str, port: int, env: dict[str, str], recipe: str = "lab-tiny", pool: str = "4 MiB"
) -> dict[str, Any]:
    """A service of the stand-in, whose speed its variables set."""
    return {
        "recipe": recipe,
        "hosts": [host],
        "port": port,
        "listen": "127.0.0.1",
        "workload": {"max_model_len": 1024, "max_num_seqs": 8, "pool": pool},
        "silence": {"catalogue-unknown-variable": "the stand-in's own"},
        "env": env,
        "image": {
            "reference": "gb10-lab/vllm-stand-in:0.32.0",
            "family": "upstream",
            "release": "0.32.0",
            "source": {"archive": "/srv/lab/vllm-stand-in-0.32.0.tar"},
        },
    }


def _service(port: int, factor: float) -> dict[str, Any]:
    prefill, token = f"{PREFILL_S * factor:.4f}", f"{TOKEN_S * factor:.4f}"
    speed = {"VLLM_STAND_IN_PREFILL_SECONDS": prefill, "VLLM_STAND_IN_DECODE_SECONDS": token}
    return stand_in(HOST, port, speed)


class Owner:
    """The owner of titan, with an inventory of its own. kept: where its benchmarks are."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet, self.folder = fleet, folder
        lab = ROOT / "inventories" / "lab"
        shutil.copytree(lab, folder / "inventory", ignore=shutil.ignore_patterns(".fleet"))
        (folder / "inventory" / "hosts.yml").write_text(json.dumps({"all": {"hosts": {HOST: None}}}), "utf-8")
        self.kept = folder / "inventory" / ".fleet" / "observed" / "bench"
        self.reports = folder / "reports"
        self.declared = {
            "fleet_fabric": None,
            # three of them, each planned as the real vLLM
            "fleet_host": {"memory_kib": 18 << 20},
            "fleet_services": {name: _service(*service) for name, service in SERVICES.items()},
            "fleet_drift": {"benchmark": ["chat"], "free": {"memory_gib": 0.5, "disk_gib": 0.5}},
        }

    def play(self, playbook: str, *extra: str) -> subprocess.CompletedProcess[str]:
        begun = self.begin(playbook, *extra)
        output, _ = begun.communicate()
        return subprocess.CompletedProcess(begun.args, begun.returncode, output, "")

    def begin(self, playbook: str, *extra: str) -> subprocess.Popen[str]:
        given = [f"-e{one}" for one in [json.dumps(self.declared), f"drift_folder={self.reports}", *extra]]
        return self.fleet.playbook(self.folder / "home", "-i", str(self.folder / "inventory"), playbook, *given)


@pytest.fixture(scope="session")
def owner() -> Iterator[Owner]:
    with owned_lab("--hosts", HOST) as (fleet, own):
        found = Owner(fleet, own)
        done = found.play("site.yml")
        assert done.returncode == 0, done.stdout[-8000:]
        yield found
