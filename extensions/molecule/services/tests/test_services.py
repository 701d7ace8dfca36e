# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One service on one host: it answers who has the key, shows it to nobody, and is retired when it is renamed."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.plugin_utils._certificates import Pair, authority, issued, new_key
from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]
pytestmark = pytest.mark.story

SCENARIO = Path(__file__).resolve().parents[1]
ROOT = SCENARIO.parents[2]
LAB: dict[str, Any] = yaml.safe_load((ROOT / "inventories/lab/group_vars/all/fleet.yml").read_text("utf-8"))
DECLARED: dict[str, Any] = yaml.safe_load((SCENARIO / "vars" / "fleet.yml").read_text("utf-8"))["fleet_services"]
KEY = (SCENARIO / "vars" / "key.txt").read_text("utf-8").strip()
# Tokens of an answer that takes 380 seconds; a service drains for at most 300.
LONGER_THAN_DRAINING = 1900
Playbook = Callable[..., "subprocess.CompletedProcess[str]"]


def converge(playbook: Playbook, **variables: Any) -> subprocess.CompletedProcess[str]:
    return playbook(str(SCENARIO / "converge.yml"), "--extra-vars", json.dumps(variables))


def status(host: Host, port: int, key: str, options: str = "", scheme: str = "https") -> str:
    """HTTP status of a request for the list of models; by its name, as a client of the fleet that trusts the CA."""
    return host.run(
        f"curl -s -m 60 -o /dev/null -w '%{{http_code}}' {options} -H 'Authorization: Bearer {key}'"
        f" {scheme}://titan:{port}/v1/models"
    ).stdout


def units(host: Host) -> list[str]:
    return [name for name in host.file("/etc/systemd/system").listdir() if name.startswith("gb10-service-")]


def test_it_answers_who_has_the_key(host: Host) -> None:
    assert (status(host, 8000, KEY), status(host, 8000, "wrong")) == ("200", "401")
    assert units(host) == ["gb10-service-tiny.service"]


def test_the_key_is_in_no_argument_and_no_file_that_others_read(host: Host) -> None:
    assert KEY not in host.check_output("ps -eo args")
    assert KEY not in host.check_output("docker inspect gb10-service-tiny")
    readable = host.check_output("find /etc/gb10-fleet /etc/systemd/system /run/gb10-fleet -type f -perm /044")
    assert KEY not in "".join(host.file(path).content_string for path in readable.splitlines())


def test_it_speaks_tls_alone_with_a_certificate_that_the_host_trusts(host: Host) -> None:
    assert status(host, 8000, KEY, scheme="http") == "000"
    assert status(host, 8000, KEY, "--capath /nowhere --cacert /dev/null") == "000"
    ca = host.file("/usr/local/share/ca-certificates/gb10-fleet-lab.crt")
    assert ca.content_string.strip() == (ROOT / "inventories/lab/.fleet/ca/ca.crt").read_text("ascii").strip()
    key = "/etc/gb10-fleet/secrets/tiny.tls.key"
    assert host.file(key).mode == 0o600
    places = "/etc /usr/local/lib /run/gb10-fleet /var/lib/gb10-fleet /var/log"
    assert host.check_output(f"sed -n 2p {key} | grep -rlFf - {places}") == key
    mounts = json.loads(host.check_output("docker inspect gb10-service-tiny"))[0]["Mounts"]
    assert [one["RW"] for one in mounts if "tls" in one["Destination"]] == [False, False]


def test_it_has_the_gpu_by_its_specification(host: Host) -> None:
    """Docker 26 reads specifications only if its configuration says so."""
    asked = json.loads(host.check_output("docker inspect gb10-service-tiny"))[0]["HostConfig"]["DeviceRequests"]
    assert [(one["Driver"], one["DeviceIDs"]) for one in asked] == [("cdi", ["nvidia.com/gpu=all"])]
    program = "import os; print(*(name for name in os.listdir('/dev') if name.startswith('nvidia')))"
    devices = f'docker exec gb10-service-tiny python3 -c "{program}"'
    assert {*host.check_output(devices).split()} == {"nvidia0", "nvidia-uvm", "nvidiactl"}


@pytest.fixture
def stream(host: Host) -> Iterator[Callable[[int], str]]:
    """Begin an answer of so many tokens, five a second, for somebody who is not root, and wait for its first words.

    Gives the file that it goes into, one for each answer. The service serves again afterwards, whatever a test did.
    """
    begun: list[str] = []

    def begin(tokens: int) -> str:
        name = f"stream-{uuid4().hex}"
        begun.append(name)
        body = {
            "model": "tiny",
            "messages": [{"role": "user", "content": "hello"}],
            "max_tokens": tokens,
            "stream": True,
            "vllm_xargs": {"token_seconds": 0.2},
        }
        file = f"/var/tmp/{name}"
        # systemd-run comes back before the file is opened
        host.check_output(": > %s; printf %%s %s > %s.json", file, json.dumps(body), file)
        host.check_output(
            f"systemd-run --unit={name} --collect --uid=nobody --property=StandardOutput=file:{file} curl -sN"
            f" -H 'Authorization: Bearer {KEY}' -H 'Content-Type: application/json' -d @{file}.json"
            " https://titan:8000/v1/chat/completions"
        )
        eventually(lambda: "content" in host.file(file).content_string)
        return file

    yield begin
    for name in begun:
        host.run(f"systemctl stop {name}.service; rm -f /var/tmp/{name} /var/tmp/{name}.json")
    host.check_output("systemctl start gb10-service-tiny.service")
    until(host, "serving")


def eventually(true: Callable[[], bool]) -> None:
    """The limit only ends a test that has failed."""
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def until(host: Host, state: str) -> None:
    """It says so in its status."""
    file = host.file("/run/gb10-fleet/tiny/status.json")
    eventually(lambda: json.loads(file.content_string)["state"] == state)


def test_an_answer_under_way_ends_before_the_container_does(host: Host, stream: Callable[[int], str]) -> None:
    host.check_output("apt-get install --yes nftables")
    ask = (
        f"runuser -u nobody -- curl -s -m 60 -o /dev/null -H 'Authorization: Bearer {KEY}' https://titan:8000/v1/models"
    )
    for tokens in (100, 400, 1400):  # twenty seconds are enough, but on a machine that is very busy
        file = stream(tokens)
        host.check_output("systemctl --no-block restart gb10-service-tiny.service")
        until(host, "draining")
        meanwhile = (host.run(ask).rc, status(host, 8000, KEY))
        ended_before = "[DONE]" in host.file(file).content_string
        until(host, "serving")
        if not ended_before:
            break
    assert meanwhile == (7, "200"), "new connections, but root's own, are refused"
    assert host.file(file).content_string.rstrip().endswith("[DONE]")
    assert host.run(ask).rc == 0
    assert host.run("nft list table inet gb10_draining_8000").rc != 0


def test_a_second_order_does_not_wait(host: Host, stream: Callable[[int], str]) -> None:
    file = stream(LONGER_THAN_DRAINING)
    host.check_output("systemctl --no-block stop gb10-service-tiny.service")
    until(host, "draining")
    host.check_output("systemctl kill gb10-service-tiny.service")
    until(host, "waiting")
    assert "[DONE]" not in host.file(file).content_string


def test_another_image_of_the_same_name_restarts_it(host: Host, playbook: Playbook) -> None:
    """What runs is not what lies there."""
    name = host.check_output("docker inspect --format '{{.Config.Image}}' gb10-service-tiny")
    both = f'docker inspect --format \'{{{{or (index . "Image") (index . "Id")}}}}\' gb10-service-tiny {name}'
    host.check_output(f"docker commit --change 'LABEL mended=yes' gb10-service-tiny {name}")
    assert len({*host.check_output(both).split()}) == 2
    run = converge(playbook, fleet_services=DECLARED)
    assert run.returncode == 0, run.stdout
    assert len({*host.check_output(both).split()}) == 1
    assert status(host, 8000, KEY) == "200"


def test_another_name_port_and_certificate_retire_the_first(host: Host, playbook: Playbook, tmp_path: Path) -> None:
    """The certificate is the owner's, whose end is near: he alone can renew it, so that plan and drift name it.

    He wants no memory guard any more either.
    """
    key = new_key()
    ca = Pair(authority(key, "of the owner", datetime.now(UTC), 100), key)
    own = issued(ca, ["titan"], datetime.now(UTC), 12)
    tls = {kind: str(tmp_path / kind) for kind in ("certificate", "key")}
    for kind, path in tls.items():
        Path(path).write_bytes(getattr(own, kind))
        Path(path).chmod(0o600)
    renamed = {**DECLARED["tiny"], "port": 8001, "tls": tls}
    unguarded = LAB["fleet_host"] | {"memory_guard": {"enabled": False}}
    variables = {"fleet_services": {"renamed": renamed}, "fleet_host": unguarded}
    run = converge(playbook, retire="tiny", **variables)
    assert run.returncode == 0, run.stdout
    assert "certificate-ending" in run.stdout
    assert units(host) == ["gb10-service-renamed.service"]
    assert not host.service("gb10-memory-guard").is_running
    assert not host.file("/etc/systemd/system/gb10-memory-guard.service").exists
    assert host.run("ls /etc/gb10-fleet/secrets/tiny.*").rc != 0
    host.check_output("printf %%s %s > /tmp/ca.crt", ca.certificate.decode())
    assert (status(host, 8001, KEY, "--cacert /tmp/ca.crt"), status(host, 8001, KEY)) == ("200", "000")
    assert not host.file("/usr/local/share/ca-certificates/gb10-fleet-lab.crt").exists
    assert host.run("find /etc/ssl/certs -lname '*gb10-fleet-lab*'").stdout == ""
    drift = playbook("drift.yml", "-l", "titan", "-e", "service=renamed", "--extra-vars", json.dumps(variables))
    assert "certificate-ending" in drift.stdout and "it ends in 1" in drift.stdout, drift.stdout
