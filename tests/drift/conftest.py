# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A converged lab of three hosts, drift.yml run against it as a user does, and its report as data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lab.fixtures import Fleet, eventually, lab_of, need_lab

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = ROOT / "tests" / "drift" / "inventory"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gb10-lab" / "vllm"
SERVICES = {"titan": 8000, "spark-2": 8001}
HOSTS = ["titan", "spark-2", "spark-3"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runs", type=int, default=5, help="how often test_clean_again checks")


@dataclass(frozen=True)
class Check:
    """One run of drift.yml."""

    code: int
    report: dict[str, Any]
    output: str


# What the seed `unit-retired` leaves is removed by order alone.
RETIRE = ("-e", "retire=old")


class Site:
    """The lab and the playbooks. reports: where drift.yml keeps its reports."""

    def __init__(self, fleet: Fleet, reports: Path) -> None:
        self.fleet, self.reports = fleet, reports

    def play(self, playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = Path(sys.executable).with_name("ansible-playbook")
        return subprocess.run(
            [str(program), "-i", str(INVENTORY), playbook, "-e", f"drift_folder={self.reports}", *arguments],
            cwd=ROOT,
            env=os.environ | {"GB10_LAB_DIR": str(self.fleet.directory), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )

    def converge(self) -> str:
        done = self.play("site.yml", *RETIRE)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        return done.stdout

    def check(self, *arguments: str) -> Check:
        done = self.play("drift.yml", *arguments)
        path = self.reports / "report.json"
        report = json.loads(path.read_bytes()) if path.exists() else {}
        return Check(done.returncode, report, done.stdout + done.stderr)

    def forget(self) -> None:
        """As before the first check."""
        (self.reports / "history.json").unlink(missing_ok=True)

    def serving(self) -> None:
        """Wait until the services answer: until then they are starting, which is neither clean nor drift."""
        for host, port in SERVICES.items():
            command = f"curl -sf -m 5 http://127.0.0.1:{port}/health"
            eventually(lambda host=host, command=command: self.fleet.ok(host, command), f"{host} serves")  # type: ignore[misc]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    need_lab()
    builder = ROOT / "tests" / "lab" / "vllm" / "build"
    subprocess.run([str(builder), "--to", str(CACHE), "vllm-stand-in", "tiny"], check=True, capture_output=True)
    with lab_of("--share", f"{CACHE}:/srv/lab") as fleet:
        found = Site(fleet, tmp_path_factory.mktemp("drift"))
        found.converge()
        found.serving()
        yield found
