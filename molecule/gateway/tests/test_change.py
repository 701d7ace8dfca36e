# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes under constant load, every answer counted: none is refused, none is cut off."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml
from testinfra.host import Host

testinfra_hosts = ["ssh://spark-2"]

SCENARIO = Path(__file__).resolve().parents[1]
FLEET: dict[str, Any] = yaml.safe_load((SCENARIO / "vars" / "fleet.yml").read_text("utf-8"))
KEY: str = yaml.safe_load((SCENARIO / "vars" / "clients.yml").read_text("utf-8"))["anna"]
TITAN = "10.77.0.11"
Playbook = Callable[..., "subprocess.CompletedProcess[str]"]

# One line an answer: its status, 0 for none; whether a stream came to its end; how long the gateway had it wait.
LOAD = """
import http.client, json, os, ssl, sys, threading
key, clients, tokens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": tokens, "stream": True,
        "vllm_xargs": {"token_seconds": 0.1}}
trusted = ssl.create_default_context()
def ask():
    status, ended, waited = 0, False, 0
    try:
        connection = http.client.HTTPSConnection("llm.lab", timeout=600, context=trusted)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Authorization": "Bearer " + key})
        answer = connection.getresponse()
        status, waited = answer.status, int(answer.headers.get("X-Gateway-Waited-Ms", 0))
        ended = answer.read().rstrip().endswith(b"[DONE]")
    except Exception as problem:
        print(repr(problem), file=sys.stderr, flush=True)
    print(json.dumps([status, ended, waited]), flush=True)
def go():
    while not os.path.exists("/tmp/load.stop"):
        ask()
threads = [threading.Thread(target=go) for _ in range(clients)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.fixture
def titan(host: Host) -> Host:
    return testinfra.get_host("ssh://titan", ssh_config=host.backend.ssh_config, sudo=True)


class Counted:
    def __init__(self) -> None:
        self.answers: list[tuple[int, bool, int]] = []

    @property
    def refused(self) -> list[int]:
        return [status for status, _ended, _waited in self.answers if status != 200]

    @property
    def cut(self) -> int:
        return sum(status == 200 and not ended for status, ended, _waited in self.answers)

    @property
    def waited_s(self) -> float:
        return max(waited for _status, _ended, waited in self.answers) / 1000


@contextmanager
def load(host: Host, clients: int = 4, tokens: int = 20) -> Iterator[Counted]:
    """Streams without a pause, each a tenth of a second a token, as long as the block takes."""
    host.check_output(f"grep -q llm.lab /etc/hosts || echo '{TITAN} llm.lab' >> /etc/hosts")
    host.check_output("rm -f /tmp/load.*; printf %%s %s > /tmp/load.py", LOAD)
    host.check_output(
        "systemd-run --unit=load --collect --property=StandardOutput=file:/tmp/load.answers"
        f" --property=StandardError=file:/tmp/load.problems python3 /tmp/load.py {KEY} {clients} {tokens}"
    )
    counted = Counted()
    eventually(lambda: len(answers(host)) >= clients)
    try:
        yield counted
    finally:
        host.check_output("touch /tmp/load.stop")
        eventually(lambda: not host.service("load").is_running)
    counted.answers = answers(host)
    print(f"{len(counted.answers)} answers, refused {counted.refused}, cut {counted.cut}, waited {counted.waited_s} s")
    print(host.file("/tmp/load.problems").content_string)


def answers(host: Host) -> list[tuple[int, bool, int]]:
    return [(*json.loads(line),) for line in host.file("/tmp/load.answers").content_string.splitlines()]


def eventually(true: Callable[[], bool]) -> None:
    """The limit only ends a test that has failed."""
    deadline = time.monotonic() + 600
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def rollout(
    playbook: Playbook, *options: str, a: dict[str, Any] | None = None, b: dict[str, Any] | None = None
) -> subprocess.CompletedProcess[str]:
    """a, b: what is declared otherwise of chat-a and chat-b."""
    services = FLEET["fleet_services"]
    changed = {"chat-a": services["chat-a"] | (a or {}), "chat-b": services["chat-b"] | (b or {})}
    variables = json.dumps(FLEET | {"fleet_services": changed, "service": "tiny"})
    return playbook("playbooks/rollout.yml", "--extra-vars", variables, *options)


def definitions(*hosts: Host) -> list[str]:
    files = (host.check_output("cat /etc/gb10-fleet/services/chat-?.json") for host in hosts)
    return [json.loads(file)["definition"] for file in files]


def test_a_flag_comes_to_one_replica_after_the_other(host: Host, titan: Host, playbook: Playbook) -> None:
    before = definitions(titan, host)
    flag = {"flags": {"seed": 7}}
    planned = rollout(playbook, "--check", a=flag, b=flag)
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert "1. chat-a on titan: chat-b serves meanwhile" in planned.stdout, planned.stdout
    assert "2. chat-b on spark-2: chat-a serves meanwhile" in planned.stdout
    assert definitions(titan, host) == before
    with load(host) as counted:
        done = rollout(playbook, a=flag, b=flag)
    assert done.returncode == 0, done.stdout + done.stderr
    after = definitions(titan, host)
    assert after[0] != before[0] and after[1] != before[1]
    assert (counted.refused, counted.cut) == ([], 0)
    assert not titan.file("/etc/gb10-fleet/secrets/.way-back/chat-a").exists


def test_what_does_not_prove_itself_is_taken_back(host: Host, titan: Host, playbook: Playbook) -> None:
    before = definitions(titan, host)
    fails = {"flags": {"seed": 7}, "env": {"VLLM_STAND_IN_LOAD_SECONDS": "never"}}
    with load(host) as counted:
        done = rollout(playbook, a=fails, b=fails)
    assert done.returncode != 0
    assert "chat-a did not prove itself, the old one serves again" in done.stdout + done.stderr, done.stdout
    assert definitions(titan, host) == before
    assert (counted.refused, counted.cut) == ([], 0)


def test_requests_wait_while_the_only_host_changes(host: Host, playbook: Playbook) -> None:
    """chat-b does not serve, and does not change."""
    flag = {"flags": {"seed": 7}}
    host.check_output("systemctl stop gb10-service-chat-b.service")
    slow = {"flags": {"seed": 8}, "env": {"VLLM_STAND_IN_LOAD_SECONDS": "10"}}
    with load(host) as counted:
        done = rollout(playbook, a=slow, b=flag)
    host.check_output("systemctl start gb10-service-chat-b.service")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "requests wait at the gateway" in done.stdout
    assert (counted.refused, counted.cut) == ([], 0)
    assert counted.waited_s > 10


def test_a_reload_leaves_open_streams_alone(host: Host, titan: Host) -> None:
    with load(host, clients=50) as counted:
        titan.check_output("systemctl reload gb10-gateway.service")
    assert (counted.refused, counted.cut) == ([], 0)
