# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker runs as planned, on a host that had its client alone and on one that its owner had set up."""

from __future__ import annotations

import base64
import json

from testinfra.host import Host

testinfra_hosts = ["ssh://titan", "ssh://spark-2"]


def test_docker_runs_and_starts_at_boot(host: Host) -> None:
    docker = host.service("docker")
    assert docker.is_running
    assert docker.is_enabled


def test_the_daemon_has_taken_the_configuration_over(host: Host) -> None:
    info = json.loads(host.check_output("docker info --format json"))
    assert info["LiveRestoreEnabled"] is True
    assert "nvidia" in info["Runtimes"]
    assert info["DefaultRuntime"] == "runc"
    assert info["CDISpecDirs"] == ["/etc/cdi", "/var/run/cdi"]


def test_containers_of_one_host_reach_only_what_is_published(host: Host) -> None:
    """Also on the host whose owner had set Docker up, and whose Docker ran before."""
    options = json.loads(host.check_output("docker network inspect bridge --format '{{json .Options}}'"))
    assert options["com.docker.network.bridge.enable_icc"] == "false"
    rules = host.check_output("iptables --list-rules FORWARD; iptables --list-rules | grep -- '-i docker0 -o docker0'")
    assert "-i docker0 -o docker0 -j DROP" in rules


def test_new_containers_rotate_their_logs(host: Host) -> None:
    image = host.check_output("tar --create --files-from /dev/null | docker import -")
    container = host.check_output(f"docker create {image} /none")
    options = json.loads(host.check_output(f"docker inspect --format '{{{{json .HostConfig.LogConfig}}}}' {container}"))
    host.check_output(f"docker rm {container}")
    host.check_output(f"docker rmi {image}")
    assert options == {"Type": "json-file", "Config": {"max-file": "3", "max-size": "50m"}}


def test_the_logins_are_there_and_for_root_alone(host: Host) -> None:
    config = host.file("/root/.docker/config.json")
    auths = json.loads(config.content_string)["auths"]
    assert base64.b64decode(auths["nvcr.io"]["auth"]) == b"$oauthtoken:not-a-real-token"
    assert base64.b64decode(auths["https://index.docker.io/v1/"]["auth"]) == b"someone:not-a-real-token"
    assert (config.mode, config.user) == (0o600, "root")


def test_the_password_is_in_no_journal(host: Host) -> None:
    journal = host.check_output("journalctl --boot --no-pager")
    assert "not-a-real-token" not in journal
    assert base64.b64encode(b"$oauthtoken:not-a-real-token").decode() not in journal
