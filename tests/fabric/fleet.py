# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab for the fabric's tests: hosts, cables, and plays run against them."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.plan import plan_fabric
from lab.disk import OWNER_PASSWORD
from lab.fixtures import Fleet

ROOT = Path(__file__).resolve().parents[2]
PLAYS = Path(__file__).resolve().parent / "plays"
STAND_IN = Path(__file__).resolve().parent / "stand_ins" / "ib_write_bw"


@dataclass(frozen=True)
class Facts:
    """What the planner needs to know of a host."""

    address: str


class FabricFleet(Fleet):
    """Simulated hosts in a directory of their own."""

    def up(self, hosts: Sequence[str], cables: Sequence[str] = (), *options: str) -> None:
        """cables: as `lab up --cable` takes them; none for the default. options: more of its words."""
        wires = (word for cable in cables for word in ("--cable", cable))
        self.lab("up", "--hosts", ",".join(hosts), *wires, *options)

    @property
    def renderer(self) -> str:
        return self.running().lab.renderer

    @property
    def addresses(self) -> dict[str, str]:
        """Each host's address on the management network."""
        status = json.loads(self.lab("status", "--json").stdout)
        return {name: host["address"] for name, host in status["hosts"].items()}

    def answers_ssh(self, host: str) -> bool:
        """Whether a new SSH connection can be made now."""
        options = ("-F", str(self.ssh_config), "-o", "ControlPath=none", "-o", "ConnectTimeout=3")
        command = ("ssh", *options, host, "true")
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=6)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def wait_for_ssh(self, host: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self.answers_ssh(host):
            assert time.monotonic() < deadline, f"{host} did not answer SSH within {seconds} s"
            time.sleep(0.5)

    def netplan_files(self, host: str) -> str:
        """Names, modes, owners and digests of all netplan files; of links also where they lead."""
        return self.root(host, "cd /etc/netplan && stat -c '%N %F %a %u %g' * && sha256sum $(find -L . -type f | sort)")

    def stand_in_for_verbs(self, host: str, devices: Sequence[str]) -> None:
        """A stand-in for ib_write_bw (stand_ins/ib_write_bw says how it is set), and one that lists devices."""
        listed = f"#!/bin/sh\nprintf 'device node\\n------ ----\\n{devices[0]} 1\\n'\n".encode()
        for name, text in (("ib_write_bw", STAND_IN.read_bytes()), ("ibv_devices", listed)):
            encoded = base64.b64encode(text).decode()
            self.root(host, f"cd /usr/local/bin && echo {encoded} | base64 -d > {name} && chmod 755 {name}")
        for device in devices:
            folder = f"/run/lab/sys/class/infiniband/{device}/ports/1/counters"
            counters = f"{folder}/port_xmit_data {folder}/port_rcv_data"
            self.root(host, f"mkdir -p /run/stand-in {folder} && echo 0 | tee {counters}")

    # Plays --------------------------------------------------------------------------------------------------------

    def plan(self, fabric: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """The role's variables for each host."""
        plan, findings = plan_fabric(fabric, {name: Facts(address) for name, address in self.addresses.items()})
        assert [finding.sentence() for finding in findings if finding.severity == "error"] == []
        return {host: {"fabric_plan": part} for host, part in plan.items()}

    def inventory(self, variables: Mapping[str, Mapping[str, Any]]) -> Path:
        """An inventory of these hosts with their variables."""
        # Beside the shared connections: `down` removes it with them.
        path = self.workspace.ssh_masters / f"inventory-{'-'.join(variables)[:40]}.json"
        common = {
            "ansible_ssh_common_args": f"-F {self.ssh_config}",
            # Ansible names its shared connections by host alone: another lab may have one of the same name.
            "ansible_control_path_dir": f"{self.directory}/ssh",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_become_password": OWNER_PASSWORD,
        }
        path.write_text(json.dumps({"all": {"hosts": dict(variables), "vars": common}}))
        return path

    def start(self, play: str, variables: Mapping[str, Mapping[str, Any]], *options: str) -> subprocess.Popen[str]:
        """A play as a process of its own process group; its result comes as JSON."""
        environment = os.environ | {
            "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "PYTHONPATH": str(ROOT / "collections"),
        }
        program = Path(sys.executable).parent / "ansible-playbook"
        command = [str(word) for word in (program, "-i", self.inventory(variables), PLAYS / play)]
        return subprocess.Popen(
            [*command, *options],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def play(self, play: str, variables: Mapping[str, Mapping[str, Any]], *options: str) -> Outcome:
        process = self.start(play, variables, *options)
        out, err = process.communicate()
        return Outcome.of(out, err)


@dataclass(frozen=True)
class Outcome:
    """What a play did: each host's counts, and each task's result by host."""

    stats: dict[str, dict[str, int]]
    tasks: dict[str, dict[str, dict[str, Any]]]
    errors: str

    @classmethod
    def of(cls, out: str, err: str) -> Outcome:
        assert "{" in out, f"no result: {out}{err}"
        data = json.loads(out[out.index("{\n") :])
        tasks = {task["task"]["name"]: task["hosts"] for play in data["plays"] for task in play["tasks"]}
        return cls(data["stats"], tasks, err)

    def succeeded(self) -> bool:
        return all(not counts["failures"] and not counts["unreachable"] for counts in self.stats.values())

    def changed(self) -> dict[str, int]:
        return {host: counts["changed"] for host, counts in self.stats.items()}

    def verdicts(self, key: str) -> dict[str, Any]:
        """What the proof said of each host: its ``fabric`` or its ``msg``."""
        (judged,) = (hosts for task, hosts in self.tasks.items() if task.endswith("Judge the fabric"))
        return {host: result.get(key) for host, result in judged.items()}

    def failures(self) -> dict[str, str]:
        """Each failed host's message."""
        return {
            host: str(result.get("msg", result))
            for hosts in self.tasks.values()
            for host, result in hosts.items()
            if result.get("failed") or result.get("unreachable")
        }
