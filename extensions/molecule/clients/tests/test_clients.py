# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both clients ran, were signed in to and answered when the scenario converged; what they leave, and how they go."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]
pytestmark = pytest.mark.story

SCENARIO = Path(__file__).resolve().parents[1]
FLEET: dict[str, Any] = yaml.safe_load((SCENARIO / "vars" / "fleet.yml").read_text("utf-8"))
KEYS: dict[str, str] = yaml.safe_load((SCENARIO / "vars" / "clients.yml").read_text("utf-8"))
Playbook = Callable[..., "subprocess.CompletedProcess[str]"]


def test_no_secret_is_in_a_command_or_in_dockers_words(host: Host) -> None:
    seen = host.check_output("docker inspect gb10-client-chat gb10-client-agent; ps -eo args; journalctl -b --no-pager")
    own = host.check_output("cat /etc/gb10-fleet/clients/*/own.env")
    secrets = [line.split("'")[1] for line in own.splitlines()]
    assert len(secrets) == 3
    for secret in (*secrets, *KEYS.values()):
        assert secret not in seen
    assert host.file("/etc/gb10-fleet/clients/chat/own.env").mode == 0o600


def test_only_what_is_asked_for_listens(host: Host) -> None:
    listening = host.check_output("ss -Hltn | awk '{print $4}'").split()
    assert "0.0.0.0:3000" in listening and "127.0.0.1:8642" in listening and "0.0.0.0:8642" not in listening


def test_status_shows_that_both_answer(host: Host, playbook: Playbook) -> None:
    assert host.service("gb10-client-chat.service").is_running
    shown = playbook("status.yml", "-l", "titan", "--extra-vars", json.dumps(FLEET)).stdout
    assert len([line for line in shown.splitlines() if line.rstrip().endswith(" answers")]) == 2, shown


def test_drift_is_clean_and_names_a_changed_file(host: Host, playbook: Playbook) -> None:
    variables = json.dumps(FLEET | {"drift_format": "json"})
    assert "gb10-client" not in playbook("drift.yml", "-l", "titan", "--extra-vars", variables).stdout
    host.check_output("echo >> /etc/gb10-fleet/clients/agent/config.yaml")
    found = playbook("drift.yml", "-l", "titan", "--extra-vars", variables).stdout
    assert "/etc/gb10-fleet/clients/agent/config.yaml" in found


def test_one_goes_when_it_is_ordered_to_and_what_people_kept_stays(host: Host, playbook: Playbook) -> None:
    host.check_output("touch /var/lib/gb10-fleet/clients/chat/webui.db")
    left = {name: one for name, one in FLEET["fleet_clients"].items() if name != "chat"}
    variables = FLEET | {"fleet_clients": left, "retire": "chat"}
    run = playbook(str(SCENARIO / "converge.yml"), "--extra-vars", json.dumps(variables))
    assert run.returncode == 0, run.stdout
    assert not host.file("/etc/gb10-fleet/clients/chat").exists
    assert not host.file("/etc/systemd/system/gb10-client-chat.service").exists
    assert host.file("/var/lib/gb10-fleet/clients/chat/webui.db").exists
    assert host.service("gb10-client-agent.service").is_running
