# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole fleet by `site.yml`, as its owner makes it, with secrets of every kind; and what others see and do of it."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.plugin_utils._certificates import Pair, issued
from lab.fixtures import Fleet, eventually, owned_lab

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = ROOT / "tests" / "hostile" / "inventory"
HOSTS = ("titan", "spark-2", "spark-3")
ADDRESSES = {"titan": "10.77.0.11", "spark-2": "10.77.0.12", "spark-3": "10.77.0.13"}
HEADS = {"tiny": "titan", "pair": "spark-2"}
DECLARATION = Path("group_vars", "all", "fleet.yml")
# A host's task that changed something, as the callback prints it.
CHANGED = re.compile(r"^changed: \[.*", re.MULTILINE)
VERBOSE = ("-vvv", "--diff")
# Once it has booted: on a busy machine systemd-resolved comes later than SSH.
BOOTED = "systemctl is-system-running --wait > /dev/null"
LISTENED = BOOTED + "; ss -Htln | awk '{print $4}' | grep -v -e ^127 -e '^\\[::1' | sed 's/.*://' | sort -u"
# All characters that an API key may have besides letters and digits.
ODD = "-._~+/="


class Owner:
    """The owner: an inventory of his own outside of the project, and playbooks run as he runs them.

    secrets: by file below the inventory's folder `secrets`. outputs: what all runs have printed. before: TCP ports that
    each host listened on for others when nothing of ours was there.
    """

    def __init__(self, fleet: Fleet, folder: Path, before: dict[str, set[int]]) -> None:
        self.fleet, self.folder, self.inventory, self.before = fleet, folder, folder / "inventory", before
        self.home, self.reports = folder / "home", folder / "reports"
        self.outputs: list[str] = []
        self.secrets: dict[str, str] = {}
        self.declared: dict[str, Any] = yaml.safe_load((INVENTORY / DECLARATION).read_bytes())

    def make(self) -> None:
        """The inventory and its secrets."""
        shutil.copytree(INVENTORY, self.inventory)
        shutil.copytree(ROOT / "inventories" / "lab" / "recipes", self.inventory / "recipes")
        (self.inventory / "secrets").mkdir(mode=0o700)
        self.secrets = {
            "tiny": f"canary-api{ODD}{secrets.token_hex(8)}",
            "pair": f"{ODD[1:]}canary-api{secrets.token_hex(8)}{ODD}",
            "hub": f"hf_canary{secrets.token_hex(12)}",
            "ngc": f"nvapi-canary{secrets.token_hex(12)}",
            "sudo": f'canary sudo "{secrets.token_hex(8)}" \'ä',
            "vault": f"canary vault {secrets.token_hex(8)}",
        }
        for name, secret in self.secrets.items():
            file = self.inventory / "secrets" / name
            file.write_text(f"{secret}\n", encoding="utf-8")
            file.chmod(0o600)

    def beside(self, folder: Path) -> Owner:
        """Another controller of the same fleet, in a folder of its own; without an inventory yet."""
        return Owner(self.fleet, folder, self.before)

    @property
    def authority(self) -> Path:
        """The certificate of the local CA; its key lies beside it."""
        return self.inventory / ".fleet" / "ca" / "ca.crt"

    @property
    def environment(self) -> dict[str, str]:
        own = {"GB10_LAB_DIR": str(self.fleet.directory), "ANSIBLE_HOME": str(self.home), "COLUMNS": "200"}
        return os.environ | own | {"ANSIBLE_VAULT_PASSWORD_FILE": str(self.inventory / "secrets" / "vault")}

    @property
    def private_keys(self) -> list[Path]:
        """Those that runs have made for him."""
        return sorted((self.inventory / ".fleet").rglob("*.key"))

    def play(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = Path(sys.executable).with_name("ansible-playbook")
        token = f"model_store_token_file={self.inventory}/secrets/hub"
        done = subprocess.run(
            [program, "-i", self.inventory, *arguments, "-e", token, "-e", f"drift_folder={self.reports}"],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.outputs.append(done.stdout + done.stderr)
        return done

    def converge(self, *arguments: str) -> None:
        done = self.play("site.yml", *arguments)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

    def unchanged(self, *arguments: str) -> None:
        """A run that has nothing to do."""
        self.converge(*arguments)
        assert not CHANGED.search(self.outputs[-1]), CHANGED.findall(self.outputs[-1])

    def refused(self, *arguments: str) -> str:
        """What a run printed that ended before its first change."""
        done = self.play("site.yml", *arguments)
        assert done.returncode != 0, done.stdout[-6000:]
        assert not CHANGED.search(done.stdout), CHANGED.findall(done.stdout)
        return done.stdout + done.stderr

    def encrypt(self, file: Path, secret: str) -> None:
        """Write a file that ansible-vault has to decrypt."""
        program = Path(sys.executable).with_name("ansible-vault")
        words = [program, "encrypt", "--output", file, "-"]
        subprocess.run(words, input=secret, env=self.environment, text=True, check=True, capture_output=True)

    def certify(self, service: str) -> dict[str, str]:
        """`tls` of the service with files of the owner's own, the key encrypted. Clients trust them by the local CA."""
        ca = Pair(self.authority.read_bytes(), self.authority.with_suffix(".key").read_bytes())
        head, folder = HEADS[service], self.inventory / "tls"
        own = issued(ca, [head, ADDRESSES[head]], datetime.now(UTC), 300)
        folder.mkdir(exist_ok=True)
        (folder / f"{service}.crt").write_bytes(own.certificate)
        self.secrets[f"{service}.tls"] = own.key.decode()
        self.encrypt(folder / f"{service}.key", own.key.decode())
        return {"certificate": f"tls/{service}.crt", "key": f"tls/{service}.key"}

    def declare(self, beside: dict[str, Any] | None = None, **services: dict[str, Any] | None) -> None:
        """Write what is declared: as at first, with these keys of these services otherwise; None: without it.

        beside: more than services.
        """
        every = self.declared["fleet_services"]
        kept = [name for name in every | services if services.get(name, {}) is not None]
        wanted = {name: {**every.get(name, {}), **services.get(name, {})} for name in kept}
        text = yaml.safe_dump({**self.declared, **(beside or {}), "fleet_services": wanted})
        (self.inventory / DECLARATION).write_text(text, encoding="utf-8")

    def plan(self) -> dict[str, Any]:
        text = self.play("plan.yml", "-e", "fleet_plan_format=json").stdout
        found: dict[str, Any] = json.loads(text[text.index("\n{\n") : text.index("\n}\n") + 2])
        return found

    def answers(self, service: str, scheme: str = "https") -> bool:
        """Whether its endpoint answers with its key, asked from outside by who trusts the owner's CA alone."""
        return self.answered(service, f"{scheme}://{HEADS[service]}:8000", self.secrets[service])

    def answered(self, model: str, url: str, key: str) -> bool:
        """Whether somebody outside who trusts the owner's CA alone gets an answer there."""
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4})
        headers = ["-H", f"Authorization: Bearer {key}", "-H", "Content-Type: application/json"]
        # by the name that the inventory has: no address is known of a host that is reached through an SSH configuration
        names = [f"{host}:{port}:{ADDRESSES[host]}" for host in HOSTS for port in (443, 8000)]
        way = ["--cacert", str(self.authority), *(word for name in names for word in ("--resolve", name))]
        curl = ["curl", "-sf", "-m", "30", *way, *headers, "-d", body, f"{url}/v1/chat/completions"]
        return self.fleet.lab("net", "--", *curl, check=False).returncode == 0


@pytest.fixture(scope="session")
def owner() -> Iterator[Owner]:
    with owned_lab() as (fleet, own):
        found = Owner(fleet, own, {host: {*map(int, fleet.root(host, LISTENED).split())} for host in HOSTS})
        found.make()
        ask_for_passwords(fleet, found.secrets["sudo"])
        found.converge(*VERBOSE)
        for service in HEADS:
            eventually(lambda service=service: found.answers(service), f"{service} answers")  # type: ignore[misc]
        yield found


def ask_for_passwords(fleet: Fleet, password: str) -> None:
    """As on a DGX Spark: its user becomes root by a password. The password itself is in no argument."""
    for host in HOSTS:
        rule = "echo 'nvidia ALL=(ALL) ALL' > /etc/sudoers.d/nvidia"
        lab = [str(ROOT / "tests" / "lab" / "lab"), "-d", str(fleet.directory), "exec", host, "--", "sh", "-c"]
        subprocess.run([*lab, f"chpasswd && {rule}"], input=f"nvidia:{password}\n", text=True, check=True)
