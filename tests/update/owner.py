# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Four lab hosts whose kernel is an imitation (`host/`), and who updates them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from lab.fixtures import Fleet, need_lab

from .debs import META, publish_kernel

ROOT = Path(__file__).resolve().parents[2]
HOSTS = ("titan", "spark-2", "spark-3", "spark-4")
KERNEL, NEXT, BAD = "6.17.0-1014-nvidia", "6.17.0-1021-nvidia", "7.0.0-1019-nvidia"
RECORD = "/var/lib/gb10-fleet/update/record.json"


class Owner:
    """The owner of four hosts, and of the repository that they are updated from. declared: variables of all hosts."""

    def __init__(self, fleet: Fleet, folder: Path, repository: Path, declared: dict[str, Any]) -> None:
        self.fleet, self.folder, self.repository = fleet, folder, repository
        self.root = ROOT  # the release that he runs
        everybody = folder / "group_vars" / "all"
        everybody.mkdir(parents=True)
        for path in (ROOT / "inventories" / "lab" / "group_vars" / "all").glob("*.yml"):
            (everybody / path.name).write_bytes(path.read_bytes())
        (everybody / "z.yml").write_text(yaml.safe_dump(declared))
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {host: {} for host in HOSTS}}}))

    def begin(self, playbook: str, *arguments: str) -> subprocess.Popen[str]:
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        own = {"GB10_LAB_DIR": str(self.fleet.directory), "COLUMNS": "200"}
        return subprocess.Popen(
            [program, "-i", str(self.folder / "hosts.yml"), playbook, *arguments],
            cwd=self.root,
            env=os.environ | own,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def play(self, playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        began = time.monotonic()
        begun = self.begin(playbook, *arguments)
        printed, _ = begun.communicate()
        print(printed)
        print(f"{playbook} {' '.join(arguments)}: {time.monotonic() - began:.0f} s, status {begun.returncode}")
        return subprocess.CompletedProcess(begun.args, begun.returncode, printed, "")

    def update(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.play("playbooks/update.yml", *arguments)

    def kernels(self) -> dict[str, str]:
        """What runs, and the version of the package that brings it."""
        asked = f"cat /run/lab-kernel; dpkg-query --show --showformat='${{Version}}' {META}"
        return {host: " ".join(self.fleet.root(host, asked).split()) for host in HOSTS}

    def boots(self) -> dict[str, str]:
        return {host: self.fleet.root(host, "cat /proc/sys/kernel/random/boot_id").strip() for host in HOSTS}

    def cut_off(self, host: str) -> None:
        """Begin an update, and end it without a word once packages are installed on a host."""
        cut = self.begin("playbooks/update.yml")
        while self.stage(host) != "installed":
            assert cut.poll() is None
            time.sleep(0.2)
        os.killpg(cut.pid, signal.SIGKILL)
        cut.wait()

    def stage(self, host: str) -> str:
        found = self.fleet.root(host, f"cat {RECORD} 2> /dev/null", check=False)
        return str(json.loads(found)["stage"]) if found.strip() else ""


@contextmanager
def owner_of(place: Path, declared: dict[str, Any], *shares: str, docker: bool = False) -> Iterator[Owner]:
    """Everything of a lab in a folder, its hosts with the first kernel. shares: as ``lab up --share`` takes them.
    docker: it is there already."""
    need_lab()
    repository = place / "repository"
    repository.mkdir()
    version = publish_kernel(repository, KERNEL)
    fleet = Fleet(place / "lab")
    folders = (f"{repository}:/srv/repository", f"{Path(__file__).parent / 'host'}:/srv/own", *shares)
    words = [word for folder in folders for word in ("--share", folder)]
    try:
        words += ["--docker"] if docker else []
        fleet.lab("up", "--hosts", ",".join(HOSTS), "--cable", "spark-2:1=spark-3:1", *words)
        for host in HOSTS:
            fleet.root(host, _PREPARED.format(meta=META, version=version))
        yield Owner(fleet, place / "site", repository, declared)
    finally:
        fleet.lab("down")


_PREPARED = """set -e
install -m 755 /srv/own/lab-kernel /usr/local/sbin/
install -m 644 /srv/own/lab-kernel.service /etc/systemd/system/
install -m 644 /srv/own/lab_kernel.py /usr/lib/python3/dist-packages/
echo 'import lab_kernel' > /usr/lib/python3/dist-packages/lab_kernel.pth
echo 'deb [trusted=yes] file:/srv/repository ./' > /etc/apt/sources.list.d/repository.list
apt-get update --quiet
apt-get install --quiet --assume-yes {meta}={version}
systemctl enable --now --quiet lab-kernel.service
"""
