# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pair as a person sees it: playbooks from the root, its endpoint, what its supervisors say."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.fixtures import Fleet

ROOT = Path(__file__).resolve().parents[3]
LAB = ROOT / ".lab-molecule"
DECLARED = ROOT / "molecule" / "cluster" / "vars" / "fleet.yml"
HOSTS = ("spark-2", "spark-3")
UNIT = "gb10-vllm-tiny-pair.service"


class Pair:
    """key: the API key. Playbooks run with what the scenario declares, changed as asked."""

    def __init__(self) -> None:
        self.fleet = Fleet(LAB)
        self.key = (DECLARED.parents[1] / "key.txt").read_text().strip()

    def playbook(self, *arguments: str, **changes: Any) -> subprocess.CompletedProcess[str]:
        """changes: keys of the service."""
        mine = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "MOLECULE_"))}
        services = yaml.safe_load(DECLARED.read_text())["fleet_services"]
        services["tiny-pair"] |= changes
        command = ("ansible-playbook", *arguments, "--extra-vars", json.dumps({"fleet_services": services}))
        environment = mine | {"GB10_LAB_DIR": str(LAB), "COLUMNS": "200"}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    def ask(self, key: str) -> tuple[int, dict[str, Any]]:
        """HTTP status and reply of one request from outside."""
        body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8})
        headers = ["--header", f"Authorization: Bearer {key}", "--header", "Content-Type: application/json"]
        url = "http://10.77.0.11:8000/v1/chat/completions"
        curl = ["curl", "--silent", "--max-time", "60", "--write-out", "\n%{http_code}", *headers, "--data", body, url]
        text = self.fleet.lab("net", "--", *curl).stdout
        reply, _, status = text.rpartition("\n")
        return int(status), json.loads(reply)

    def status(self, host: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.fleet.root(host, "cat /run/gb10-fleet/tiny-pair/status.json"))
        return found

    def epochs(self) -> list[int]:
        return [self.status(host)["epoch"] for host in HOSTS]


@pytest.fixture(scope="session")
def pair() -> Pair:
    return Pair()
