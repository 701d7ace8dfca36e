# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real HAProxy by the plan's files, in a room full of silent, slow and greedy people: each client is served.

On loopback, without root, with the HAProxy in PATH or HAPROXY: `pytest tests/crowd -s` prints what clients waited.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import re
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.backends import Endpoint, backends
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.clients import clients_map
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.declared import GATEWAY
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.plan import gateway_slice

HERE = Path(__file__).parent
KEYS = {name: f"key-of-{name}-in-these-tests" for name in ("anna", "greedy", "bert", "carl", "dora")}
OTHERS = [key for name, key in KEYS.items() if name != "anna"]
# For each; beside what they wait without a crowd, since all of it shares one machine. What they waited is printed.
PATIENCE_S = 1.0
MIB = 1 << 20


@dataclass(frozen=True)
class Gateway:
    port: int
    plain: int
    bodies: int

    def asked(self, key: str, body: bytes = b"", path: str = "/v1/chat/completions") -> tuple[int, float]:
        """The answer's status, and the seconds until its first byte, of a new connection from an own address."""
        begun = time.monotonic()
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        one = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=30, source_address=("127.1.0.1", 0), context=tls
        )
        content = body or json.dumps({"model": "bench", "stream": True, "max_tokens": 5, "gap_s": 0.01}).encode()
        one.request("POST", path, content, {"Authorization": f"Bearer {key}"})
        answer = one.getresponse()
        took = time.monotonic() - begun
        answer.read()
        one.close()
        return answer.status, took

    def memory(self) -> int:
        """MiB of the process that reads large bodies at its most."""
        (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.bodies}/status").read_text())
        return int(line) >> 10


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        bound = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in bound:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in bound]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    program = os.environ.get("HAPROXY") or shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.fail("this machine has no haproxy: apt-get install haproxy")
    folder = tmp_path_factory.mktemp("gateway")
    port, plain, engine = free_ports(3)
    offered, _ = backends([Endpoint("bench", "bench", "titan", "127.0.0.1", engine, 8, "/health")], {})
    usual = {name: option["default"] for name, option in GATEWAY["options"].items() if "default" in option}
    own = {"keys_file": "", "name": "llm.lab", "own_name": None, "port": port, "redirect_port": plain, "address": None}
    tls = {"certificate": "", "key": "", "ca": None, "names": ["llm.lab"]}
    part = gateway_slice({**usual, **own, "tls": tls}, offered, "crowd", "titan", "")
    for path, file in part["files"].items():
        text = file["content"]
        for theirs in (layout.GATEWAY_BODIES_STATUS, layout.GATEWAY_STATUS, layout.GATEWAY):
            text = text.replace(f"{theirs}/", f"{folder}/")
        (folder / Path(path).name).write_text(re.sub(r" +(user|group) haproxy\n", "", text))
    (folder / "clients.map").write_text(clients_map(json.dumps(KEYS)))
    (folder / "keys").mkdir()
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    pair = ["-keyout", str(folder / "tls.crt.key"), "-out", str(folder / "tls.crt")]
    subprocess.run([*words, "-days", "2", "-subj", "/CN=llm.lab", *pair], check=True, capture_output=True)
    log = (folder / "log").open("wb")
    started = [
        subprocess.Popen(words, stdout=log, stderr=log)
        for words in (
            [sys.executable, str(HERE.parent / "bench" / "ends.py"), "serve", str(engine)],
            [program, "-db", "-f", str(folder / "bodies.cfg")],
            [program, "-db", "-f", str(folder / "haproxy.cfg")],
        )
    ]
    try:
        found = Gateway(port, plain, started[1].pid)
        deadline = time.monotonic() + 30
        while not _serves(found):
            assert time.monotonic() < deadline, (folder / "log").read_text()[-2000:]
            time.sleep(0.2)
        yield found
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def _serves(gateway: Gateway) -> bool:
    try:
        return gateway.asked(KEYS["anna"])[0] == 200
    except OSError:
        return False


@dataclass
class Crowd:
    """Some of a kind, in a process of their own."""

    process: subprocess.Popen[str]
    tried: dict[str, Any]

    def ended(self) -> dict[str, Any]:
        last: dict[str, Any] = json.loads(self.process.communicate(timeout=120)[0])
        return last


@pytest.fixture
def crowds(gateway: Gateway) -> Iterator[Any]:
    begun: list[subprocess.Popen[str]] = []

    def begin(kind: str, **task: Any) -> Crowd:
        words = [sys.executable, str(HERE / "senders.py"), kind, str(task.pop("port", gateway.port))]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        begun.append(process)
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps(task))
        process.stdin.close()
        process.stdin = None
        return Crowd(process, json.loads(process.stdout.readline()))

    yield begin
    for process in begun:
        process.kill()
        process.wait()


def _waited(gateway: Gateway, seconds: float, names: Sequence[str] = ("anna", "bert", "carl", "dora")) -> list[float]:
    """What clients waited for their first byte, one after the other; none may fail."""
    found, deadline = [], time.monotonic() + seconds
    for name in itertools.cycle(names):
        if time.monotonic() > deadline:
            break
        status, took = gateway.asked(KEYS[name])
        assert status == 200
        found.append(took)
        time.sleep(0.2)
    return found


def _hold(what: str, waited: list[float], alone: float) -> None:
    shown = f"median {statistics.median(waited):.3f} s, slowest {max(waited):.3f} s, alone {alone:.3f} s at most"
    print(f"\n{what}: {len(waited)} requests, {shown}")
    assert max(waited) < PATIENCE_S + 3 * alone


@pytest.fixture
def alone(gateway: Gateway) -> float:
    """What they wait at most without a crowd."""
    return max(_waited(gateway, 1))


@pytest.mark.parametrize("path", ["/v1/../metrics", "/v1/%2e%2e/metrics", "/v1/x/%2E./../metrics", "/metrics"])
def test_no_way_leads_up_from_v1(gateway: Gateway, path: str) -> None:
    assert gateway.asked(KEYS["anna"], path=path)[0] == 404


@pytest.mark.parametrize("host", ["llm.lab", "[::1]:80", "127.0.0.1:8080", "[fd00::1]"])
def test_plain_http_is_sent_to_the_same_name(gateway: Gateway, host: str) -> None:
    one = http.client.HTTPConnection("127.0.0.1", gateway.plain, timeout=30)
    one.request("GET", "/v1/models", headers={"Host": host})
    name = re.sub(r":\d+$", "", host)
    assert one.getresponse().headers["location"] == f"https://{name}:{gateway.port}/v1/models"


def test_silence_on_the_port_of_plain_http_takes_nothing(gateway: Gateway, crowds: Any, alone: float) -> None:
    crowds("silent", connections=2_000, addresses=10, first=50, seconds=8, again_s=3600, port=gateway.plain)
    _hold("2,000 silent connections to the other port", _waited(gateway, 4), alone)


def test_a_silent_crowd_takes_nothing_from_those_with_a_key(gateway: Gateway, crowds: Any, alone: float) -> None:
    silent = crowds("silent", connections=10_000, addresses=50, first=0, seconds=15, again_s=3600)
    _hold(
        f"10,000 silent connections of 50 addresses, {silent.tried.get('open', 0)} taken", _waited(gateway, 10), alone
    )
    silent.ended()


def test_nor_does_a_slow_one(gateway: Gateway, crowds: Any, alone: float) -> None:
    slow = crowds("slow", connections=10_000, addresses=50, first=100, seconds=15, again_s=5)
    _hold("10,000 slow connections of 50 addresses", _waited(gateway, 10), alone)
    print(slow.ended())


def test_nor_do_those_who_know_http2(gateway: Gateway, crowds: Any, alone: float) -> None:
    """Pings, settings, endless headers, streams taken back and answers left lying: without a key."""
    odd = crowds("odd", connections=2_000, addresses=50, first=150, seconds=15, again_s=1)
    _hold("2,000 odd connections of 50 addresses", _waited(gateway, 10), alone)
    print(odd.ended())


def test_tls_begins_anew_for_nobody(gateway: Gateway) -> None:
    """A handshake costs its server ten times what it costs who asks; one connection has one."""
    words = ["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{gateway.port}"]
    done = subprocess.run(words, input="R\nR\nR\n", capture_output=True, text=True, timeout=60, check=False)
    assert "RENEGOTIATING" in done.stderr and "no renegotiation" in done.stderr


def test_nor_does_one_greedy_client(gateway: Gateway, crowds: Any, alone: float) -> None:
    greedy = crowds(
        "greedy", connections=100, addresses=4, first=300, seconds=15, again_s=0.1, keys=[KEYS["greedy"]], mib=20
    )
    _hold("100 greedy connections of another client", _waited(gateway, 10), alone)
    status, took = gateway.asked(KEYS["anna"], b'{"model": "bench", "max_tokens": 1}' + b" " * 20 * MIB)
    print(f"a body of 20 MiB: {status} after {took:.2f} s; {gateway.memory()} MiB at most; {greedy.ended()}")
    assert status == 200


def test_all_of_them_at_once(gateway: Gateway, crowds: Any, alone: float) -> None:
    crowds("silent", connections=10_000, addresses=50, first=0, seconds=30, again_s=3600)
    crowds("slow", connections=10_000, addresses=50, first=100, seconds=25, again_s=5)
    crowds("greedy", connections=100, addresses=4, first=300, seconds=20, again_s=0.1, keys=[KEYS["greedy"]], mib=20)
    _hold("all of them", _waited(gateway, 15), alone)
    assert gateway.memory() < 2048


def test_what_all_clients_send_at_once_ends_no_process(gateway: Gateway, crowds: Any, alone: float) -> None:
    """As many bodies as the unit's memory bears are read; more wait, or are asked to come again."""
    crowds("greedy", connections=400, addresses=8, first=400, seconds=20, again_s=0.1, keys=OTHERS, mib=31)
    waited = _waited(gateway, 15, ["anna"])
    print(f"\n{gateway.memory()} MiB, alone {alone:.3f} s, median {statistics.median(waited):.3f} s")
    assert gateway.memory() < 2048


def test_sixteen_pictures_at_once_are_answered(gateway: Gateway) -> None:
    body = b'{"model": "bench", "max_tokens": 1}' + b" " * 30 * MIB
    with ThreadPoolExecutor(16) as pool:
        assert {status for status, _ in pool.map(lambda _: gateway.asked(KEYS["anna"], body), range(16))} == {200}
