# SPDX-License-Identifier: GPL-3.0-or-later
"""The other ranks as the head sees them: who is in, what they say, and orders to them."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from . import host, wire
from .host import RankError
from .judge import End
from .report import Report, now_text
from .service import Service

BEAT_S = 2.0
# A host under memory pressure may be silent for long; a false alarm costs a model load of minutes.
LOST_S = 20.0
_ORDER_S = 300.0
# Between two looks at this host's own adapter while ranks are missing.
LOOK_S = 5.0


class Member:
    """One other rank while it is connected. reported: its last beat."""

    def __init__(self, rank: int, host: str, address: str, channel: wire.Channel, report: Report) -> None:
        self.rank, self.host, self.address, self.channel = rank, host, address, channel
        self.since = now_text()
        self.reported: dict[str, Any] = {}
        self._report = report
        self._waiting: dict[str, asyncio.Future[str]] = {}

    @property
    def name(self) -> str:
        return f"rank {self.rank} ({self.host})"

    async def ask(self, order: str, reason: str = "", timeout_s: float = _ORDER_S) -> None:
        """Carry an order out there; RankError with that rank's sentence when it can't."""
        self._waiting[order] = asyncio.get_running_loop().create_future()
        try:
            await self.channel.send({"do": order, "epoch": self._report.fields["epoch"], "reason": reason})
            error = await asyncio.wait_for(self._waiting[order], timeout_s)
        except wire.WireError as broken:
            raise RankError(f"{self.name}: {broken}") from None
        except TimeoutError:
            raise RankError(f"{self.name} has not done `{order}` within {timeout_s:.0f} s") from None
        finally:
            self._waiting.pop(order, None)
        if error:
            raise RankError(f"{self.name}: {error}")

    def done(self, order: str, error: str) -> None:
        waiting = self._waiting.get(order)
        if waiting is not None and not waiting.done():
            waiting.set_result(error)

    def lost(self, why: str) -> None:
        for order in [*self._waiting]:
            self.done(order, why)


class Members:
    def __init__(self, service: Service, report: Report, secret: bytes, over: Callable[[End], None]) -> None:
        self._service, self._report, self._secret, self._over = service, report, secret, over
        self._by_rank: dict[int, Member] = {}
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        """Meet the other ranks from now on; RankError while something is in the way."""
        meeting = self._service.rendezvous
        if meeting is not None:
            try:
                listening = wire.listener(meeting.address, meeting.port)
                self._server = await asyncio.start_server(self._meet, sock=listening, limit=wire.LINE_BYTES)
            except OSError as error:
                raise RankError(host.taken(meeting.port, error)) from None

    def in_order(self) -> list[Member]:
        return [self._by_rank[rank] for rank in sorted(self._by_rank)]

    async def gather(self) -> None:
        """Until all ranks are in."""
        while missing := sorted({*range(1, self._service.ranks)} - {*self._by_rank}):
            names = ", ".join(f"rank {rank} ({self._service.peers[rank - 1]})" for rank in missing)
            here = host.without_adapter(self._service.adapter)
            sentence = f"waiting for {names}: {here or f'is it on, its cable in, its {self._service.unit} started?'}"
            self._report.enter("waiting", sentence, error=sentence)
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), LOOK_S)

    # A connection ------------------------------------------------------------------------------------------------

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("peername")[0]
        if address not in self._service.peers:
            writer.transport.abort()
            return
        try:
            channel, who = await wire.welcome(reader, writer, self._secret)
            member = await self._admit(channel, who, address)
        except Exception as problem:  # whatever it sends, the others' ranks go on
            self._report.note(f"{address} is turned away: {_why(problem)}")
            writer.transport.abort()
            return
        beats = asyncio.create_task(beat(channel, lambda: {}))
        try:
            while True:
                self._receive(member, await channel.receive(LOST_S))
        except Exception as problem:
            self._leave(
                member, f"{member.name} is lost: {host.without_adapter(self._service.adapter) or _why(problem)}"
            )
        finally:
            beats.cancel()
            channel.close()

    async def _admit(self, channel: wire.Channel, who: Mapping[str, Any], address: str) -> Member:
        """Take a rank in; WireError with the sentence that it gets when it does not fit."""
        problem = unfit(self._service, who, address)
        if problem:
            await channel.send({"refused": problem})
            self._report.update(error=problem)
            raise wire.WireError(problem)
        member = Member(who["rank"], _name(who.get("host")), address, channel, self._report)
        former = self._by_rank.get(member.rank)
        if former is not None:
            self._leave(former, f"{former.name} began anew")
            former.channel.close()
        self._by_rank[member.rank] = member
        self._report.note(f"{member.name} has joined from {address}")
        self._notify()
        return member

    def _receive(self, member: Member, message: Mapping[str, Any]) -> None:
        epoch = self._report.fields["epoch"]
        if "beat" in message:
            member.reported = dict(message["beat"])
            self._notify()
        elif "did" in message:
            member.done(message["did"], message["error"])
        elif "failed" in message and message["epoch"] == epoch:
            flags = {name: message.get(name) is True for name in ("drains", "out_of_memory", "elsewhere")}
            self._over(End(f"{member.name}: {message['failed']}", **flags))
        elif "asks" in message:
            self._over(End(f"{member.name} is to leave: {message['asks']}", failed=False, drains=True))
        elif "leaving" in message:
            self._leave(member, f"{member.name} leaves: {message['leaving']}", failed=False)

    def _leave(self, member: Member, reason: str, failed: bool = True) -> None:
        if self._by_rank.get(member.rank) is member:
            del self._by_rank[member.rank]
            self._report.note(reason)
            member.lost(reason)
            self._over(End(reason, failed))
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._report.update(
            ranks_seen=[
                {
                    "rank": member.rank,
                    "host": member.host,
                    "address": member.address,
                    "state": member.reported.get("state", "waiting"),
                    "since": member.since,
                    "memory_available": member.reported.get("memory_available"),
                }
                for member in self.in_order()
            ]
        )

    # Orders ------------------------------------------------------------------------------------------------------

    async def broadcast(self, message: Mapping[str, Any]) -> None:
        for member in self.in_order():
            try:
                await member.channel.send(message)
            except wire.WireError as problem:
                self._report.note(f"{member.name}: {problem}")

    async def try_all(self, order: str, reason: str, timeout_s: float) -> None:
        """The order to every rank that is there, at once; a failure is reported, and left to the next preparation."""
        asked = [member.ask(order, reason, timeout_s) for member in self.in_order()]
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, RankError):
                self._report.note(str(outcome))


def _why(problem: Exception) -> str:
    if isinstance(problem, wire.WireError | OSError):
        return str(problem)
    return f"it sent what can't be understood ({type(problem).__name__})"


def _name(host: object) -> str:
    """A host's name for the journal, without what a terminal would obey."""
    return "".join(character if character.isprintable() else "?" for character in str(host)[:64])


def unfit(service: Service, who: Mapping[str, Any], address: str) -> str:
    """Why a rank that knows the secret can't be taken in, or an empty string."""
    rank = who.get("rank")
    if who.get("service") != service.service or not isinstance(rank, int) or not 0 < rank < service.ranks:
        return f"{address} says it is rank {rank} of {who.get('service')}, which {service.service} does not have"
    if service.peers[rank - 1] != address:
        return f"rank {rank} of {service.service} is at {service.peers[rank - 1]}, not at {address}"
    if who.get("definition") != service.definition:
        name = f"rank {rank} ({who.get('host')})"
        return f"{name} has another definition of {service.service}: run the playbook for all its hosts"
    return ""


async def beat(channel: wire.Channel, status: Callable[[], Mapping[str, Any]]) -> None:
    """Report every BEAT_S that we are there, until cancelled or the connection breaks."""
    try:
        while True:
            await channel.send({"beat": dict(status())})
            await asyncio.sleep(BEAT_S)
    except wire.WireError:
        return  # whoever receives on this channel says so
