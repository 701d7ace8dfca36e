# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One host serves a model by the real vLLM, as planned."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

from test_bench import FLEET, UNIT
from test_tracing import KEY, ask
from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]

Playbook = Callable[..., "subprocess.CompletedProcess[str]"]
URL = "https://127.0.0.1:8000"


def test_the_model_answers_through_the_services_endpoint(host: Host) -> None:
    assert ask(host)["choices"][0]["text"]


def test_nobody_else_is_answered(host: Host) -> None:
    for arguments in ("", "-H 'Authorization: Bearer wrong'", "-X OPTIONS"):
        for route in ("/v1/models", "/metrics"):
            assert host.check_output(f"curl -sk -o /dev/null -w '%{{http_code}}' {arguments} {URL}{route}") == "401"


def test_the_kv_pool_is_the_planned_one(host: Host, playbook: Playbook) -> None:
    log = host.run("journalctl --unit %s --output cat", UNIT).stdout
    plan = playbook("plan.yml", "-e", FLEET, "-e", "fleet_plan_format=json").stdout
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
    assert host.run("grep -rlsF -- %s /var/lib/docker/containers", KEY).stdout == ""
