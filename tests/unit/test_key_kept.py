# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service's key goes to its own container and nowhere else, and into no log (security 8, 11)."""

from __future__ import annotations

import base64
import html
import http.server
import json
import os
import socket
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import (
    client,
    endpoint,
    evidence,
    listener,
    redaction,
)
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.report import Report
from hypothesis import given
from hypothesis import strategies as st
from test_rank import HEAD

KEYS = ["sk-plain-0123456789abcdef", 'p"ass\\w\u00f6rd', "a'b\u00fc c/d+e=f&g<h>%", "\u20ac\U0001f511 zwei"]

# as programs write it: vLLM's non-default args, access logs, JSON of JSON, ...
FORMS = [
    lambda key: key,
    lambda key: repr({"api_key": [key]}),
    lambda key: ascii([key]),
    lambda key: repr(key.encode()),
    lambda key: json.dumps({"key": key}),
    lambda key: json.dumps({"key": key}, ensure_ascii=False),
    lambda key: json.dumps(json.dumps({"key": key})),
    lambda key: json.dumps({"log": repr([key])}),
    lambda key: "GET /v1?key=" + urllib.parse.quote(key),
    lambda key: urllib.parse.urlencode({"key": key}),
    lambda key: urllib.parse.quote(key, safe="").replace("%", "%25"),
    lambda key: html.escape(json.dumps(key)),
    lambda key: base64.b64encode(key.encode()).decode(),
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_hidden_however_it_is_spelt(key: str, form: Any) -> None:
    written = f"before {form(key)} after"
    hidden = redaction.redacted(written, redaction.spellings(key))
    assert "***" in hidden
    assert hidden.startswith("before ") and hidden.endswith(" after")
    assert not any(part in hidden for part in _parts(key))


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_which_a_program_shows_the_end_is_hidden(key: str) -> None:
    hidden = redaction.redacted(f"server: api_keys: ****{key[-4:]}\n", redaction.spellings(key))
    assert hidden == "server: api_keys: ***\n"


def _parts(key: str) -> list[str]:
    """What would tell of it: any five characters of it."""
    return [key[start : start + 5] for start in range(len(key) - 4)]


@given(st.text(min_size=1))
def test_no_spelling_is_empty_and_each_is_hidden_whole(key: str) -> None:
    if key.encode("utf-8", "ignore").decode() != key:
        return
    spelt = redaction.spellings(key)
    assert "" not in spelt
    assert all("***" in redaction.redacted(spelling, spelt) for spelling in spelt)


@pytest.mark.parametrize("key", KEYS)
def test_neither_journal_nor_status_nor_evidence_holds_a_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    report = Report(HEAD, [key], tmp_path)
    report.log(f"non-default args: {{'api_key': {[key]!r}}}")
    report.enter("loading", f"HTTP 401: {json.dumps({'got': key})}", error=f"{key} and {key!r}")
    bundle = evidence.keep(HEAD, report, None, f"it said {json.dumps(key)}", home=tmp_path / "evidence")
    texts = [capsys.readouterr().out, *(file.read_text() for file in tmp_path.rglob("*") if file.is_file())]
    assert bundle.is_dir()
    assert [text for text in texts if key in text or json.dumps(key)[1:-1] in text or repr(key)[1:-1] in text] == []


@pytest.mark.parametrize(
    ("variable", "is_kept"),
    [
        ("DB_PASS=x", False),
        ("MYSQL_PWD=x", False),
        ("HF_AUTH=x", False),
        ("hf_token=/looks/like/a/path", False),
        ("SSH_KEY=/x", False),
        ("HF_HOME=/hf", True),
        ("RAY_AUTH_TOKEN_PATH=/run/x", True),
    ],
)
def test_evidence_masks_what_is_named_like_a_secret(variable: str, is_kept: bool) -> None:
    kept = evidence.without_secrets({"Config": {"Env": [variable]}})["Config"]["Env"]
    assert kept == ([variable] if is_kept else [variable.partition("=")[0] + "=***"])


# To whom it is sent ------------------------------------------------------------------------------------------------

CONTAINER = "40"
ANY4, LOOP, LAN = "00000000", "0100007F", "0500A8C0"
ANY6, MAPPED = "0" * 32, "0000000000000000FFFF00000100007F"


class Proc:
    """A /proc with the host's own process 1, the container's 40 and its child 41, a stranger's 50 and a user's 60."""

    def __init__(self, folder: Path, container_network: str) -> None:
        self.folder = folder
        self.sockets: dict[str, list[str]] = {"tcp": [], "tcp6": []}
        for process, pid, net in [
            ("self", "host", "host"),
            ("1", "host", "host"),
            ("60", "host", "host"),
            ("40", "container", container_network),
            ("41", "container", container_network),
            ("50", "other", "host"),
        ]:
            (folder / process / "ns").mkdir(parents=True)
            (folder / process / "fd").mkdir()
            (folder / process / "ns" / "pid").symlink_to(f"pid:[{pid}]")
            (folder / process / "ns" / "net").symlink_to(f"net:[{net}]")
        (folder / "net").mkdir()

    def listens(self, process: str, address: str, port: int, state: str = "0A") -> None:
        table = "tcp" if len(address) == 8 else "tcp6"
        inode = str(1000 + sum(map(len, self.sockets.values())))
        row = f" 0: {address}:{port:04X} 00000000:0000 {state} 0:0 0:0 0 0 0 {inode} 1"
        self.sockets[table].append(row)
        (self.folder / process / "fd" / inode).symlink_to(f"socket:[{inode}]")
        for name, rows in self.sockets.items():
            (self.folder / "net" / name).write_text("\n".join(["head", *rows]) + "\n")


@pytest.mark.parametrize(
    ("network", "sockets", "expected"),
    [
        # a group: the container is on the host's network and listens itself
        ("host", [("41", ANY4, 8000)], None),
        ("host", [("41", LOOP, 8000), ("60", LAN, 8000)], None),
        ("host", [("60", LOOP, 8000)], "held by another"),
        ("host", [("60", ANY6, 8000)], "held by another"),
        ("host", [("60", MAPPED, 8000)], "held by another"),
        ("host", [("41", ANY4, 8000), ("60", LOOP, 8000)], "held by another"),
        ("host", [("50", ANY4, 8000)], "held by another"),  # another service's container
        ("host", [("1", ANY4, 8000)], "held by another"),
        ("host", [("41", ANY4, 8001)], "nobody listens"),
        ("host", [("41", ANY4, 8000, "01")], "nobody listens"),  # a connection, no listener
        ("host", [], "nobody listens"),
        # alone: Docker listens for it, as root
        ("own", [("1", ANY4, 8000), ("1", ANY6, 8000)], None),
        ("own", [("60", ANY4, 8000)], "held by another"),
        ("own", [("50", ANY4, 8000)], "held by another"),
        ("own", [("1", ANY6, 8000), ("60", LOOP, 8000)], "held by another"),
    ],
)
def test_the_key_is_sent_to_the_services_own_container_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: str, sockets: list[Any], expected: str | None
) -> None:
    proc = Proc(tmp_path, "host" if network == "host" else "container")
    for one in sockets:
        proc.listens(*one)
    if os.geteuid() == 0:
        os.chown(tmp_path / "60", 1000, 1000)
    found = listener.stranger("http://127.0.0.1:8000", int(CONTAINER), tmp_path)
    assert found is None if expected is None else expected in (found or "")


@pytest.mark.parametrize("init", [0, 999])
def test_without_a_container_it_is_sent_to_nobody(tmp_path: Path, init: int) -> None:
    proc = Proc(tmp_path, "host")
    proc.listens("1", ANY4, 8000)
    assert "does not run" in (listener.stranger("http://127.0.0.1:8000", init, tmp_path) or "")


def test_a_real_listener_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert listener.stranger(url, os.getpid()) is None
    assert "nobody listens" in (listener.stranger(url, os.getpid()) or "")


@pytest.fixture
def asked() -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """A server that sends everybody elsewhere: its URL, and what was asked of it and with which key."""
    seen: list[tuple[str, str | None]] = []

    class Elsewhere(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers.get("Authorization")))
            self.send_response(302 if self.path != "/stolen" else 200)
            self.send_header("Location", "/stolen")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_words: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()
        thread.join()


def test_no_redirect_takes_the_key_elsewhere(asked: Any) -> None:
    url, seen = asked
    assert client.fetch(url + "/v1/models", "sk", 5).status == 302
    assert seen == [("/v1/models", "Bearer sk")]


def test_health_is_asked_without_the_key(asked: Any) -> None:
    url, seen = asked
    endpoint.is_healthy(endpoint.Access(url, "sk"), "/health", 5)
    assert seen == [("/health", None)]
