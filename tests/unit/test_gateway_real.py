# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway's real HAProxy on loopback, with the plan's own configuration, before engines that fail in every way."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._engines.ports import readiness_port
from ansible_collections.gb10.fleet.plugins.module_utils._on_host import textfile
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import members, serving
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.probes import Request
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.readiness import Readiness
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.report import Report
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.service import Address
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway import reading
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.clients import clients_map
from test_drain import SOLO
from test_gateway import CONFIG, KEYS, A, folder, plan_of  # noqa: F401 - a fixture

PROGRAM = os.environ.get("HAPROXY") or shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="this machine has no haproxy; molecule/gateway has one")
PATIENCE_S = 30.0
PROOF = Request("/v1/chat/completions", {"model": "tiny"}, ["usage"])
SOUND, FAILS, FAILS_FOR_ONE, GARBAGE, SLOW = "sound", "fails", "fails for one", "garbage", "slow"


class Local:
    init = 1


class Engine:
    """An imitation of an engine whose /health says 200 whatever it does. how: what becomes of a request."""

    def __init__(self) -> None:
        self.how, self.seen, self.cut, self.over = SOUND, Counter[str](), threading.Event(), threading.Event()
        self.headers: list[tuple[str, str]] = []
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send(200, b"ok")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                engine.seen[engine.how] += 1
                if b'"user"' in body:  # no canary
                    engine.headers = self.headers.items()
                if engine.how == GARBAGE:
                    self.wfile.write(b"\x00\x01 no HTTP\r\n\r\n")
                    self.close_connection = True
                elif engine.how == FAILS or (engine.how == FAILS_FOR_ONE and b'"bert"' in body):
                    self._send(500, b'{"error": "it failed"}')
                elif engine.how == SLOW:
                    self._wait()
                else:
                    time.sleep(0.02)
                    self._send(200, b'{"usage": 1}')

            def _wait(self) -> None:
                """As engines do: what nobody waits for is given up."""
                self.connection.settimeout(0.05)
                while not engine.over.is_set():
                    try:
                        if not self.connection.recv(1):
                            engine.cut.set()
                            break
                    except TimeoutError:
                        continue
                    except ConnectionResetError:
                        engine.cut.set()
                        break
                self.close_connection = True

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_words: object) -> None:
                return

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_who: object) -> None:
                """A client that went away is no error."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

        self.report = self._supervised()

    def _supervised(self) -> Report:
        """Its real supervisor, as far as a gateway sees it."""
        url, place = f"http://127.0.0.1:{self.port}", Path(tempfile.mkdtemp())
        service = replace(SOLO, endpoint=replace(SOLO.endpoint, url=url), probes=replace(SOLO.probes, proof=PROOF))
        report = Report(service, [], place)
        one = serving.Serving(service, report, "", members.Members(service, report, b"", print), Local())  # type: ignore[arg-type]
        self.readiness, self._loop = free_port(), asyncio.new_event_loop()
        listening = Readiness(Address("127.0.0.1", self.readiness), report, one.doubt).listen()
        self._supervising = self._loop.create_task(listening)
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        report.enter("serving", "it serves")
        return report

    def end_supervisor(self) -> None:
        self._loop.call_soon_threadsafe(self._supervising.cancel)

    def close(self) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


class Gateway:
    def __init__(self, place: Path, text: str) -> None:
        self.port, self.socket = free_port(), place / "admin.sock"
        text = re.sub(r"bind :::443 v4v6 ssl .*", f"bind 127.0.0.1:{self.port}", text)
        (place / "haproxy.cfg").write_text(text)
        self._process = subprocess.Popen([str(PROGRAM), "-db", "-f", place / "haproxy.cfg"], stdout=subprocess.DEVNULL)
        eventually(lambda: self.post() == 200)

    def post(self, client: str = "anna", path: str = "/v1/chat/completions", **more: str) -> int:
        """The status of one request, 0 for no HTTP."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        headers = {"Authorization": "Bearer key-of-anna-0000001", "Content-Type": "application/json"}
        headers |= {name.replace("_", "-"): value for name, value in more.items()}
        try:
            connection.request("POST", path, json.dumps({"model": "tiny", "user": client}), headers)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def hang_up(self) -> socket.socket:
        """A request whose client will not wait: closing it is its going."""
        body = json.dumps({"model": "tiny"})
        client = socket.create_connection(("127.0.0.1", self.port))
        head = ["POST /v1/chat/completions HTTP/1.1", "Host: x", "X-Api-Key: key-of-anna-0000001"]
        client.sendall("\r\n".join([*head, f"Content-Length: {len(body)}", "", body]).encode())
        return client

    def servers(self) -> dict[str, str]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket))
            connection.sendall(b"show stat\n")
            shown = b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
        return {name: row["status"] for name, row in reading.servers_of(shown)["a"].items()}

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def eventually(true: Callable[[], bool]) -> None:
    """The limit only ends a test that has failed."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def engines() -> Iterator[list[Engine]]:
    made = [Engine(), Engine()]
    yield made
    for engine in made:
        engine.close()


@pytest.fixture
def gateway(folder: Path, tmp_path: Path, engines: list[Engine]) -> Iterator[Gateway]:  # noqa: F811 - the fixture
    """Before two replicas of one model."""
    keyed = {**A, "api_key_file": "own.key"}
    plan = plan_of(folder, services={"a": keyed, "b": {**keyed, "hosts": ["spark-2"]}})
    place = tmp_path / "gateway"
    (place / "keys").mkdir(parents=True)
    part = plan["hosts"]["titan"]["gateway"]
    for path, file in part["files"].items():
        text = file["content"]
        for theirs in (layout.GATEWAY_BODIES_STATUS, layout.GATEWAY_STATUS, layout.GATEWAY):
            text = text.replace(theirs, str(place))
        text = re.sub(r" +(user|group) haproxy\n", "", text)
        for address, engine in zip(("10.0.0.1", "10.0.0.2"), engines, strict=True):
            # both have the same port for the supervisor there
            text = re.sub(
                rf"{address}:8000 (.*) port {readiness_port(8000)}",
                rf"127.0.0.1:{engine.port} \1 port {engine.readiness}",
                text,
            )
        (place / Path(path).name).write_text(text)
    for key in part["backend_keys"]:
        (place / "keys" / Path(key["path"]).name).write_text(key["form"] % json.dumps("x"))
    (place / "clients.map").write_text(clients_map(KEYS))
    one = Gateway(place, (place / Path(CONFIG).name).read_text())
    yield one
    one.close()


def test_who_hangs_up_is_not_computed_for(gateway: Gateway, engines: list[Engine]) -> None:
    for engine in engines:
        engine.how = SLOW
    client = gateway.hang_up()
    eventually(lambda: sum(engine.seen[SLOW] for engine in engines) >= 1)
    client.close()
    eventually(lambda: any(engine.cut.is_set() for engine in engines))


def test_what_waits_and_what_is_refused_is_counted(gateway: Gateway, engines: list[Engine]) -> None:
    """All waiting happens here: the metrics of the host show it, by model."""

    def shown() -> dict[tuple[str, str], float]:
        found = textfile.of_gateway(textfile.stat_of(str(gateway.socket)), ["a"])
        return {(sample.name, sample.labels.get("code", "")): sample.value for sample in found}

    before = shown()
    assert before["gb10_gateway_serving", ""] == 1 and before["gb10_gateway_servers", ""] == 2
    assert before["gb10_gateway_responses", "2xx"] >= 1
    for engine in engines:
        engine.how = SLOW
    waiting = []
    while not shown()["gb10_gateway_queue", ""]:
        waiting.append(gateway.hang_up())
        assert len(waiting) < 400
        time.sleep(0.02)
    while shown()["gb10_gateway_refused", ""] == before["gb10_gateway_refused", ""]:
        waiting.append(gateway.hang_up())
        assert len(waiting) < 400
    assert gateway.post() == 429
    now = shown()
    assert now["gb10_gateway_refused", ""] >= 2 and now["gb10_gateway_responses", "5xx"] == 0
    for client in waiting:
        client.close()
    for path in ("/nowhere", "/dev/null"):
        samples = [*textfile.of_gateway(textfile.stat_of(path), ["a"])]
        assert samples == [textfile.Sample("gb10_gateway_serving", 0.0)]


@pytest.mark.parametrize("how", [FAILS, GARBAGE])
def test_a_replica_that_fails_at_once_gets_no_more_requests(gateway: Gateway, engines: list[Engine], how: str) -> None:
    """It has always the fewest requests, and the sound one some that last: each new one comes to it first."""
    sick, sound = engines
    sound.how = SLOW
    lasting = [gateway.hang_up() for _ in range(6)]
    eventually(lambda: sound.seen[SLOW] >= 2)
    sick.how, sound.how = how, SOUND
    with ThreadPoolExecutor(2) as clients:
        statuses = Counter(clients.map(lambda _: gateway.post(), range(100)))
    assert statuses[200] >= 90 and sick.seen[how] <= 10, "four end its part, beside those that are under way"
    assert gateway.servers()["a"].startswith("DOWN, sick: ")
    for client in lasting:
        client.close()
    sick.how = SOUND
    eventually(lambda: gateway.servers()["a"].startswith("UP"))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter",
        "/v1/",
        "/v1/chat",
        "/v1/chat/completions/../../../metrics",
        "/v1/chat/completions/%2e%2e/%2e%2e/load_lora_adapter",
        "/v1/chat/completions;x",
        "/v1//chat/completions",
        "/metrics",
        "/health_generate",
        "/v1/completions%00",
    ],
)
def test_a_client_asks_what_clients_may_ask_and_nothing_else(gateway: Gateway, path: str) -> None:
    """Below /v1 vLLM has routes that load adapters from any folder (security 20). Engines here answer any path."""
    assert gateway.post(path=path) == 404


@pytest.mark.parametrize("path", ["/v1/chat/completions/", "/v1/responses/resp_1/cancel", "/v1/audio/transcriptions"])
def test_a_client_asks_each_of_its_routes(gateway: Gateway, path: str) -> None:
    assert gateway.post(path=path) == 200


def test_no_header_of_a_client_counts_as_the_gateways_own(gateway: Gateway, engines: list[Engine]) -> None:
    """Its key, and what the two processes tell each other of it (security 20)."""
    word = "word-of-bert-0000001"
    more = {"X_Gateway_Client": word, "x_gateway_from": word, "X_Api_Key": word}
    for engine in engines:  # of the fixture's own request
        engine.headers = []
    assert gateway.post(Connection="X-Api-Key, X-Gateway-Client", **more) == 200
    (headers,) = [engine.headers for engine in engines if engine.headers]
    assert [row for row in headers if word in row[1] or "key-of-anna" in row[1]] == []
    assert [value for name, value in headers if name.lower() == "authorization"] == ["Bearer x"]


def test_who_sends_what_fails_everywhere_takes_no_sound_replica_out(gateway: Gateway, engines: list[Engine]) -> None:
    """Such as a request that an engine itself answers with 500: a canary between two of them is answered."""
    for engine in engines:
        engine.how = FAILS_FOR_ONE
    for _ in range(12):
        assert gateway.post(client="bert") == 500
        eventually(lambda: set(gateway.servers().values()) == {"UP"})
    assert gateway.post() == 200


@pytest.mark.parametrize("state", ["loading", "warming", "draining", "ending", "waiting"])
def test_nobody_is_sent_to_what_does_not_serve(gateway: Gateway, engines: list[Engine], state: str) -> None:
    engines[0].report.enter(state, "the model loads")
    eventually(lambda: gateway.servers()["a"] == f"DOWN, {state}: the model loads")
    assert [gateway.post() for _ in range(4)] == [200] * 4
    engines[0].report.enter("serving", "it serves")
    eventually(lambda: gateway.servers()["a"].startswith("UP"))


def test_a_supervisor_that_is_gone_is_none_that_serves(gateway: Gateway, engines: list[Engine]) -> None:
    engines[1].end_supervisor()
    eventually(lambda: gateway.servers()["b"].startswith("DOWN"))
