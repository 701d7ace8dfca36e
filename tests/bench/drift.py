# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a clean drift check costs a host, against tuned Ansible that checks the same items one task each, in one run."""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.managed import managed_files
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.running import declared_units
from lab.disk import OWNER_PASSWORD

from .figures import Figure
from .fleet import ROOT

FEW = 2
# What one controller with two cores has to do for 500 hosts, in minutes of its processor time.
FLEET, CORES = 500, 2


class Hosts:
    """Converged lab hosts without services, reached through the counting relay."""

    def __init__(self, directory: Path, count: int) -> None:
        self.names = [f"d{number}" for number in range(1, count + 1)]
        self._directory = directory
        self._counted = directory.parent / "counted"
        self._counted.mkdir()

    def __enter__(self) -> Hosts:
        self._lab("up", "--hosts", ",".join(self.names), "--topology", "direct")
        self._inventory()
        self.play("site.yml", self.names)
        return self

    def __exit__(self, *_: object) -> None:
        self._lab("down")

    def _lab(self, *arguments: str) -> None:
        subprocess.run([str(ROOT / "tests/lab/lab"), "-d", str(self._directory), *arguments], check=True)

    def _inventory(self) -> None:
        lab = self._directory
        relay = f"env PYTHONPATH={ROOT}/tests:{ROOT}/collections {sys.executable} -m bench.relay"
        proxy = f"{relay} {lab} %h %p {self._counted}"
        variables = {
            "ansible_ssh_common_args": f"-F {lab}/ssh_config -o ProxyUseFdpass=no -o 'ProxyCommand={proxy}'",
            "ansible_control_path_dir": f"{lab.parent}/ssh",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_become_password": OWNER_PASSWORD,
            "fleet_services": {},
            "fleet_host": {"memory_kib": 15728640},
            "fleet_drift": {"free": {"memory_gib": 0, "disk_gib": 0}},
        }
        text = json.dumps({"all": {"hosts": {name: {} for name in self.names}, "vars": variables}})
        self.inventory = lab.parent / "inventory.json"
        self.inventory.write_text(text)

    def play(self, playbook: str, hosts: Sequence[str]) -> str:
        program = Path(sys.executable).with_name("ansible-playbook")
        command = [str(program), "-i", str(self.inventory), playbook, "--limit", ",".join(hosts)]
        environment = os.environ | {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stdout[-4000:] + done.stderr[-2000:])
        return done.stdout

    def login(self, host: str) -> int:
        """Round trips of a lone command over a new connection: all but one or two are OpenSSH's login."""
        self._begin_anew()
        variables = json.loads(self.inventory.read_text())["all"]["vars"]
        subprocess.run(["ssh", *shlex.split(variables["ansible_ssh_common_args"]), host, "true"], check=True)
        (counts,) = [json.loads(path.read_text()) for path in self._counted.glob("*.json")]
        return int(counts["trips"])

    def _begin_anew(self) -> None:
        for path in (self._directory.parent / "ssh").glob("*"):
            subprocess.run(["ssh", "-O", "exit", "-o", f"ControlPath={path}", "x"], capture_output=True, check=False)
        for path in self._counted.iterdir():
            path.unlink()

    def cost(self, playbook: str, hosts: Sequence[str]) -> dict[str, float]:
        """Over new connections: round trips and bytes of the costliest host, processor seconds of the controller."""
        self._begin_anew()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.play(playbook, hosts)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        counts = [json.loads(path.read_text()) for path in self._counted.glob("*.json")]
        return {
            "trips": max(count["trips"] for count in counts),
            "bytes": max(count["bytes"] for count in counts),
            "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        }


def one_task_each(plan: dict[str, Any], host: str) -> list[dict[str, Any]]:
    """The same items as drift compares on a host, as tasks."""
    mine = plan["hosts"][host]
    sysctl = {**mine["host_tuning"]["sysctl"], **mine["fabric"]["sysctl"]}
    stats = [
        {"ansible.builtin.stat": {"path": one.path, "checksum_algorithm": "sha256"}} for one in managed_files(mine)
    ]
    reads = [{"ansible.builtin.slurp": {"src": "/proc/sys/" + key.replace(".", "/")}} for key in sorted(sysctl)]
    shown = [["systemctl", "show", unit] for unit in declared_units(mine)]
    shown += [["docker", "info"], ["docker", "ps"], ["nft", "list", "tables"], ["ss", "-ltn"], ["cat", "/proc/swaps"]]
    shown += [["ip", "-j", "address"], ["uname", "-r"], ["dpkg-query", "-l", "docker.io"], ["df", "/"], ["date", "+%s"]]
    commands = [{"ansible.builtin.command": {"argv": argv}, "failed_when": False} for argv in shown]
    return [*stats, *reads, *commands]


def figures(hosts: Hosts) -> Iterator[Figure]:
    plan = _plan(hosts)
    baseline_play = hosts.inventory.with_name("baseline.yml")
    tasks = one_task_each(plan, hosts.names[0])
    play = {"hosts": "all", "gather_facts": False, "become": True, "tasks": tasks}
    baseline_play.write_text(json.dumps([play]))
    few, many = hosts.names[:FEW], hosts.names
    ours = [hosts.cost("drift.yml", chosen) for chosen in (few, many)]
    theirs = [hosts.cost(str(baseline_play), chosen) for chosen in (few, many)]
    extra = len(many) - len(few)
    cpu, cpu_baseline = ((after["cpu"] - before["cpu"]) / extra for before, after in (ours, theirs))
    yield Figure(
        f"drift: SSH round trips a host, {len(tasks)} items",
        ours[1]["trips"],
        theirs[1]["trips"],
        "round trips",
        "<= 15",
    )
    beyond = ours[1]["trips"] - hosts.login(hosts.names[0])
    yield Figure("drift: of these more than a lone command's", beyond, None, "round trips", "<= 6")
    yield Figure("drift: bytes to a host", ours[1]["bytes"] / 1000, theirs[1]["bytes"] / 1000, "kB", "<= 300")
    yield Figure("drift: controller's CPU an extra host", cpu, cpu_baseline, "s", "<= 0.5")
    yield Figure(
        "drift: bytes a host, many hosts against two", ours[1]["bytes"] / ours[0]["bytes"], None, "x", "<= 1.2"
    )
    minutes = FLEET / CORES / 60
    yield Figure("drift: 500 hosts on two cores, projected", cpu * minutes, cpu_baseline * minutes, "min", "<= 4")


def _plan(hosts: Hosts) -> dict[str, Any]:
    output = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(hosts.inventory), "plan.yml",
         "-e", "fleet_plan_format=json"], cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    plan: dict[str, Any] = json.loads(output[output.index("\n{\n") : output.index("\n}\n") + 2])
    return plan
