# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks recognise each other without ever sending their secret, and notice what is changed on the way."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import wire
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.service import read_secret
from hypothesis import given
from hypothesis import strategies as st

SECRET = b"the secret, of 32 bytes or more."
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
    seen = asyncio.run(meet(SECRET, SECRET, greet, as_it_is))
    assert b"prepare" in seen
    assert SECRET not in seen


def test_a_head_that_does_not_know_the_secret_is_left() -> None:
    with pytest.raises(wire.WireError, match="this host has another secret of the group"):
        asyncio.run(meet(b"w" * 32, SECRET, greet, as_it_is))


def test_a_rank_that_only_repeats_proofs_is_turned_away() -> None:
    def with_another_proof(line: bytes) -> bytes:
        message = json.loads(line) if line.startswith(b"{") else {}
        return json.dumps({"proof": "0" * 64}).encode() + b"\n" if "proof" in message else line

    async def turned_away(head: wire.Channel, rank: wire.Channel) -> None:
        raise AssertionError("it was let in")

    with pytest.raises(wire.WireError, match="it has another secret of the group"):
        asyncio.run(meet(SECRET, SECRET, turned_away, with_another_proof))


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

    asyncio.run(meet(SECRET, SECRET, notice, harm))


def test_silence_and_an_end_are_distinguished() -> None:
    async def listen(head: wire.Channel, rank: wire.Channel) -> None:
        with pytest.raises(wire.WireError, match="nothing was received"):
            await head.receive(0.01)
        rank.close()
        with pytest.raises(wire.WireError, match="the connection"):
            await head.receive(5)

    asyncio.run(meet(SECRET, SECRET, listen, as_it_is))


DEEP = b"[" * 200_000 + b"]" * 200_000
NO_GREETINGS = [b"GET / HTTP/1.1\r\n", b"[]\n", b"{}\n", b"\xff\n", b"\n", b"null\n", b"9" * 5000 + b"\n", DEEP + b"\n"]
NO_GREETINGS += [b'{"nonce": ' * 60_000 + b"\n", b'{"nonce": "\\ud800", "who": "\\udfff"}\n', b"x" * (2 << 20)]


@pytest.mark.parametrize("line", NO_GREETINGS, ids=lambda line: line[:30].decode(errors="replace"))
def test_who_speaks_something_else_is_turned_away(line: bytes) -> None:
    async def speak() -> None:
        failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await wire.welcome(reader, writer, SECRET)
            except wire.WireError as problem:
                failure.set_exception(problem)
            writer.close()

        server = await asyncio.start_server(head, "127.0.0.1", 0)
        _reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(line)
        writer.write_eof()
        with pytest.raises(wire.WireError):
            await failure
        server.close()

    asyncio.run(speak())


HOSTILE_LINES: list[Harm] = [
    lambda line: "é".encode() + line,
    lambda line: b"\xff" + line,
    lambda line: line[1:],
    lambda line: line[:-2] + b"\n",
    lambda line: b"\n",
    lambda line: b" \n",
    lambda line: DEEP + b"\n",
    lambda line: b"0" * 64 + b" {}\n",
    lambda line: "é".encode() * 64 + b" {}\n",
    lambda line: b"\0" * 64 + b" {}\n",
]


@pytest.mark.parametrize("number", range(len(HOSTILE_LINES)))
def test_whatever_comes_instead_of_a_message_is_a_broken_wire_and_nothing_else(number: int) -> None:
    """SECURITY.md, "A neighbour": the head hears of it as of a rank that is lost."""

    async def notice(head: wire.Channel, rank: wire.Channel) -> None:
        await rank.send({"beat": {"state": "waiting"}})
        with pytest.raises(wire.WireError):
            await head.receive(5)

    def harm(line: bytes) -> bytes:
        return line if line.startswith(b"{") else HOSTILE_LINES[number](line)

    asyncio.run(meet(SECRET, SECRET, notice, harm))


@pytest.mark.parametrize("message", [[], None, 1, "x", {"beat": json.loads("[" * 50 + "]" * 50)}], ids=repr)
def test_a_member_that_knows_the_secret_sends_maps_of_little_depth_or_is_lost(message: Any) -> None:
    """SECURITY.md, "A host of the fleet": one that was taken over."""

    async def notice(head: wire.Channel, rank: wire.Channel) -> None:
        await rank.send(message)
        with pytest.raises(wire.WireError, match="does not speak our language"):
            await head.receive(5)

    asyncio.run(meet(SECRET, SECRET, notice, as_it_is))


@given(st.text(max_size=40) | st.sampled_from(["{}", '{"a": "\\ud800"}', "[[[[]]]]"]))
def test_any_line_is_a_map_or_refused(text: str) -> None:
    with contextlib.suppress(wire.WireError):
        assert isinstance(wire._message(text), dict)
    assert not wire._is(text, "0" * 64)


@pytest.mark.parametrize("content", [b"", b"\n", b" " * 64, b"x" * 31, b"x" * 31 + b"\n" * 9])
def test_a_secret_that_can_be_guessed_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pair.group").write_bytes(content)
    with pytest.raises(ValueError, match="a group's secret has 32 or more"):
        read_secret(str(tmp_path / "pair.group"))
    (tmp_path / "pair.group").write_bytes(b"x" * 32)
    assert read_secret(str(tmp_path / "pair.group")) == b"x" * 32
