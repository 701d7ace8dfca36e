# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The flow of gb10.fleet.update, cut off at each moment, on hosts that are imitated (`imitated.py`). Needs no lab."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from shell import copy_collection

from .imitated import ACTIONS, KERNEL, NEXT
from .owner import HOSTS, ROOT

UTILS = "ansible_collections.gb10.fleet.plugins.module_utils"
# Whether services run is asked of the imitated hosts; what else proves them is other suites' business.
TASKS = {
    "services/tasks/start.yml": "imitated_services: {services: true}",
    "services/tasks/stop.yml": "imitated_services: {services: false}",
    **{f"{role}/tasks/verify.yml": "" for role in ("clients", "fabric", "gateway")},
    "verify/tasks/main.yml": "",
}


CHAT: dict[str, Any] = {
    "recipe": "lab-tiny",
    "port": 8000,
    "served_name": "tiny",
    "workload": {"max_model_len": 2048, "max_num_seqs": 8, "pool": 16512},
    "api_key_file": "secrets/services",
    "image": {
        "reference": "gb10-lab/vllm-stand-in:0.32.0",
        "family": "upstream",
        "release": "0.32.0",
        "source": {"archive": "/srv/lab/vllm-stand-in-0.32.0.tar"},
    },
}
DECLARED: dict[str, Any] = {
    "fleet_recipe_dirs": [str(ROOT / "inventories" / "lab" / "recipes")],
    "fleet_services": {
        "chat-a": {**CHAT, "hosts": ["titan"]},
        "chat-b": {**CHAT, "hosts": ["spark-4"]},
        "pair": {**CHAT, "hosts": ["spark-2", "spark-3"], "served_name": "pair"},
    },
    "fleet_gateway": {
        "hosts": ["titan"],
        "name": "llm.lab",
        "keys_file": "secrets/clients.yml",
        "addresses": ["10.77.0.11"],
    },
}


class Site:
    """A copy of the collection whose hosts are files, and its owner's inventory."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.hosts = folder, folder / "hosts"
        copy_collection(folder)
        self._imitate(folder / "plugins")
        for path, call in TASKS.items():
            (folder / "roles" / path).write_text(f"---\n- gb10.fleet.{call}\n" if call else "---\n[]\n")
        for file in (folder / "playbooks" / "tasks").glob("*.yml"):
            file.write_text(file.read_text().replace("ansible.builtin.reboot:", "gb10.fleet.imitated_reboot:"))
        everybody = folder / "site" / "group_vars" / "all"
        everybody.mkdir(parents=True)
        cables = {"pool": "192.168.100.0/22", "cables": [["spark-2:1", "spark-3:1"]]}
        declared = DECLARED | {"fleet_host": {"memory_kib": 15728640}, "fleet_fabric": cables}
        (everybody / "fleet.yml").write_text(yaml.safe_dump(declared))
        (folder / "site" / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {host: {} for host in HOSTS}}}))
        (folder / "site" / "secrets").mkdir()
        for name, text in (("services", "k" * 20), ("clients.yml", f"anna: {'c' * 20}")):
            (folder / "site" / "secrets" / name).write_text(f"{text}\n")
            (folder / "site" / "secrets" / name).chmod(0o600)

    @staticmethod
    def _imitate(plugins: Path) -> None:
        shutil.copy(Path(__file__).with_name("imitated.py"), plugins / "module_utils" / "imitated.py")
        for name, kind in ACTIONS.items():
            text = f"from {UTILS}.imitated import {kind.__name__} as ActionModule\n"
            (plugins / "action" / f"{name}.py").write_text(text)
            if not (plugins / "modules" / f"{name}.py").exists():
                (plugins / "modules" / f"{name}.py").write_text('DOCUMENTATION = "{}"\n')

    def fresh(self) -> None:
        shutil.rmtree(self.hosts, ignore_errors=True)
        self.hosts.mkdir()

    def update(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        own = {
            "UPDATE_HOSTS": str(self.hosts),
            "PYTHONPATH": f"{ROOT / 'tests' / 'unit'}:{ROOT / 'tests'}",
            "GB10_LAB_DIR": str(self.folder),
            "COLUMNS": "200",
        }
        done = subprocess.run(
            [program, "-i", str(self.folder / "site" / "hosts.yml"), "playbooks/update.yml", *arguments],
            cwd=self.folder,
            env=os.environ | own | environment,
            check=False,
            capture_output=True,
            text=True,
        )
        print(done.stdout[-6000:], done.stderr[-2000:])
        return done

    def kernels(self) -> dict[str, str]:
        """What runs on each host whose services run and that has no record left."""
        found: dict[str, dict[str, Any]] = {path.name: json.loads(path.read_text()) for path in self.hosts.iterdir()}
        return {
            name: host["runs"] if host["up"] and host["has"] == host["runs"] and not host["record"] else "under way"
            for name, host in found.items()
        }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(Path(tmp_path_factory.mktemp("flow")))


@pytest.fixture(autouse=True)
def _fresh(site: Site) -> None:
    site.fresh()


ALL = dict.fromkeys(HOSTS, NEXT)
STOPPED = {"spark-4": NEXT, "spark-2": KERNEL, "spark-3": KERNEL, "titan": KERNEL}


@pytest.mark.parametrize("together", [(), ("-e", "together=true")])
def test_a_host_that_fails_takes_its_group_back_and_nobody_else(site: Site, together: tuple[str, ...]) -> None:
    done = site.update(*together, UPDATE_BREAKS="spark-3")
    assert done.returncode != 0
    assert "spark-3 did not prove itself, what can be put back was, and its services serve again" in done.stdout
    assert "driver: none runs; expected" in done.stdout
    assert site.kernels() == STOPPED
    assert site.update(*together).returncode == 0
    assert site.kernels() == ALL
    again = site.update(*together)
    assert "nothing is updated" in again.stdout
    assert again.stdout.count("changed=0") == len(HOSTS)


def test_a_service_that_is_slower_takes_its_hosts_back(site: Site) -> None:
    done = site.update(UPDATE_SLOWS="spark-2")
    assert "pair: it answers at 3% of the old one's speed" in done.stdout
    assert site.kernels() == STOPPED


def test_a_service_that_is_measured_slower_takes_its_hosts_back(site: Site) -> None:
    """Its three requests are as fast as before. What is not asked for, or can't be measured, stops nobody."""
    bench = ("-e", "bench=true")
    done = site.update(*bench, UPDATE_LIMPS="spark-2")
    assert "pair: 512 tokens x 4: 20.05 next token ms, 2.000 times it" in done.stdout
    assert site.kernels() == STOPPED
    site.fresh()
    busy = site.update(*bench, UPDATE_LIMPS="spark-2", UPDATE_BUSY="spark-2")
    assert (busy.returncode, site.kernels()) == (0, ALL)
    assert "pair was not measured: others asked" in busy.stderr
    site.fresh()
    assert site.update(UPDATE_LIMPS="spark-2").returncode == 0


@pytest.mark.parametrize("host", ["spark-4", "spark-2", "spark-3"])
@pytest.mark.parametrize("state", ["kept", "installed", "absent"])
def test_a_run_that_was_cut_off_is_taken_up(site: Site, host: str, state: str) -> None:
    assert site.update(UPDATE_CUT=f"{host} {state}").returncode < 0
    assert site.update().returncode == 0
    assert site.kernels() == ALL


@pytest.mark.parametrize("host", ["spark-2", "spark-3"])
def test_a_way_back_that_was_cut_off_goes_on_and_ends_there(site: Site, host: str) -> None:
    assert site.update(UPDATE_BREAKS="spark-3", UPDATE_CUT=f"{host} restored").returncode < 0
    done = site.update()
    assert done.returncode != 0
    assert "an earlier run was cut off while it put this host back" in done.stdout
    assert site.kernels() == STOPPED
    assert site.update().returncode == 0
    assert site.kernels() == ALL


def test_check_mode_touches_no_host(site: Site) -> None:
    done = site.update("--check")
    assert done.returncode == 0
    assert "1. spark-4: chat-b stops meanwhile" in done.stdout
    assert site.kernels() == dict.fromkeys(HOSTS, KERNEL)


def test_a_part_of_a_group_is_refused(site: Site) -> None:
    done = site.update("-l", "spark-2")
    assert done.returncode != 0
    assert "nothing was changed" in done.stdout
    assert site.kernels() == {}
