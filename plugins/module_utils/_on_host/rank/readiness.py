# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the endpoint takes requests, for gateways: 200 while it serves, else 503, both with the reason in a header.

An engine's own health path says 200 while it hangs, and before it has proved itself. A gateway goes by this instead.
Its check says how it sees the endpoint (HAProxy's ``http-check send-state``): where requests failed there, a canary is
asked before the answer.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable

from . import host
from .report import Report
from .service import Address

_HEAD_BYTES, _HEAD_S = 8192, 2.0
_RETRY_S = 5.0
# "UP" alone: no request and no check has failed.
_DOUBTED = re.compile(rb"^x-haproxy-server-state: *(?!UP *[;\r])", re.IGNORECASE | re.MULTILINE)
_ANSWER = "HTTP/1.1 {}\r\nX-Reason: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Readiness:
    """doubt: asks a canary, for a moment at the longest."""

    def __init__(self, address: Address, report: Report, doubt: Callable[[], Awaitable[None]]) -> None:
        self._address, self._report, self._doubt = address, report, doubt

    async def listen(self) -> None:
        """Until cancelled. A port that can't be had is tried again, and keeps nobody else from being served."""
        while True:
            try:
                address, port = self._address.address, self._address.port
                server = await asyncio.start_server(self._meet, address, port, limit=_HEAD_BYTES)
            except OSError as error:
                self._report.note(f"gateways let nobody in: {host.taken(self._address.port, error)}")
                await asyncio.sleep(_RETRY_S)
            else:
                async with server:
                    await server.serve_forever()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # whoever sends what isn't understood gets no answer
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_S)
            if _DOUBTED.search(head) and self._report.state == "serving":
                await self._doubt()
            reason = self._report.unready
            status = "503 Service Unavailable" if reason else "200 OK"
            writer.write(_ANSWER.format(status, _one_line(reason or "serving")).encode())
            await asyncio.wait_for(writer.drain(), _HEAD_S)
        writer.close()


def _one_line(text: str) -> str:
    """As a header's value, and a word in HAProxy's statistics."""
    return re.sub(r"[^ -~]+", " ", text)[:200].strip()
