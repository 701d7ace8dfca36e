# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An upgrade on titan: what was served before stays until the new service is proved, and is removed then. A boot
brings the new one back."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from lab.fixtures import Fleet
from test_refused import FLEET
from test_served import LAB, answer
from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]
pytestmark = pytest.mark.story

Playbook = Callable[..., "subprocess.CompletedProcess[str]"]
BEFORE, AFTER = "gb10-lab/vllm-stand-in:0.32.0", "gb10-lab/vllm-stand-in:0.32.0-next"
REVISION = "b" * 40
SNAPSHOTS = "/var/lib/gb10-fleet/hf/hub/models--gb10-lab--tiny/snapshots"


def upgrade(playbook: Playbook, *arguments: str, **image: Any) -> subprocess.CompletedProcess[str]:
    """site.yml with another image and another revision, of which nothing earlier is to be kept."""
    new = {
        "reference": AFTER,
        "family": "upstream",
        "release": "0.32.0",
        "source": {"archive": "/srv/lab/vllm-stand-in-0.32.0-next.tar"},
    }
    service = {
        "recipe": "lab-tiny",
        "hosts": ["titan"],
        "port": 8000,
        "served_name": "tiny",
        "workload": {"max_model_len": 2048, "max_num_seqs": 8},
        "image": new | image,
        "model": {"revision": REVISION, "source": {"path": "/srv/lab/tiny"}},
    }
    host = {"memory_kib": 15728640, "retention": {"images": 0, "models": 0}}
    variables = json.dumps({"fleet_services": {"tiny": service}, "fleet_host": host})
    return playbook("site.yml", "--limit", "titan", "--extra-vars", variables, *arguments)


def images(host: Host) -> set[str]:
    return set(host.check_output("docker image ls --format '{{.Repository}}:{{.Tag}}'").split())


def test_a_part_runs_alone_where_nothing_else_is_needed(host: Host, playbook: Playbook) -> None:
    refused = upgrade(playbook, "--tags", "services")
    output = " ".join((refused.stdout + refused.stderr).split())
    assert refused.returncode != 0 and "changed: [" not in refused.stdout
    assert "titan: services needs image_store first, since" in output and "add image_store to --tags" in output
    before = host.sysctl("vm.swappiness")
    host.check_output("sysctl --write vm.swappiness=77")
    run = playbook("site.yml", "--limit", "titan", "-e", f"@{FLEET}", "--tags", "host_tuning")
    assert (run.returncode, host.sysctl("vm.swappiness")) == (0, before), run.stdout
    assert "TASK [gb10.fleet.services" not in run.stdout


def test_what_was_served_stays_when_the_new_service_does_not_come_up(host: Host, playbook: Playbook) -> None:
    [revision] = host.file(SNAPSHOTS).listdir()
    run = upgrade(playbook, entrypoint="/nowhere/vllm")
    output = " ".join((run.stdout + run.stderr).split())
    assert run.returncode != 0
    assert output.count("[ERROR]") == 1
    assert f"Kept from before: image {BEFORE}, model gb10-lab/tiny revision {revision}. To go back," in output
    assert images(host) == {BEFORE, AFTER}
    assert set(host.file(SNAPSHOTS).listdir()) == {revision, REVISION}


def test_what_was_served_is_removed_when_the_new_service_is_proved(host: Host, playbook: Playbook) -> None:
    """Its unit, too, where an earlier release has named it otherwise: the service is there once, and not twice."""
    unit, former = "gb10-service-tiny.service", "gb10-vllm-tiny.service"
    folder = "/etc/systemd/system"
    host.run_expect([0], f"systemctl disable --now {unit} && mv {folder}/{unit} {folder}/{former}")
    host.run_expect([0], f"systemctl daemon-reload && systemctl enable --now {former}")
    run = upgrade(playbook)
    assert run.returncode == 0, run.stdout
    assert host.check_output("docker ps --format '{{.Names}}'") == "gb10-service-tiny"
    assert host.run(f"ls {folder}/{former} {folder}/multi-user.target.wants/{former}").stdout == ""
    assert host.service(unit).is_enabled
    assert not host.service(former).is_running
    assert images(host) == {AFTER}
    assert host.file(SNAPSHOTS).listdir() == [REVISION]


def test_a_boot_brings_the_service_back(host: Host) -> None:
    Fleet(LAB).lab("power", "cycle", "titan")
    assert answer(host)
