# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both ends of a way to an engine, on one host and with one clock: an engine that answers at set times, and clients.

An engine's own time would hide what a way adds to it, so that this one takes none. ``ends.py serve PORT`` is the
engine; ``ends.py ask`` reads its task from stdin and prints what `ask` returns. Runs on a host without the collection.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import statistics
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

# What vLLM writes for a token is about so long.
_PADDING = "x" * 180


async def _serve(port: int) -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", port, backlog=256)
    await server.serve_forever()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await _head(reader):
            wanted = json.loads(await reader.readexactly(int(head.get("content-length", 0))) or b"{}")
            if wanted.get("stream"):
                await _stream(writer, wanted["max_tokens"], wanted["gap_s"])
            else:
                body = json.dumps({"choices": [{"message": {"content": _PADDING}}]}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def _head(reader: asyncio.StreamReader) -> dict[str, str]:
    """The headers of a request or an answer by their names; empty where the other end has left."""
    found: dict[str, str] = {}
    while (line := (await reader.readline()).decode().strip()) or not found:
        if not line:
            return {}
        name, _, value = line.partition(":")
        found[name.lower()] = value.strip()
    return found


async def _stream(writer: asyncio.StreamWriter, tokens: int, gap_s: float) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    begun = time.monotonic()
    for number in range(tokens):
        await asyncio.sleep(begun + number * gap_s - time.monotonic())
        event = json.dumps({"sent_ns": time.monotonic_ns(), "padding": _PADDING})
        writer.write(_chunk(f"data: {event}\n\n".encode()))
        await writer.drain()
    writer.write(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Way:
    """To the engine: ``{port, certificate, name, key, pid}``, the last four of a gateway alone. pid: its worker's."""

    def __init__(self, words: dict[str, Any]) -> None:
        self._words = words
        self._tls = ssl.create_default_context(cafile=words["certificate"]) if words["certificate"] else None

    def connection(self) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", self._words["port"]), 60)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._tls.wrap_socket(plain, server_hostname=self._words["name"]) if self._tls else plain

    async def streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = self._words["name"] if self._tls else None
        return await asyncio.open_connection("127.0.0.1", self._words["port"], ssl=self._tls, server_hostname=name)

    def request(self, **wanted: Any) -> bytes:
        """As OpenAI's client writes it, the model behind the messages."""
        messages = [{"role": "user", "content": "hello " * 300}]
        body = json.dumps({"messages": messages, "model": "bench", **wanted}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {self._words['name']}\r\nContent-Length: {len(body)}\r\n"
        return f"{head}Authorization: Bearer {self._words['key']}\r\n\r\n".encode() + body

    def cpu_ns(self) -> int:
        """What the gateway's threads have had of the processors so far."""
        if not self._words["pid"]:
            return 0
        files = Path(f"/proc/{self._words['pid']}/task").glob("*/schedstat")
        return sum(int(file.read_text().split()[0]) for file in files)


def _requests(way: Way, count: int, kept: bool) -> list[float]:
    """Milliseconds of each of so many requests, one after the other; kept: over one connection."""
    request, took = way.request(max_tokens=1), []
    connection = way.connection() if kept else None
    for _ in range(count):
        begun = time.monotonic()
        used = connection or way.connection()
        used.sendall(request)
        _read_answer(used)
        took.append((time.monotonic() - begun) * 1000)
        if not kept:
            used.close()
    return took


def _read_answer(connection: socket.socket) -> None:
    read = b""
    while b"\r\n\r\n" not in read:
        read += connection.recv(1 << 16)
    head, _, body = read.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(read[:500].decode(errors="replace"))
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(1 << 16)


async def _tokens(way: Way, count: int, tokens: int, gap_s: float) -> tuple[list[float], float]:
    """Of so many streams at once: milliseconds from the engine to the client of each token; and tokens a second while
    all of them run, since what connecting costs is measured by itself."""
    took: list[float] = []

    async def one() -> list[float]:
        reader, writer = await way.streams()
        writer.write(way.request(stream=True, max_tokens=tokens, gap_s=gap_s))
        received = []
        async for sent_ns in _events(reader):
            now = time.monotonic_ns()
            took.append((now - sent_ns) / 1e6)
            received.append(now / 1e9)
        writer.close()
        return received

    streams = await asyncio.gather(*(one() for _ in range(count)))
    if len(took) != count * tokens:
        raise RuntimeError(f"{len(took)} tokens came of {count * tokens}")
    begun, ended = max(one[0] for one in streams), min(one[-1] for one in streams)
    return took, sum(begun < at <= ended for one in streams for at in one) / (ended - begun)


async def _events(reader: asyncio.StreamReader) -> AsyncIterator[int]:
    while (line := await reader.readline()) and line != b"data: [DONE]\n":
        if line.startswith(b"data: "):
            yield json.loads(line[6:])["sent_ns"]


def ask(task: dict[str, Any]) -> list[dict[str, Any]]:
    """``{way, what, median_ms, p99_ms, count, a_second, cpu_ms}`` of each round, the ways in turns so that what else
    the machine does meets both. a_second: requests, or tokens while all streams run.

    task: ``{ways: {name: words of a Way}, rounds, requests, streams, tokens, gap_s}``."""
    ways = {name: Way(words) for name, words in task["ways"].items()}
    measured = []
    for number in range(task["rounds"]):
        for name in sorted(ways, reverse=bool(number % 2)):
            for what in ("request", "connection", "stream", "streams"):
                measured.append({"way": name, "what": what, **_round(ways[name], what, task)})
    return measured


def _round(way: Way, what: str, task: dict[str, Any]) -> dict[str, Any]:
    begun, before = time.monotonic(), way.cpu_ns()
    if what in ("request", "connection"):
        took = _requests(way, task["requests"], what == "request")
        a_second = len(took) / (time.monotonic() - begun)
    else:
        count = task["streams"] if what == "streams" else 1
        took, a_second = asyncio.run(_tokens(way, count, task["tokens"], task["gap_s"]))
    cpu_ms = (way.cpu_ns() - before) / 1e6
    p99 = statistics.quantiles(took, n=100)[98]
    return {
        "median_ms": statistics.median(took),
        "p99_ms": p99,
        "count": len(took),
        "a_second": a_second,
        "cpu_ms": cpu_ms,
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(_serve(int(sys.argv[2])))
    print(json.dumps(ask(json.load(sys.stdin))))
