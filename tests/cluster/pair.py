# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service on two lab hosts as its owner sees it: playbooks from the root, its endpoint, what its supervisors say."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from lab.fixtures import Fleet, eventually
from shell import owners_environment

from . import canary
from .bare import HOSTS

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "extensions" / "molecule" / "cluster"
NAME = "tiny-pair"
CONTAINER = f"gb10-service-{NAME}"
UNIT = f"{CONTAINER}.service"
SECRET = f"{canary.HOLDS}{NAME}.group"
EVIDENCE = f"/var/lib/gb10-fleet/evidence/{NAME}"


class Pair:
    """declared: the service as the scenario `cluster` has it, without `image` where the real vLLM is meant."""

    def __init__(self, fleet: Fleet, declared: Mapping[str, Any]) -> None:
        self.fleet, self.declared = fleet, declared
        self.key = (SCENARIO / "key.txt").read_text().strip()
        self.outputs: list[str] = []
        # Its own: other runs on this machine write and remove files in the one of the user.
        self._ansible_home = tempfile.TemporaryDirectory()

    # What its owner does -----------------------------------------------------------------------------------------

    def playbook(
        self, *arguments: str, others: Mapping[str, Mapping[str, Any]] | None = None, typed: str = "", **changes: Any
    ) -> subprocess.CompletedProcess[str]:
        """With what is declared, changed as asked. What it says is kept in `said`.

        changes: keys of the service. others: services beside it, as it is declared but for these keys. typed: what is
        typed at its prompts.
        """
        services = {name: {**self.declared, **keys} for name, keys in {NAME: changes, **(others or {})}.items()}
        declared = json.dumps({"fleet_services": services})
        return self.run("ansible-playbook", *arguments, "--extra-vars", declared, typed=typed)

    def run(self, *command: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        own = {"GB10_LAB_DIR": str(self.fleet.directory), "ANSIBLE_HOME": self._ansible_home.name}
        # A session without a terminal: prompts are answered by what is typed here.
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=owners_environment() | own,
            input=typed,
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
        )
        self.outputs.append(done.stdout + done.stderr)
        return done

    def ask(self, key: str) -> tuple[int, dict[str, Any]]:
        """HTTP status and reply of one request from outside."""
        body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8})
        headers = ["--header", f"Authorization: Bearer {key}", "--header", "Content-Type: application/json"]
        url = "http://10.77.0.11:8000/v1/chat/completions"
        curl = ["curl", "--silent", "--max-time", "60", "--write-out", "\n%{http_code}", *headers, "--data", body, url]
        text = self.fleet.lab("net", "--", *curl, check=False).stdout
        reply, _, status = text.rpartition("\n")
        return int(status), json.loads(reply or "{}")

    # What can be seen --------------------------------------------------------------------------------------------

    def status(self, host: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.fleet.root(host, f"cat /run/gb10-fleet/{NAME}/status.json"))
        return found

    def epochs(self) -> list[int]:
        return [self.status(host)["epoch"] for host in HOSTS]

    def journal(self, host: str) -> str:
        return self.fleet.root(host, f"journalctl --no-pager --output cat --unit {UNIT}")

    def secrets(self) -> list[str]:
        """The group's secret as each host has it."""
        return [self.fleet.root(host, f"cat {SECRET}").strip() for host in HOSTS]

    def fail_once(self) -> None:
        """The worker's container is killed; there is evidence of it when this returns."""
        self.fleet.root("spark-3", f"docker kill {CONTAINER}")
        for host in HOSTS:
            eventually(lambda host=host: self.fleet.ok(host, f"ls -d {EVIDENCE}/2*"), f"{host} keeps evidence")  # type: ignore[misc]

    def leaks(self, keys: Iterable[str], *folders: Path) -> list[str]:
        """Where one of the keys or the group's secret is seen: in what commands have said here, in the files that they
        have left here (in `folders` too), and on the hosts."""
        secrets = [*keys, *self.secrets()]

        def shows(text: str) -> bool:
            return any(secret in text for secret in secrets)

        found = [f"said here, run {number}" for number, text in enumerate(self.outputs) if shows(text)]
        left = (ROOT / "inventories", Path(self._ansible_home.name), *folders)
        written = (file for folder in left for file in folder.rglob("*") if file.is_file())
        found += [str(file) for file in written if shows(_text(file))]
        return found + [leak for host in HOSTS for leak in canary.leaks(self.fleet, host, CONTAINER, secrets)]


def _text(file: Path) -> str:
    """Empty where another run has renamed or removed it meanwhile."""
    try:
        return file.read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""


def declared() -> dict[str, Any]:
    """The service of the scenario `cluster`."""
    service: dict[str, Any] = yaml.safe_load((SCENARIO / "vars" / "fleet.yml").read_text())["fleet_services"][NAME]
    return service


def changed(run: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """Changes of each host, of the recap."""
    recap = run.stdout[run.stdout.index("PLAY RECAP") :]
    return {host: int(count) for host, count in re.findall(r"^(\S+) +: .*\bchanged=(\d+)", recap, re.MULTILINE)}


def order(text: str, *marks: str) -> bool:
    """Whether the marks are found one after the other."""
    place = -1
    return all((place := text.find(mark, place + 1)) >= 0 for mark in marks)
