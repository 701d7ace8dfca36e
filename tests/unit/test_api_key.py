# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every route asks for the key, whatever vLLM itself guards (perf-reliability 8.1)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.spec import SPEC
from ansible_collections.gb10.fleet.plugins.module_utils._on_host import api_key
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import service
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

UNGUARDED = (
    "/invocations",
    "/tokenize",
    "/metrics",
    "/pause",
    "/update_weights",
    "/score",
    "/docs",
    "/load",
    "/version",
)
RIGHT = (b"authorization", b"Bearer the-key")


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "vllm.yaml"
    file.write_text('api-key: "the-key"\n')
    monkeypatch.setattr(api_key, "KEY_FILE", file)
    return file


def ask(path: str, *headers: tuple[bytes, bytes], kind: str = "http", method: str = "POST") -> list[dict[str, Any]]:
    """What is sent back; the app behind the check answers 200."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    scope = {"type": kind, "path": path, "headers": [*headers], "method": method}
    asyncio.run(api_key.KeyOnEveryRoute(app)(scope, None, send))
    return sent


@pytest.mark.parametrize("path", [*UNGUARDED, "/v1/models", "/", "", "/health/", "//health", "/Health"])
@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"Bearer wrong")],
        [(b"authorization", b"the-key")],
        [RIGHT, (b"Authorization", b"Bearer x")],
    ],
)
def test_without_the_key_nothing_answers(key: Path, path: str, headers: list[tuple[bytes, bytes]]) -> None:
    start, body = ask(path, *headers)
    assert start["status"] == 401
    assert body["body"] == b'{"error": "Unauthorized"}'


@pytest.mark.parametrize("path", [*UNGUARDED, "/v1/models"])
def test_with_the_key_every_route_answers(key: Path, path: str) -> None:
    assert ask(path, RIGHT)[0]["status"] == 200
    assert ask(path, (b"Authorization", b"bearer the-key"))[0]["status"] == 200


ORIGIN, METHOD = (b"origin", b"http://x"), (b"Access-Control-Request-Method", b"POST")


@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        ("/health", "GET", [], 200),
        ("/v1/chat/completions", "OPTIONS", [ORIGIN, METHOD], 200),  # vLLM's CORS layer answers it
        # security 17: these would reach the route, which mounted apps answer whatever the method
        ("/metrics", "OPTIONS", [], 401),
        ("/metrics", "OPTIONS", [ORIGIN], 401),
        ("/metrics", "OPTIONS", [METHOD], 401),
        ("/metrics", "GET", [ORIGIN, METHOD], 401),
        ("/metrics", "OPTIONS", [RIGHT], 200),
    ],
)
def test_health_and_a_browsers_question_are_open(
    key: Path, path: str, method: str, headers: list[tuple[bytes, bytes]], status: int
) -> None:
    assert ask(path, *headers, method=method)[0]["status"] == status


def test_a_web_socket_without_the_key_is_closed(key: Path) -> None:
    assert ask("/v1/realtime", kind="websocket") == [{"type": "websocket.close", "code": 1008}]


def test_the_start_of_the_server_passes(key: Path) -> None:
    assert ask("", kind="lifespan")[0]["status"] == 200


@given(st.binary())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_other_header_opens(key: Path, header: bytes) -> None:
    if header.partition(b" ")[2] != b"the-key":
        assert ask("/metrics", (b"authorization", header))[0]["status"] == 401


READERS = [
    lambda path: api_key.read_key(path).decode(),  # in the container
    lambda path: service.read_key(str(path), SPEC.key.form),  # of the supervisor
]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("api-key:\n", "has no line|holds no key"),
        ("", "has no line"),
        ('api-key: ""\n', "holds no key"),
        ("api-key: bare\n", "holds no key"),
        ("api-key: 17\n", "holds no key"),
        ('api-key: ["sk"]\n', "holds no key"),
    ],
)
def test_without_a_key_in_the_file_nothing_comes_up(key: Path, read: Any, text: str, expected: str) -> None:
    key.write_text(text)
    with pytest.raises(ValueError, match=expected) as refused:
        read(key)
    assert "bare" not in str(refused.value)


@pytest.mark.parametrize("read", READERS)
@given(st.text(min_size=1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_readers_read_what_the_role_writes(key: Path, read: Any, text: str) -> None:
    """security 8: a key with quotes, backslashes or umlauts was searched for in its escaped form."""
    key.write_text(SPEC.key.form % json.dumps(text))
    if text.encode("utf-8", "ignore").decode() == text:
        assert read(key) == text


def test_the_key_is_read_where_it_is_mounted() -> None:
    assert str(api_key.KEY_FILE) == SPEC.key.target
