# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nightly timer, unattended on a lab host that checks another: rotation, a missing host, bad input."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.fixtures import Fleet, eventually, need_lab

ROOT = Path(__file__).resolve().parents[2]
# ansible-core and ansible-runner for the lab host's Python; it has no network
WHEELS = ["ansible-core==2.19.14", "ansible-runner==2.4.3"]
PLATFORMS = [word for tag in ("2014", "_2_28") for word in ("--platform", f"manylinux{tag}_x86_64")]
INVENTORY = """\
all:
  vars:
    ansible_user: nvidia
    ansible_python_interpreter: /usr/bin/python3
    fleet_services: {}
    fleet_host: {memory_kib: 15728640}
    fleet_drift: {free: {memory_gib: 0, disk_gib: 0}}
  hosts:
    spark-2: {ansible_host: 10.77.0.12}
"""


class Control:
    """titan, which checks spark-2 every few seconds."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def run(self, command: str) -> str:
        return self.fleet.root("titan", command)

    def write(self, path: str, text: str) -> None:
        lab = [str(ROOT / "tests" / "lab" / "lab"), "-d", str(self.fleet.directory)]
        command = [*lab, "exec", "titan", "--", "sh", "-c", f"cat > {path}"]
        subprocess.run(command, input=text, text=True, check=True)

    def last(self) -> tuple[str, str]:
        """Exit status and the line in the journal of the last check that ended."""
        lines = self.run("journalctl -u gb10-drift.service -t gb10-drift -o cat --no-pager").splitlines()
        code = self.run("systemctl show gb10-drift.service -p ExecMainStatus --value").strip()
        return code, lines[-1] if lines else ""

    def eventually(self, code: str, words: str) -> None:
        eventually(lambda: self.last()[0] == code and words in self.last()[1], f"{code} {words}, not {self.last()}")


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    need_lab()
    wheels = tmp_path_factory.mktemp("wheels")
    only = ["--python-version", "3.13", "--only-binary=:all:", *PLATFORMS]
    subprocess.run(["python3", "-m", "pip", "download", "-q", "-d", str(wheels), *only, *WHEELS], check=True)
    fleet = Fleet(Path(tempfile.mkdtemp(prefix="gb10-timer-")))
    fleet.lab("up", "--hosts", "titan,spark-2", "--share", f"{ROOT}:/srv/fleet", "--share", f"{wheels}:/srv/wheels")
    found = Control(fleet)
    found.run("mkdir -p -m 700 /root/.ssh; mkdir -p /srv/site")
    found.write("/root/.ssh/id_ed25519", (fleet.directory / "id_ed25519").read_text())
    found.run("chmod 600 /root/.ssh/id_ed25519; ssh-keyscan 10.77.0.12 > /root/.ssh/known_hosts 2>/dev/null")
    found.write("/srv/site/hosts.yml", INVENTORY)
    found.run("apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null")
    found.run("python3 -m venv /opt/a; /opt/a/bin/pip install -q --no-index --find-links /srv/wheels ansible-core")
    here = "cd /srv/fleet; PATH=/opt/a/bin:$PATH"
    found.run(f"{here} ansible-playbook -i /srv/site site.yml")
    pip = json.dumps({"drift_timer_pip_arguments": ["--no-index", "--find-links", "/srv/wheels"]})
    often = "-e 'drift_timer_when=\"*:*:0/10\"' -e drift_timer_keep=2"
    found.run(f"{here} ansible-playbook -i /srv/site drift-timer.yml -c local {often} -e '{pip}'")
    yield found
    fleet.lab("down")


def test_the_nights(control: Control) -> None:
    """In one test, since each night goes on where the one before ended."""
    control.eventually("0", "everything is as declared")
    control.fleet.root("spark-2", "sysctl -qw vm.swappiness=60")
    control.eventually("2", "not everything is as declared")
    assert control.run("systemctl is-failed gb10-drift.service || :").strip() != "failed"
    report = json.loads(control.run("cat /var/lib/gb10-fleet/drift/reports/report.json"))
    assert [one["resource"] for one in report["findings"]] == ["sysctl vm.swappiness"]
    control.fleet.root("spark-2", "sysctl -qw vm.swappiness=1")
    control.eventually("0", "everything is as declared")

    control.fleet.lab("power", "off", "spark-2")
    control.eventually("1", "could not tell: not everything could be read: 1 host, 1 unknown")
    control.fleet.lab("power", "on", "spark-2")

    control.write("/srv/site/hosts.yml", "all: [")
    control.eventually("1", "drift: could not tell: ")
    control.write("/srv/site/hosts.yml", INVENTORY)
    control.eventually("0", "everything is as declared")
    assert int(control.run("ls /var/lib/gb10-fleet/drift/artifacts | wc -l")) <= 3
