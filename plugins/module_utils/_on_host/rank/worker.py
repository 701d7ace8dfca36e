# SPDX-License-Identifier: GPL-3.0-or-later
"""A rank that follows: it joins the head, follows its orders, and ends its part when the head is lost."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

from . import wire
from .host import RankError, without_adapter
from .judge import End
from .local import LocalRank
from .members import LOST_S, beat
from .report import Report
from .service import Service

_RETRY_S = 2.0
_STATES = {"prepare": "preparing", "launch": "starting", "stop": "ending"}


class Worker:
    def __init__(self, service: Service, report: Report, secret: bytes) -> None:
        assert service.rendezvous is not None
        self._service, self._report, self._secret = service, report, secret
        self._meeting = service.rendezvous
        self._local = LocalRank(service, report, self._over, secret)
        self._channel: wire.Channel | None = None
        self._failed = ""
        self._asked = self._canceled = False
        # nothing of the rank runs, by the head's order or since it is gone
        self._over_here = asyncio.Event()

    def stop(self, cancel: Callable[[], object]) -> None:
        """The owner wants it to end. A group that serves loses no rank before the head has let its answers end; who
        asks again does not want to wait for them."""
        if not self._asked and self._channel is not None and self._report.state == "serving":
            self._leaving = asyncio.create_task(self._leave(self._channel, cancel))
        else:
            self._cancel(cancel)
        self._asked = True

    async def _leave(self, channel: wire.Channel, cancel: Callable[[], object]) -> None:
        limits, why = self._service.limits, "its owner stops it"
        self._over_here.clear()
        self._report.enter("draining", f"{why}; the head lets the answers under way end first")
        await _try_to_send(channel, {"asks": why})
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over_here.wait(), limits.drain_s + limits.stop_s + LOST_S)
        self._cancel(cancel)

    def _cancel(self, cancel: Callable[[], object]) -> None:
        """Once: what ends the rank then must not be ended itself."""
        if not self._canceled:
            self._canceled = True
            cancel()

    def _over(self, end: End) -> None:
        """The container ended by itself, or has to: the head learns of it by the next message."""
        self._failed = end.reason
        self._report.note(end.reason)
        if self._channel is not None:
            message = {"failed": end.reason, "epoch": self._report.fields["epoch"]}
            message |= {"drains": end.drains, "out_of_memory": end.out_of_memory, "elsewhere": end.elsewhere}
            self._sending = asyncio.create_task(_try_to_send(self._channel, message))

    async def run(self) -> int:
        """Never ends by itself; being cancelled is the owner's stop."""
        who = {
            "service": self._service.service,
            "rank": self._service.rank,
            "definition": self._service.definition,
            "host": socket.gethostname(),
        }
        try:
            while True:
                try:
                    self._channel = await wire.join(self._meeting.address, self._meeting.port, self._secret, who)
                    await self._follow(self._channel)
                except Exception as problem:  # a head may send anything
                    why = without_adapter(self._service.adapter) or in_words(problem)
                    await self._without_head(f"waiting for the head at {self._meeting.address}: {why}")
                await asyncio.sleep(_RETRY_S)
        except asyncio.CancelledError:
            await self._end()
            self._report.enter("waiting", "stopped by its owner")
            return 0

    async def _follow(self, channel: wire.Channel) -> None:
        """Until the connection breaks (WireError)."""
        usage: dict[str, Any] = {}
        orders: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        tasks = [
            asyncio.create_task(self._measure(usage)),
            asyncio.create_task(beat(channel, lambda: {"state": self._report.state, **usage})),
            asyncio.create_task(self._obey(channel, orders)),
        ]
        try:
            while True:
                message = await channel.receive(LOST_S)
                if "refused" in message:
                    raise wire.WireError(message["refused"])
                if message.get("do") == "stopped":
                    self._report.enter("waiting", f"the head has {message['reason']}", error=message["reason"])
                elif "do" in message:
                    orders.put_nowait(message)
        except asyncio.CancelledError:
            await _try_to_send(channel, {"leaving": "its owner stops it"})
            await self._end()
            raise
        finally:
            self._channel = None
            for task in tasks:
                task.cancel()
            channel.close()

    async def _measure(self, usage: dict[str, Any]) -> None:
        while True:
            usage.update(await self._local.usage())
            await asyncio.sleep(2.0)

    async def _obey(self, channel: wire.Channel, orders: asyncio.Queue[Mapping[str, Any]]) -> None:
        self._report.enter("waiting", f"joined the head at {self._meeting.address}", error="")
        while True:
            message = await orders.get()
            order, error = str(message["do"]), ""
            try:
                await self._do(order, message)
            except Exception as problem:  # a head may order anything
                error = str(problem) or type(problem).__name__
                self._report.note(error)
                self._report.update(error=error)
            await _try_to_send(channel, {"did": order, "epoch": message.get("epoch"), "error": error})

    async def _do(self, order: str, message: Mapping[str, Any]) -> None:
        epoch = message["epoch"]
        if order in _STATES:
            words = f": {message['reason']}" if message["reason"] else ""
            self._report.enter(_STATES[order], f"epoch {epoch}: {order}{words}", epoch=epoch)
        if order == "prepare":
            self._failed = ""
            await self._local.stop()
            await self._local.prepare()
        elif order == "launch":
            await self._local.launch()
            self._report.enter("serving", f"epoch {epoch}: the rank runs", error="")
        elif order == "loaded":
            self._local.loaded()
        elif order == "evidence":
            bundle = await self._local.keep_evidence(message["reason"])
            self._report.update(evidence=str(bundle), last_end=message["reason"])
        elif order == "stop":
            await self._local.stop()
            self._over_here.set()
            self._report.enter("waiting", f"epoch {epoch} is over, waiting for the next")

    async def _without_head(self, sentence: str) -> None:
        """A rank whose head is gone waits for it in vain and holds memory and ports."""
        if self._report.state not in ("waiting", "ending"):
            with contextlib.suppress(OSError):
                bundle = await self._local.keep_evidence(self._failed or sentence)
                self._report.update(evidence=str(bundle), last_end=self._failed or sentence)
        await self._end()
        self._over_here.set()
        self._report.enter("waiting", sentence, error=sentence)

    async def _end(self) -> None:
        try:
            await self._local.stop()
        except RankError as problem:
            self._report.note(str(problem))


def in_words(problem: Exception) -> str:
    """Of a connection: asyncio's own words repeat the address."""
    if isinstance(problem, OSError) and problem.errno:
        return f"its supervisor can't be reached ({os.strerror(problem.errno)})"
    return str(problem) or "its supervisor does not answer"


async def _try_to_send(channel: wire.Channel, message: Mapping[str, Any]) -> None:
    with contextlib.suppress(wire.WireError):
        await channel.send(message)
