# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real ansible-rulebook hears an alert as Alertmanager sends it, and a host of the lab is looked at. Needs Java."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab.fixtures import Fleet, eventually, lab_of

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "canary-of-a-webhook-5d1e"
PORT = 5001
LIMIT_S = 600
# Version 4 of a message of Alertmanager, as 0.25 and 0.28 write it; the second host is a pattern of Ansible's.
MESSAGE = {
    "version": "4",
    "status": "firing",
    "receiver": "owner",
    "groupLabels": {"alertname": "Gb10GpuSilent", "host": "titan"},
    "alerts": [
        {"status": "firing", "labels": {"alertname": "Gb10GpuSilent", "host": "titan", "severity": "critical"}},
        {"status": "firing", "labels": {"alertname": "Gb10GpuSilent", "host": "all:!titan", "severity": "critical"}},
        {"status": "resolved", "labels": {"alertname": "Gb10Drift", "host": "titan", "of": "titan"}},
    ],
}


@dataclass(frozen=True)
class Hearer:
    """ansible-rulebook that listens. folder: of its owner."""

    folder: Path

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()

    def send(self, message: object, token: str = TOKEN) -> int:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        asked = urllib.request.Request(f"http://127.0.0.1:{PORT}/", json.dumps(message).encode(), headers)
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code
        except OSError:
            return 0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of its commands, with the collection as `ansible-galaxy` installs it beside them."""
    if not shutil.which("java"):
        pytest.skip("no Java: apt-get install default-jre-headless")
    folder = tmp_path_factory.mktemp("program")
    tools = folder / "venv/bin"

    def run(*words: str | Path) -> None:
        subprocess.run(words, check=True, timeout=LIMIT_S, cwd=folder)

    run(sys.executable, "-m", "venv", "venv")
    run(tools / "pip", "install", "-q", "ansible-rulebook", "ansible-core>=2.19", "distlib")
    run("git", "clone", "-q", ROOT, "clone")
    run(tools / "ansible-galaxy", "collection", "build", "--output-path", "dist", "clone")
    [artifact] = (folder / "dist").glob("*.tar.gz")
    run(tools / "ansible-galaxy", "collection", "install", "-p", "collections", artifact)
    return tools


@pytest.fixture(scope="module")
def titan() -> Iterator[Fleet]:
    with lab_of("--hosts", "titan") as fleet:
        yield fleet


@pytest.fixture
def hearer(program: Path, titan: Fleet, tmp_path: Path) -> Iterator[Hearer]:
    mine = tmp_path / "mine"
    shutil.copytree(ROOT / "inventories/lab", mine)
    (mine / "group_vars/all/fleet.yml").write_text("---\nfleet_services: {}\n")
    (tmp_path / "alerts.yml").write_text(json.dumps({"webhook_token": TOKEN, "inventory": str(mine)}))
    environment = os.environ | {
        "PATH": f"{program}:{os.environ['PATH']}",
        "ANSIBLE_COLLECTIONS_PATH": str(program.parents[1] / "collections"),
        "ANSIBLE_HOME": str(tmp_path / "ansible"),
        "GB10_LAB_DIR": str(titan.directory),
    }
    words = ["--rulebook", "gb10.fleet.look", "--inventory", "mine/hosts.yml", "--vars", "alerts.yml"]
    found = Hearer(tmp_path)
    with (tmp_path / "output").open("w") as output:
        running = subprocess.Popen(
            [program / "ansible-rulebook", *words], cwd=tmp_path, env=environment, stdout=output, stderr=output
        )
        try:
            eventually(lambda: found.send({}) == 200, f"it listens: {tmp_path / 'output'}")
            yield found
        finally:
            running.terminate()
            running.wait(LIMIT_S)


def test_an_alert_starts_the_doctor_for_its_host_with_the_owners_inventory(hearer: Hearer) -> None:
    assert hearer.send(MESSAGE, token="wrong") == 401
    assert hearer.send(MESSAGE) == 200
    reports = hearer.folder / "mine/.fleet/doctor"
    eventually(lambda: reports.is_dir() and [*reports.iterdir()] != [], "the doctor's report is beside the inventory")
    eventually(lambda: "Show how it ended" in hearer.output, "its screen is shown")
    # The same alert again, a pattern for a host, and a message of another: nothing starts.
    assert hearer.send(MESSAGE) == 200
    assert hearer.send({"alerts": "none"}) == 200
    time.sleep(15)
    assert hearer.output.count("PLAY [Start the run that an alert asks for") == 1
    assert TOKEN not in hearer.output
