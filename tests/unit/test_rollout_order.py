# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollout takes one step after the other, and none after a host that is lost. IMITATED: what a step does there."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from shell import copy_collection, owners_environment

STEP = "- name: Move\n  ansible.builtin.ping:\n  when: inventory_hostname in services_step.hosts\n"
HOSTS = ("a", "b", "c", "d")
# not by name, and not as the inventory has them
ORDER = ("c", "b", "a", "d")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A copy of the collection with another step, and the play that takes the steps, with what it is given before."""
    copy_collection(tmp_path)
    (tmp_path / "roles/services/tasks/rollout_step.yml").write_text(STEP)
    plays = yaml.safe_load((tmp_path / "playbooks/rollout.yml").read_text())
    (play,) = (one for one in plays if "fleet_rollout_steps" in one["hosts"])
    # the record and the lease of a run lie on a host, and this machine is none
    own = ("gb10.fleet.host_files", "gb10.fleet.lease")
    play["tasks"] = [task for task in play["tasks"] if not any(name in str(task) for name in own)]
    (tmp_path / "playbooks/steps.yml").write_text(yaml.safe_dump([play]))
    return tmp_path


def run(site: Path, lost: str) -> subprocess.CompletedProcess[str]:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        away = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": nobody.getsockname()[1]}
        groups = {name: {"hosts": dict.fromkeys(HOSTS)} for name in ("fleet_rollout", "fleet_rollout_steps")}
        steps: list[dict[str, Any]] = [{"service": f"on-{name}", "hosts": [name], "holds": None} for name in ORDER]
        variables = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "ansible_become": False,
            "fleet_slice": {"services": [], "supervisor": {}, "tls": {}},
            "fleet_plan": {"observed": "/nowhere"},
            "rollout_chosen": {"gateways": []},
            "rollout": {"steps": steps, "replicas": {}},
        }
        hosts = {name: away if name == lost else {} for name in HOSTS}
        inventory = site / "hosts.json"
        inventory.write_text(json.dumps({"all": {"hosts": hosts, "vars": variables, "children": groups}}))
        program = Path(sys.executable).with_name("ansible-playbook")
        own = {"ANSIBLE_HOME": str(site), "ANSIBLE_DISPLAY_OK_HOSTS": "true"}
        words = [str(program), "-i", str(inventory), "gb10.fleet.steps"]
        return subprocess.run(
            words, cwd=site, env=owners_environment() | own, capture_output=True, text=True, check=False
        )


def moved(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The hosts that moved, in their order."""
    tasks = done.stdout.split("TASK [")
    return [
        line.partition("[")[2].partition("]")[0]
        for task in tasks
        if task.startswith("gb10.fleet.services : Move]")
        for line in task.splitlines()
        if line.startswith("ok: [")
    ]


def test_each_moves_in_its_turn_and_nobody_after_a_host_that_is_lost(site: Path) -> None:
    """No gateway is there to see it: the next one does."""
    done = run(site, lost="a")
    assert done.returncode != 0
    assert moved(done) == ["c", "b"]
    assert "on-d was left alone: a can not be reached" in " ".join(done.stdout.split())


# One step ---------------------------------------------------------------------------------------------------------

# IMITATED: what is asked of a service, and what is kept of it, on a host where something is in the way of one of them.
MODULE = """#!/usr/bin/python
import os
from ansible.module_utils.basic import AnsibleModule
DOCUMENTATION = "module: {name}"
options = {{"service": {{"type": "raw"}}, "files": {{"type": "list"}}, "image": {{}}, "state": {{"default": "kept"}}}}
module = AnsibleModule(argument_spec=options, supports_check_mode=True)
if os.environ["FAILS"] == "{name}":
    module.fail_json(msg="/x: No space left on device")
module.exit_json(changed=module.params["state"] == "kept", seconds=1, service="chat")
"""
NOTES = "- name: {name}\n  ansible.builtin.ping:\n"


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the collection that all runs of this file pack once."""
    folder = tmp_path_factory.mktemp("step")
    copy_collection(folder)
    for name in ("service_way_back", "service_ready"):
        (folder / f"plugins/action/{name}.py").unlink(missing_ok=True)
        (folder / f"plugins/modules/{name}.py").write_text(MODULE.format(name=name))
    for name in ("main", "stop", "start", "back"):
        (folder / f"roles/services/tasks/{name}.yml").write_text(NOTES.format(name=f"did {name}"))
    (folder / "roles/verify/tasks/main.yml").write_text(NOTES.format(name="did verify"))
    plan = [{"name": "chat", "rank": 0, "files": {}, "container": {"image": "i"}}]
    moves = {"service": "chat", "hosts": ["a"], "holds": None, "serves": True}
    given = {"services_step": moves, "services_plan": plan, "services_supervisor": {"files": {}}}
    given["services_replicas"] = {"chat": {"start": "s", "definition": "d", "hosts": ["a"]}}
    given |= {"services_slice": {}, "services_observed": "", "services_least_speed": 0.7}
    tasks = {"ansible.builtin.include_role": {"name": "gb10.fleet.services", "tasks_from": "rollout_step"}}
    play = {"hosts": "a", "gather_facts": False, "tasks": [{"name": "Step", **tasks}], "vars": given}
    (folder / "playbooks/step.yml").write_text(yaml.safe_dump([play]))
    return folder


@pytest.mark.parametrize("fails", ["service_way_back", "service_ready", "none"])
def test_what_can_not_go_back_is_not_moved(step: Path, fails: str) -> None:
    words = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "a,", "-c", "local", "gb10.fleet.step"]
    own = {"ANSIBLE_HOME": str(step), "ANSIBLE_DISPLAY_OK_HOSTS": "true", "FAILS": fails}
    words += ["-e", f"ansible_python_interpreter={sys.executable}"]
    done = subprocess.run(words, cwd=step, env=owners_environment() | own, capture_output=True, text=True, check=False)
    did = [line for line in done.stdout.splitlines() if " : did " in line]
    if fails == "none":
        assert done.returncode == 0 and len(did) == 2, done.stdout
    else:
        assert done.returncode == 2 and did == []
        assert "chat serves as it did: nothing of it was moved" in " ".join(done.stdout.split())
