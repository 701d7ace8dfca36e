# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""People who take what a gateway has: silent, slow and greedy ones, from addresses of the loopback network alone.

``senders.py KIND PORT`` reads ``{connections, addresses, first, seconds, ...}`` from stdin, keeps that many connections
open or tried, and ends after its seconds. It prints a line of JSON when all have been tried, and one at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import ssl
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
# HTTP/2, by TLS 1.3 and by 1.2; a context takes as long as fifty handshakes.
H2 = [ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) for _ in range(2)]
for _one in H2:
    _one.check_hostname, _one.verify_mode = False, ssl.CERT_NONE
    _one.set_alpn_protocols(["h2"])
H2[1].maximum_version = ssl.TLSVersion.TLSv1_2
# Of a handshake, which goes on as long as its next byte comes.
_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]) + bytes([0, 64, 0, 1, 0, 0, 0, 0, 1])
_DRIP_S = 2.0
# GET / by HPACK's table, of a name that is spelled out.
_REQUEST = b"\x82\x84\x87\x41\x07llm.lab"


def _frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def _streams(turn: int) -> range:
    """The numbers of ten streams of a connection, which are odd and only grow."""
    return range(1 + 20 * turn, 21 + 20 * turn, 2)


class Senders:
    def __init__(self, port: int, task: dict[str, Any]) -> None:
        self.port, self.task, self.seen = port, task, Counter[str]()

    def source(self, number: int) -> tuple[str, int]:
        at = self.task["first"] + number % self.task["addresses"]
        return (f"127.0.{at // 200}.{at % 200 + 2}", 0)

    async def silent(self, number: int) -> None:
        with socket.socket() as one:
            one.setblocking(False)
            one.bind(self.source(number))
            await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", self.port))
            self.seen["open"] += 1
            await asyncio.get_running_loop().sock_recv(one, 1)
        self.seen["closed"] += 1

    async def slow(self, number: int) -> None:
        """Drips a handshake, a request's header or, over HTTP/2, a frame of one."""
        kinds: list[tuple[ssl.SSLContext | None, bytes]] = [
            (None, _HELLO),
            (TLS, b"GET / HTTP/1.1\r\nX: "),
            (TLS, _HTTP2),
        ]
        tls, begins = kinds[number % 3]
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=tls, local_addr=self.source(number), ssl_handshake_timeout=600 if tls else None
        )
        self.seen["open"] += 1
        try:
            first = begins if tls else begins[:5]
            rest = (b"x" * 600) if tls else begins[5:]
            writer.write(first)
            for byte in rest:
                await writer.drain()
                if reader.at_eof():
                    break
                await asyncio.sleep(_DRIP_S)
                writer.write(bytes([byte]))
        finally:
            writer.transport.abort()
        self.seen["closed"] += 1

    async def odd(self, number: int) -> None:
        """HTTP/2 that never ends: pings, settings, a header without an end, streams that are taken back at once, and
        answers that nobody reads; over TLS 1.2, which is asked to begin anew, and for names that nobody has."""
        tls = H2[number % 2]
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=tls, local_addr=self.source(number), server_hostname=f"n{number}.invalid"
        )
        self.seen["open"] += 1
        try:
            writer.write(_HTTP2[:24] + _frame(4, 0, 0))
            kind = number % 5
            if kind == 2:
                writer.write(_frame(1, 0, 1, _REQUEST))
            for turn in range(100_000):
                writer.write(
                    [
                        _frame(6, 0, 0, bytes(8)),
                        _frame(4, 0, 0, b"\x00\x04\x00\x00\x00\x00") * 20,
                        _frame(9, 0, 1, b"\x00\x01a\x01b"),
                        b"".join(_frame(1, 5, at, _REQUEST) + _frame(3, 0, at, bytes(4)) for at in _streams(turn)),
                        b"".join(_frame(1, 5, at, _REQUEST) for at in _streams(turn)),
                    ][kind]
                )
                await writer.drain()
                if reader.at_eof():
                    break
                await asyncio.sleep(_DRIP_S if kind == 0 else 0.2)
        finally:
            writer.transport.abort()
        self.seen["closed"] += 1

    async def greedy(self, number: int) -> None:
        """Asks again and again: half of them for long answers, the others with bodies that come in two seconds."""
        words = json.dumps({"model": "bench", "stream": True, "max_tokens": 20, "gap_s": 0.02}).encode()
        while True:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self.port, ssl=TLS, local_addr=self.source(number)
            )
            try:
                size = self.task["mib"] << 20 if number % 2 else len(words)
                key = self.task["keys"][number // 2 % len(self.task["keys"])]
                writer.write(
                    f"POST /v1/chat/completions HTTP/1.1\r\nHost: llm.lab\r\nAuthorization: Bearer {key}\r\n"
                    f"Connection: close\r\nContent-Length: {size}\r\n\r\n".encode()
                )
                writer.write(words[:-1] if size > len(words) else words)
                for _ in range(20 if size > len(words) else 0):
                    writer.write(b" " * ((size - len(words)) // 20))
                    await writer.drain()
                    await asyncio.sleep(0.1)
                answer = await reader.read(12)
                self.seen[answer.decode("ascii", "replace")] += 1
                while answer:
                    answer = await reader.read(1 << 16)
            finally:
                writer.transport.abort()

    async def again(self, send: Callable[[int], Coroutine[Any, Any, None]], number: int) -> None:
        while True:
            try:
                await send(number)
            except (OSError, ssl.SSLError, asyncio.IncompleteReadError):
                self.seen["refused"] += 1
            await asyncio.sleep(self.task["again_s"])

    async def run(self, kind: str) -> None:
        send = getattr(self, kind)
        begun = []
        for number in range(self.task["connections"]):
            begun.append(asyncio.create_task(self.again(send, number)))
            if number % 100 == 99:
                await asyncio.sleep(0.02)
        print(json.dumps({"tried": len(begun), **self.seen}), flush=True)
        await asyncio.sleep(self.task["seconds"])
        print(json.dumps(self.seen), flush=True)
        for one in begun:
            one.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*begun, return_exceptions=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (20_000, 20_000))
    asyncio.run(Senders(int(sys.argv[2]), json.load(sys.stdin)).run(sys.argv[1]))
