# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway's real HAProxy on loopback, with the plan's own configuration, before engines that fail in every way."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.filter.gateway_clients import gateway_clients
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway import reading
from test_gateway import CONFIG, KEYS, A, folder, plan_of  # noqa: F401 - a fixture

PROGRAM = os.environ.get("HAPROXY") or shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="this machine has no haproxy; molecule/gateway has one")
PATIENCE_S = 30.0
SOUND, FAILS, GARBAGE, SLOW = "sound", "fails", "garbage", "slow"


class Engine:
    """An imitation of an engine whose /health says 200 whatever it does. how: what becomes of a request."""

    def __init__(self) -> None:
        self.how, self.seen, self.cut, self.over = SOUND, Counter[str](), threading.Event(), threading.Event()
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send(200, b"ok")

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                engine.seen[engine.how] += 1
                if engine.how == GARBAGE:
                    self.wfile.write(b"\x00\x01 no HTTP\r\n\r\n")
                    self.close_connection = True
                elif engine.how == FAILS:
                    self._send(500, b'{"error": "it failed"}')
                elif engine.how == SLOW:
                    self._wait()
                else:
                    time.sleep(0.02)
                    self._send(200, b'{"choices": []}')

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

    def post(self) -> int:
        """The status of one request, 0 for no HTTP."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        headers = {"Authorization": "Bearer key-of-anna-0000001", "Content-Type": "application/json"}
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps({"model": "tiny"}), headers)
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
            text = text.replace(f"{address}:8000", f"127.0.0.1:{engine.port}")
        (place / Path(path).name).write_text(text)
    for key in part["backend_keys"]:
        (place / "keys" / Path(key["path"]).name).write_text(key["form"] % json.dumps("x"))
    (place / "clients.map").write_text(gateway_clients(KEYS))
    one = Gateway(place, (place / Path(CONFIG).name).read_text())
    yield one
    one.close()


def test_who_hangs_up_is_not_computed_for(gateway: Gateway, engines: list[Engine]) -> None:
    for engine in engines:
        engine.how = SLOW
    client = gateway.hang_up()
    eventually(lambda: sum(engine.seen[SLOW] for engine in engines) == 1)
    client.close()
    eventually(lambda: any(engine.cut.is_set() for engine in engines))
