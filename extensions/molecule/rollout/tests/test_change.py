# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes under constant load, every answer counted: none is refused, none is cut off.

The load comes from this machine, in the lab's network: no host's loss takes a client along.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml
from testinfra.host import Host

testinfra_hosts = ["ssh://spark-2"]
pytestmark = pytest.mark.story

SCENARIO = Path(__file__).resolve().parents[1]
LAB = (str(SCENARIO.parents[2] / "tests" / "lab" / "lab"), "-d", os.environ["GB10_LAB_DIR"])
FLEET: dict[str, Any] = yaml.safe_load((SCENARIO / "vars" / "fleet.yml").read_text("utf-8"))
CLIENTS: dict[str, str] = yaml.safe_load((SCENARIO / "vars" / "clients.yml").read_text("utf-8"))
TITAN, SPARK_2, FLOATING = "10.77.0.11", "10.77.0.12", "10.77.0.100"
FLAG = {"flags": {"seed": 7}}
OTHER = {"flags": {"seed": 8}}
# Of a replica that has not let its streams end.
STREAMS = ("serving", "draining")
Playbook = Callable[..., "subprocess.CompletedProcess[str]"]


IMAGE = "gb10-lab/vllm-stand-in"


def image(variant: str) -> dict[str, Any]:
    """A declaration with another image."""
    tag = f"0.32.0-{variant}"
    source = {"archive": f"/srv/lab/vllm-stand-in-{tag}.tar"}
    return {"image": {**FLEET["fleet_services"]["chat-a"]["image"], "reference": f"{IMAGE}:{tag}", "source": source}}


@pytest.fixture
def titan(host: Host) -> Host:
    return testinfra.get_host("ssh://titan", ssh_config=host.backend.ssh_config, sudo=True)


@pytest.fixture
def ca(titan: Host, tmp_path: Path) -> Path:
    """The local CA, of a host that trusts it."""
    file = tmp_path / "ca.crt"
    file.write_text(titan.check_output("cat /usr/local/share/ca-certificates/gb10-fleet-*.crt"))
    return file


class Counted:
    """Answers as `load.py` prints them."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []

    @property
    def refused(self) -> list[dict[str, Any]]:
        return [one for one in self.answers if one["status"] != 200]

    @property
    def cut(self) -> list[dict[str, Any]]:
        return [one for one in self.answers if one["status"] == 200 and not one["whole"]]

    @property
    def waited_s(self) -> float:
        return float(max(one["waited_ms"] for one in self.answers)) / 1000

    def read(self, lines: Any) -> None:
        for line in lines:
            self.answers.append(json.loads(line))


@contextmanager
def load(
    ca: Path, clients: int = 4, tokens: int = 20, key: str = CLIENTS["anna"], address: str = TITAN
) -> Iterator[Counted]:
    """Streams without a pause, each a tenth of a second a token, as long as the block takes."""
    words = (sys.executable, SCENARIO / "load.py", ca, address, key, clients, tokens)
    counted = Counted()
    with subprocess.Popen(
        [*LAB, "net", "--", *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        reader = threading.Thread(target=counted.read, args=(process.stdout,))
        reader.start()
        try:
            eventually(lambda: len(counted.answers) >= clients)
            yield counted
            # what was let in late is seen to its end, and one more answer of each client
            seen = len(counted.answers)
            eventually(lambda: len(counted.answers) >= seen + clients)
        finally:
            process.stdin.close()
            reader.join()
    print(f"{len(counted.answers)} answers, refused {counted.refused}, cut {counted.cut}, waited {counted.waited_s} s")


def eventually(true: Callable[[], bool]) -> None:
    """The limit only ends a test that has failed."""
    deadline = time.monotonic() + 600
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def fleet(a: dict[str, Any] | None = None, b: dict[str, Any] | None = None, **changes: Any) -> list[str]:
    """The declaration as options of a playbook. a, b: what of chat-a and chat-b is otherwise."""
    services = FLEET["fleet_services"]
    changed = {"chat-a": services["chat-a"] | (a or {}), "chat-b": services["chat-b"] | (b or {})}
    return fleet_of(changed, **changes)


def fleet_of(services: dict[str, Any], **changes: Any) -> list[str]:
    return ["-l", "titan,spark-2", "--extra-vars", json.dumps(FLEET | {"fleet_services": services} | changes)]


def rollout(playbook: Playbook, *options: str, **changes: Any) -> subprocess.CompletedProcess[str]:
    began = time.monotonic()
    done = playbook("playbooks/rollout.yml", *fleet(service="tiny", **changes), *options)
    print(f"rollout.yml {' '.join(options)}: {time.monotonic() - began:.0f} s")
    return done


@contextmanager
def alone(host: Host) -> Iterator[None]:
    """chat-a, since chat-b does not run."""
    host.check_output("systemctl stop gb10-service-chat-b.service")
    try:
        yield
    finally:
        host.check_output("systemctl start gb10-service-chat-b.service")


def definitions(*hosts: Host) -> list[str]:
    files = (host.check_output("cat /etc/gb10-fleet/services/chat-?.json") for host in hosts)
    return [json.loads(file)["definition"] for file in files]


def images(*hosts: Host) -> list[str]:
    """Of the running containers."""
    return [host.check_output("docker ps --format '{{.Image}}' --filter name=gb10-service-chat") for host in hosts]


def is_kept(host: Host) -> bool:
    return bool(host.run("ls /etc/gb10-fleet/secrets/.way-back/*").stdout)


def nothing_lost(counted: Counted) -> bool:
    return (counted.refused, counted.cut) == ([], [])


def test_a_flag_and_an_image_come_to_one_replica_after_the_other(
    host: Host, titan: Host, ca: Path, playbook: Playbook
) -> None:
    before, following = definitions(titan, host), FLAG | image("next")
    planned = rollout(playbook, "--check", a=following, b=following)
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert "1. chat-a on titan: chat-b serves meanwhile" in planned.stdout, planned.stdout
    assert "2. chat-b on spark-2: chat-a serves meanwhile" in planned.stdout
    assert definitions(titan, host) == before
    with load(ca) as counted:
        done = rollout(playbook, a=following, b=following)
    assert done.returncode == 0, done.stdout + done.stderr
    after = definitions(titan, host)
    assert after[0] != before[0] and after[1] != before[1]
    assert images(titan, host) == [f"{IMAGE}:0.32.0-next"] * 2
    assert nothing_lost(counted)
    assert not is_kept(titan) and not is_kept(host)


def test_an_image_that_does_not_prove_itself_is_taken_back(
    host: Host, titan: Host, ca: Path, playbook: Playbook
) -> None:
    before = definitions(titan, host)
    fails = FLAG | image("broken")
    with load(ca) as counted:
        done = rollout(playbook, a=fails, b=fails)
    assert done.returncode != 0
    assert "chat-a was taken back, the old one serves again" in done.stdout + done.stderr, done.stdout
    assert definitions(titan, host) == before
    assert images(titan, host) == [f"{IMAGE}:0.32.0-next"] * 2
    assert nothing_lost(counted)
    assert not is_kept(titan) and not is_kept(host)
    assert "chat-a, rank 0: this declaration was taken back at " in done.stdout, "the run's own table says so"
    assert "site.yml" not in done.stdout.rpartition("[rank-taken-back]")[0].rpartition("chat-a, rank 0")[2]
    for one, service in ((titan, "chat-a"), (host, "chat-b")):
        kept = json.loads(one.run(f"cat /etc/gb10-fleet/services/{service}.taken-back").stdout)
        assert kept["of"] == "chat-a", "each replica's host knows it"
    refused = playbook("playbooks/site.yml", *fleet(a=fails, b=fails), "--check")
    assert refused.returncode != 0 and "service-taken-back" in refused.stdout + refused.stderr, refused.stdout


def test_requests_wait_while_the_only_host_changes(host: Host, titan: Host, ca: Path, playbook: Playbook) -> None:
    """A flag alone changes. chat-b does not serve, and stays as it is."""
    there = FLAG | image("next")
    with alone(host), load(ca) as counted:
        done = rollout(playbook, a=there | OTHER, b=there)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "and requests wait at the gateway" in done.stdout
    assert nothing_lost(counted)
    assert counted.waited_s > 1
    assert not held(titan)


SHOW_HOLDS = """
import socket
connection = socket.socket(socket.AF_UNIX)
connection.connect("/run/gb10-gateway/admin.sock")
connection.sendall(b"show map /etc/gb10-fleet/gateway/holds.map\\n")
print(connection.recv(9999).decode().strip())
"""


def held(titan: Host) -> str:
    """Whose requests wait at the gateway, and why."""
    return titan.check_output("python3 -c %s", SHOW_HOLDS)


@pytest.mark.whole
def test_side_by_side_nobody_waits(host: Host, titan: Host, ca: Path, playbook: Playbook) -> None:
    """Where the plan has memory for both: the new one is declared beside the old one, which goes then."""
    services = {"chat-b": FLEET["fleet_services"]["chat-b"] | FLAG | image("next")}
    former = FLEET["fleet_services"]["chat-a"] | FLAG | image("next") | OTHER
    following = former | {"port": 8001, "flags": {"seed": 9}}
    before = playbook("site.yml", *fleet_of(services | {"chat-a": former}))
    assert before.returncode == 0, before.stdout
    with alone(host), load(ca) as counted:
        # spark-2 is left out, as the run would start chat-b again
        both = playbook("site.yml", *fleet_of(services | {"chat-a": former, "chat-c": following}), "-l", "titan")
        assert both.returncode == 0, both.stdout + both.stderr
        gone = playbook("site.yml", *fleet_of(services | {"chat-c": following}), "-l", "titan", "-e", "retire=chat-a")
        assert gone.returncode == 0, gone.stdout + gone.stderr
    assert nothing_lost(counted) and counted.waited_s == 0
    assert not titan.file("/etc/systemd/system/gb10-service-chat-a.service").exists
    back = playbook("site.yml", *fleet_of(services | {"chat-a": former}), "-e", "retire=chat-c")
    assert back.returncode == 0, back.stdout + back.stderr


def test_a_reload_leaves_open_streams_alone(titan: Host, ca: Path) -> None:
    with load(ca, clients=50) as counted:
        titan.check_output("systemctl reload gb10-gateway.service")
    assert nothing_lost(counted)


def test_a_key_that_is_withdrawn_is_no_others_business(ca: Path, playbook: Playbook, tmp_path: Path) -> None:
    clients = tmp_path / "clients.yml"
    clients.write_text(json.dumps({"anna": CLIENTS["anna"]}))
    clients.chmod(0o600)
    changed = FLEET["fleet_gateway"] | {"keys_file": str(clients)}
    there = FLAG | image("next")
    with load(ca) as counted, load(ca, clients=1, key=CLIENTS["bert"]) as withdrawn:
        done = playbook("site.yml", *fleet(a=there | OTHER, b=there, fleet_gateway=changed))
        assert done.returncode == 0, done.stdout + done.stderr
    assert nothing_lost(counted)
    # what had begun before goes on to its end
    assert {one["status"] for one in withdrawn.answers} == {200, 401} and not withdrawn.cut


@contextmanager
def without_power(host: str) -> Iterator[None]:
    subprocess.run([*LAB, "power", "off", host], check=True)
    try:
        yield
    finally:
        subprocess.run([*LAB, "power", "on", host], check=True)
        until_up = [*LAB, "exec", host, "--", "systemctl", "start", "ssh.service", "docker.service"]
        eventually(lambda: subprocess.run(until_up, check=False, capture_output=True).returncode == 0)


def state_of(host: Host, service: str) -> str:
    """As its supervisor reports it."""
    shown = host.run(f"cat /run/gb10-fleet/{service}/status.json")
    return str(json.loads(shown.stdout)["state"]) if shown.rc == 0 else ""


@pytest.mark.whole
def test_a_host_without_power_takes_its_own_streams_along(host: Host, ca: Path) -> None:
    eventually(lambda: state_of(host, "chat-b") == "serving")
    with load(ca, tokens=100) as counted, without_power("spark-2"):
        began, seen = time.monotonic(), len(counted.answers)
        eventually(lambda: len(counted.answers) >= seen + 8)
        print(f"{time.monotonic() - began:.0f} s for eight more answers")
    # four clients, two hosts: the streams of the one that is gone
    assert counted.refused == [] and 1 <= len(counted.cut) <= 2


@pytest.mark.whole
def test_the_replica_that_serves_meanwhile_is_lost(host: Host, titan: Host, ca: Path, playbook: Playbook) -> None:
    """Its streams end, and who comes then waits for the one that moves."""
    eventually(lambda: state_of(host, "chat-b") == "serving")
    before, wanted = definitions(titan, host), OTHER | image("next")
    with load(ca) as counted, ThreadPoolExecutor(1) as beside:
        running = beside.submit(rollout, playbook, a=FLAG | image("next"), b=wanted)
        stopped = "rollout-of-chat-a"
        eventually(lambda: running.done() or (stopped in held(titan) and state_of(titan, "chat-a") not in STREAMS))
        assert not running.done(), running.result().stdout
        with without_power("spark-2"):
            done = running.result()
    assert done.returncode != 0
    assert "chat-b did not prove itself" in done.stdout and "spark-2 can not be reached" in done.stdout, done.stdout
    assert counted.refused == [] and 1 <= len(counted.cut) <= 4 and counted.waited_s > 1
    after = definitions(titan, host)
    assert after[0] != before[0] and after[1] == before[1]
    assert not held(titan)


@pytest.mark.whole
def test_the_replica_that_moves_is_lost(host: Host, titan: Host, ca: Path, playbook: Playbook) -> None:
    """Its streams had ended. What it was given is proved, or taken back, by the next rollout."""
    eventually(lambda: state_of(host, "chat-b") == "serving")
    wanted = {"a": FLAG | image("next"), "b": OTHER | image("next")}
    before = playbook("site.yml", *fleet(**wanted | {"b": FLAG | image("next")}))
    assert before.returncode == 0, before.stdout
    with load(ca) as counted, ThreadPoolExecutor(1) as beside:
        running = beside.submit(rollout, playbook, **wanted)
        eventually(lambda: running.done() or (is_kept(host) and state_of(host, "chat-b") not in STREAMS))
        assert not running.done(), running.result().stdout
        with without_power("spark-2"):
            done = running.result()
    assert done.returncode != 0
    assert nothing_lost(counted)
    assert not held(titan) and is_kept(host)
    again = rollout(playbook, **wanted)
    assert again.returncode == 0, again.stdout + again.stderr
    assert not is_kept(host)


def drift(playbook: Playbook, *options: str) -> str:
    """What differs, a line each."""
    done = playbook("drift.yml", *options, "-e", "drift_format=json")
    start = done.stdout.index("\n{\n") + 1
    report = json.loads(done.stdout[start : done.stdout.index("\n}\n", start) + 2])
    return "\n".join(f"{one['rule']} {one['resource']}" for one in report["findings"])


def has_it(host: Host) -> bool:
    return f" {FLOATING}/" in host.check_output("ip -brief address")


UNIT_OF_ADDRESS = "gb10-gateway-address.service"


@pytest.mark.whole
def test_another_gateway_takes_the_floating_address(host: Host, titan: Host, ca: Path, playbook: Playbook) -> None:
    names = {"titan": titan, "spark-2": host}
    both = {"hosts": [*names], "address": FLOATING, "addresses": [TITAN, SPARK_2]}
    wanted = fleet(fleet_gateway=FLEET["fleet_gateway"] | both)
    there = playbook("site.yml", *wanted)
    assert there.returncode == 0, there.stdout
    eventually(lambda: sum(map(has_it, names.values())) == 1)
    assert drift(playbook, *wanted) == ""
    [lost] = [name for name in names if has_it(names[name])]
    [other] = [name for name in names if name != lost]
    with load(ca, address=FLOATING) as counted:
        off = time.time()
        with without_power(lost):
            eventually(lambda: sum(one["began"] > off and one["whole"] for one in counted.answers) >= 12)
            assert has_it(names[other])
        # who comes back takes nothing away: a move cuts streams
        seen = len(counted.answers)
        eventually(lambda: names[lost].service(UNIT_OF_ADDRESS).is_running)
        eventually(lambda: len(counted.answers) >= seen + 40)
    assert has_it(names[other]) and not has_it(names[lost])
    after = [one for one in counted.answers if one["began"] > off]
    answered = min(one["began"] + one["first_s"] for one in after if one["status"] == 200) - off
    print(f"answered again after {answered:.1f} s; refused {[round(one['began'] - off, 1) for one in counted.refused]}")
    # four clients, each with a stream; the lab's host refuses for a moment before it falls silent
    assert 1 <= len(counted.cut) <= 4 and len(counted.refused) <= 8
    assert {one["status"] for one in counted.refused} <= {0}
    for each in names.values():
        each.check_output(f"systemctl stop {UNIT_OF_ADDRESS}")
    assert drift(playbook, *wanted).splitlines().count(f"gateway-address address {FLOATING} of the gateway") == 1
    for each in names.values():
        each.check_output(f"systemctl start {UNIT_OF_ADDRESS}")
    back = playbook("site.yml", *fleet())
    assert back.returncode == 0, back.stdout
    assert not any(map(has_it, names.values()))
    assert host.run("ls -d /etc/gb10-fleet/gateway /etc/systemd/system/gb10-gateway*").stdout == ""
    assert titan.run("ls /etc/gb10-fleet/gateway/address.conf /etc/systemd/system/gb10-gateway-a*").stdout == ""
    assert drift(playbook, *fleet()) == ""
