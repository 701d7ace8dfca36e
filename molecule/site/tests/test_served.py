# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""titan serves a model, as planned, and goes on doing so after a crash."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]

LAB = Path(os.environ["GB10_LAB_DIR"])
Playbook = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).resolve().parents[3]
URL = "http://127.0.0.1:8000"
UNIT = "gb10-service-tiny.service"
# A start takes half a minute of a quiet machine; a busy one may take this long.
PATIENCE_S = 300


def key() -> str:
    """The one that site.yml has made beside the inventory."""
    return (ROOT / "inventories/lab/.fleet/keys/tiny.key").read_text(encoding="utf-8").strip()


def ask(host: Host) -> str | None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "temperature": 0}
    command = "curl -sf -m 60 -H 'Content-Type: application/json' -H %s -d %s %s"
    try:
        reply = host.run(command, f"Authorization: Bearer {key()}", json.dumps(body), f"{URL}/v1/chat/completions")
    except RuntimeError:  # ssh itself failed: a host that boots does not listen yet
        return None
    if reply.rc != 0:
        return None
    content: str = json.loads(reply.stdout)["choices"][0]["message"]["content"]
    return content


def answer(host: Host) -> str | None:
    """The service's answer, when it gives one within the patience."""
    end = time.monotonic() + PATIENCE_S
    while (text := ask(host)) is None and time.monotonic() < end:
        time.sleep(0.5)
    return text


def test_the_model_answers_through_the_services_endpoint(host: Host) -> None:
    assert ask(host)


def test_nobody_else_is_answered(host: Host) -> None:
    for arguments in ("", "-H 'Authorization: Bearer wrong'", "-X OPTIONS"):
        for route in ("/v1/models", "/metrics"):
            assert host.check_output(f"curl -s -o /dev/null -w '%{{http_code}}' {arguments} {URL}{route}") == "401"


def test_the_kv_pool_is_the_planned_one(host: Host, playbook: Playbook) -> None:
    log = host.run("journalctl --unit %s --output cat", UNIT).stdout
    plan = playbook("plan.yml", "--extra-vars", "fleet_plan_format=json").stdout
    document = json.loads(plan[plan.index("\n{\n") : plan.index("\n}\n") + 2])
    assert f"{document['services']['tiny']['kv']['tokens']:,} tokens" in log


def test_the_container_has_no_more_rights_than_it_needs(host: Host) -> None:
    settings = json.loads(host.run("docker inspect gb10-service-tiny").stdout)[0]["HostConfig"]
    assert settings["Privileged"] is False
    assert settings["NetworkMode"] == "bridge"
    assert "no-new-privileges" in settings["SecurityOpt"]
    assert (settings["CapDrop"], settings["CapAdd"]) == (["ALL"], None)
    assert (settings["IpcMode"], settings["ReadonlyRootfs"]) == ("private", True)
    process = host.check_output("docker inspect -f '{{.State.Pid}}' gb10-service-tiny")
    status = host.check_output("grep ^Cap /proc/%s/status", process)
    rights = dict(line.split(":\t") for line in status.splitlines())
    assert {rights[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {"0" * 16}
    refused = host.run("docker exec gb10-service-tiny touch /usr/local/bin/x")
    assert refused.rc != 0 and "Read-only file system" in refused.stderr


def test_docker_keeps_nothing_of_what_it_prints_and_the_journal_has_it(host: Host) -> None:
    assert host.run("docker logs gb10-service-tiny").rc != 0
    folder = host.check_output("docker inspect -f '{{.Id}}' gb10-service-tiny")
    assert host.run("ls /var/lib/docker/containers/%s/*.log", folder).rc != 0
    assert "Application startup complete" in host.run("journalctl --unit %s --output cat", UNIT).stdout
    assert host.run("grep -rlsF -- %s /var/lib/docker/containers", key()).stdout == ""


@pytest.mark.parametrize(("command", "most"), [("site.yml", 6), ("drift.yml", 1), ("doctor.yml", 1)])
def test_a_host_that_is_as_declared_costs_few_calls(
    playbook: Playbook, tmp_path: Path, command: str, most: int
) -> None:
    """Each is a round trip or two, and a start of Python on the host: `site.yml` needs one reading, and its proofs."""
    calls, ssh = tmp_path / "calls", tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\necho >> {calls}\nexec ssh "$@"\n')
    ssh.chmod(0o755)
    done = playbook(command, "--limit", "titan", "--extra-vars", f"ansible_ssh_executable={ssh}")
    assert done.returncode == 0, done.stdout
    assert re.search(r"titan +: ok=\d+ +changed=0 +unreachable=0 +failed=0", done.stdout)
    assert len(calls.read_text()) <= most


def test_a_killed_container_comes_back(host: Host) -> None:
    host.run_expect([0], "docker kill gb10-service-tiny")
    assert answer(host)
