# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An owner of lab hosts, mostly of one, with an inventory of his own, whose services run the real vLLM on the CPU."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from lab.fixtures import Fleet
from lab.vllm import images

ROOT = Path(__file__).resolve().parents[2]
HOST = "10.77.0.11"
HUB = "http://10.77.0.1:8085"
IMAGE: dict[str, Any] = {
    "reference": "gb10-lab/vllm-cpu:0.32.0",
    "family": "upstream",
    "release": "0.32.0",
    "source": {"archive": "/srv/lab/vllm-cpu-0.32.0.tar"},
}
# What a CPU needs, as in inventories/lab/recipes/lab-tiny.yml.
FLAGS: dict[str, Any] = {"block-size": 128, "enforce-eager": True, "max-num-batched-tokens": 2048}
ENVIRONMENT = {"OMP_NUM_THREADS": "1"}


class Owner:
    """An owner with an inventory of his own, whose controller and hosts reach the lab's hub alone."""

    def __init__(self, fleet: Fleet, folder: Path, *hosts: str) -> None:
        self.fleet, self.folder = fleet, folder
        shutil.copytree(ROOT / "inventories" / "lab" / "group_vars", folder / "group_vars")
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {host: {} for host in hosts}}}))

    def declare(self, *, memory_kib: int = 15728640, **services: dict[str, Any]) -> None:
        written = {"fleet_services": services, "fleet_host": {"memory_kib": memory_kib}}
        (self.folder / "group_vars" / "all" / "fleet.yml").write_text(yaml.safe_dump(written))

    def play(self, *arguments: str, hub: str = HUB) -> subprocess.CompletedProcess[str]:
        lab = [str(ROOT / "tests" / "lab" / "lab"), "-d", str(self.fleet.directory), "net", "--"]
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        own = {"GB10_LAB_DIR": str(self.fleet.directory), "HF_ENDPOINT": hub, "COLUMNS": "200"}
        return subprocess.run(
            [*lab, program, "-i", str(self.folder / "hosts.yml"), *arguments],
            cwd=ROOT,
            env=os.environ | own,
            capture_output=True,
            text=True,
            check=False,
        )

    def answers(self, port: int, model: str, *, address: str = HOST, key: str | None = None) -> bool:
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4})
        url = f"http://{address}:{port}/v1/chat/completions"
        headers = ["Content-Type: application/json", *([f"Authorization: Bearer {key}"] if key else [])]
        sent = [word for header in headers for word in ("-H", header)]
        curl = ["curl", "-sf", "-m", "30", *sent, "-d", body, url]
        return self.fleet.lab("net", "--", *curl, check=False).returncode == 0


@contextlib.contextmanager
def owner_at(place: Path, *shares: str, hosts: tuple[str, ...] = ("titan",)) -> Iterator[Owner]:
    """Everything of a lab in a folder of its own. shares: folders for the hosts, as ``lab up --share`` takes them."""
    share = images.default_directory()
    images.ensure_model("tiny", share)
    images.ensure_image(images.VLLM_CPU, share)
    fleet = Fleet(place / "lab")
    folders = [f"{share}:/srv/lab", f"{sysconfig.get_path('purelib')}:/srv/packages", *shares]
    (place / "site").mkdir()
    try:
        fleet.lab("up", "--hosts", ",".join(hosts), *(word for folder in folders for word in ("--share", folder)))
        yield Owner(fleet, place / "site", *hosts)
    finally:
        fleet.lab("down")
        shutil.rmtree(place, ignore_errors=True)
