# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks recognise each other without ever sending their secret, and notice what is changed on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._rank import wire

WHO = {"service": "pair", "rank": 1, "definition": "abc", "host": "spark-3"}
Harm = Callable[[bytes], bytes]


async def meet(
    head_knows: bytes, rank_knows: bytes, talk: Callable[[wire.Channel, wire.Channel], Awaitable[None]], harm: Harm
) -> bytes:
    """Let a rank join a head through somebody in between, who sees all bytes and may change the rank's.

    Returns all bytes of both directions.
    """
    met: asyncio.Future[wire.Channel] = asyncio.get_running_loop().create_future()
    seen = bytearray()

    async def head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            channel, who = await wire.welcome(reader, writer, head_knows)
            assert who == WHO
            met.set_result(channel)
        except wire.WireError as problem:
            met.set_exception(problem)
            writer.close()

    server = await asyncio.start_server(head, "127.0.0.1", 0)

    async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*server.sockets[0].getsockname())

        async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, change: Harm) -> None:
            while line := await source.readline():
                seen.extend(line)
                target.write(change(line))
            target.close()

        await asyncio.gather(pass_on(reader, far_writer, harm), pass_on(far_reader, writer, lambda line: line))

    relay = await asyncio.start_server(between, "127.0.0.1", 0)
    try:
        rank = await wire.join(*relay.sockets[0].getsockname(), rank_knows, WHO)
        await talk(await met, rank)
        rank.close()
    finally:
        relay.close()
        server.close()
        if met.done():
            met.exception()
    return bytes(seen)


async def greet(head: wire.Channel, rank: wire.Channel) -> None:
    await rank.send({"beat": {"state": "waiting"}})
    assert await head.receive(5) == {"beat": {"state": "waiting"}}
    await head.send({"do": "prepare"})
    assert await rank.receive(5) == {"do": "prepare"}


def as_it_is(line: bytes) -> bytes:
    return line


def test_ranks_with_one_secret_talk_and_do_not_show_it() -> None:
    seen = asyncio.run(meet(b"the secret", b"the secret", greet, as_it_is))
    assert b"prepare" in seen
    assert b"the secret" not in seen


def test_a_head_that_does_not_know_the_secret_is_left() -> None:
    with pytest.raises(wire.WireError, match="this host has another secret of the group"):
        asyncio.run(meet(b"wrong", b"the secret", greet, as_it_is))


def test_a_rank_that_only_repeats_proofs_is_turned_away() -> None:
    def with_another_proof(line: bytes) -> bytes:
        message = json.loads(line) if line.startswith(b"{") else {}
        return json.dumps({"proof": "0" * 64}).encode() + b"\n" if "proof" in message else line

    async def turned_away(head: wire.Channel, rank: wire.Channel) -> None:
        raise AssertionError("it was let in")

    with pytest.raises(wire.WireError, match="it has another secret of the group"):
        asyncio.run(meet(b"the secret", b"the secret", turned_away, with_another_proof))


@pytest.mark.parametrize(
    "harm",
    [
        lambda line: line.replace(b"waiting", b"serving"),
        lambda line: line if line.startswith(b"{") else line * 2,  # said twice: the second has an old number
    ],
)
def test_a_message_that_is_changed_or_repeated_is_noticed(harm: Harm) -> None:
    async def notice(head: wire.Channel, rank: wire.Channel) -> None:
        await rank.send({"beat": {"state": "waiting"}})
        with pytest.raises(wire.WireError, match="was changed on its way"):
            await head.receive(5)
            await head.receive(5)

    asyncio.run(meet(b"the secret", b"the secret", notice, harm))


def test_silence_and_an_end_are_told_apart() -> None:
    async def listen(head: wire.Channel, rank: wire.Channel) -> None:
        with pytest.raises(wire.WireError, match="nothing was heard"):
            await head.receive(0.01)
        rank.close()
        with pytest.raises(wire.WireError, match="the connection"):
            await head.receive(5)

    asyncio.run(meet(b"the secret", b"the secret", listen, as_it_is))


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1\r\n", b"[]\n", b"{}\n", b"\xff\n"])
def test_who_speaks_something_else_is_turned_away(line: bytes) -> None:
    async def speak() -> None:
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await wire.welcome(reader, writer, b"the secret")
            except wire.WireError as problem:
                told.set_exception(problem)
            writer.close()

        server = await asyncio.start_server(head, "127.0.0.1", 0)
        _reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(line)
        writer.write_eof()
        with pytest.raises(wire.WireError):
            await told
        server.close()

    asyncio.run(speak())
