# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranks' messages: JSON lines over TCP, after both sides have proved that they know the group's secret.

The secret itself is never sent. Each line carries a MAC under a key of this connection and direction, over the line's
number and text, so that nobody in between can add, change, repeat or drop one unnoticed. Nothing is encrypted: no line
holds a secret.
"""

import asyncio
import contextlib
import hmac
import json
import secrets
import socket
from collections.abc import Mapping
from typing import Any

HANDSHAKE_S = 10.0
LINE_BYTES = 1 << 20
_LEVELS = 8
_NONCE_BYTES = 32

Message = dict[str, Any]


class WireError(Exception):
    """The other side is not who it should be, or broke off; the sentence says which."""


def _mac(key: bytes, *parts: str) -> str:
    """Over the parts with their lengths, so that no two lists of parts give the same."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hmac.new(key, _encoded(text), "sha256").hexdigest()


def _encoded(text: str) -> bytes:
    """Also of halves of characters, which JSON can spell."""
    return text.encode("utf-8", "surrogatepass")


def _is(given: str, mac: str) -> bool:
    """Whether a MAC is the right one, in a time that says nothing about it."""
    return hmac.compare_digest(_encoded(given), mac.encode())


def _message(text: str) -> Message:
    """A line's map; WireError for anything else. It is bounded in depth, since it is written again as JSON."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise WireError("it does not speak our language") from None
    level: list[Any] = [message]
    for _ in range(_LEVELS):
        level = [child for item in level if isinstance(item, dict | list) for child in _children(item)]
    if level or not isinstance(message, dict):
        raise WireError("it does not speak our language")
    return message


def _children(item: dict[str, Any] | list[Any]) -> list[Any]:
    return [*item.values()] if isinstance(item, dict) else item


class Channel:
    """An authenticated connection to one other rank."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, sends: bytes, receives: bytes
    ) -> None:
        self._reader, self._writer = reader, writer
        self._keys = (sends, receives)
        self._sent = self._received = 0

    async def send(self, message: Mapping[str, Any]) -> None:
        text = json.dumps(message)
        mac = _mac(self._keys[0], str(self._sent), text)
        self._sent += 1
        try:
            self._writer.write(f"{mac} {text}\n".encode())
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise WireError(f"the connection broke: {error}") from None

    async def receive(self, timeout_s: float) -> Message:
        line = await _line(self._reader, timeout_s)
        mac, _space, text = line.partition(" ")
        if not _is(mac, _mac(self._keys[1], str(self._received), text)):
            raise WireError("a message was changed on its way")
        self._received += 1
        return _message(text)

    def close(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.transport.abort()


async def _line(reader: asyncio.StreamReader, timeout_s: float) -> str:
    try:
        line = await asyncio.wait_for(reader.readuntil(b"\n"), timeout_s)
    except TimeoutError:
        raise WireError(f"nothing was received for {timeout_s:.0f} s") from None
    except asyncio.IncompleteReadError:
        raise WireError("the connection was closed") from None
    except (OSError, asyncio.LimitOverrunError) as error:
        raise WireError(f"the connection broke: {error}") from None
    return line.decode("utf-8", "replace").rstrip("\n")


async def _plain(reader: asyncio.StreamReader) -> Message:
    return _message(await _line(reader, HANDSHAKE_S))


async def _write_message(writer: asyncio.StreamWriter, message: Message) -> None:
    writer.write(json.dumps(message).encode() + b"\n")
    await writer.drain()


async def join(address: str, port: int, secret: bytes, who: Mapping[str, Any]) -> Channel:
    """Connect to the head as the rank `who` ({service, rank, definition}); WireError or OSError when it fails."""
    connecting = asyncio.open_connection(address, port, limit=LINE_BYTES)
    reader, writer = await asyncio.wait_for(connecting, HANDSHAKE_S)
    try:
        _no_delay(writer)
        nonce, words = secrets.token_hex(_NONCE_BYTES), json.dumps(who, sort_keys=True)
        await _write_message(writer, {"nonce": nonce, "who": words})
        head = await _plain(reader)
        theirs = str(head.get("nonce"))
        if not _is(str(head.get("proof")), _mac(secret, "head", nonce, theirs, words)):
            raise WireError("this host has another secret of the group than the head: site.yml gives it the head's")
        await _write_message(writer, {"proof": _mac(secret, "rank", nonce, theirs, words)})
    except BaseException:
        writer.transport.abort()
        raise
    return Channel(
        reader, writer, sends=_key(secret, "up", nonce, theirs), receives=_key(secret, "down", nonce, theirs)
    )


async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: bytes) -> tuple[Channel, Message]:
    """The head's side: the channel, and who the other rank says it is. WireError when it does not know the secret."""
    _no_delay(writer)
    first = await _plain(reader)
    nonce, words = str(first.get("nonce")), str(first.get("who"))
    ours = secrets.token_hex(_NONCE_BYTES)
    await _write_message(writer, {"nonce": ours, "proof": _mac(secret, "head", nonce, ours, words)})
    answer = await _plain(reader)
    if not _is(str(answer.get("proof")), _mac(secret, "rank", nonce, ours, words)):
        raise WireError("it has another secret of the group than the head: site.yml gives it the head's")
    channel = Channel(reader, writer, sends=_key(secret, "down", nonce, ours), receives=_key(secret, "up", nonce, ours))
    return channel, _message(words)


def _key(secret: bytes, direction: str, *nonces: str) -> bytes:
    return bytes.fromhex(_mac(secret, direction, *nonces))


def _no_delay(writer: asyncio.StreamWriter) -> None:
    """Small messages go at once: heartbeats have a deadline."""
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def listener(address: str, port: int) -> socket.socket:
    """A socket on the head's fabric address alone, also while that address is not there yet (cable out, early boot)."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
    listening.bind((address, port))
    return listening


_IP_FREEBIND = 15  # linux/in.h; Python's socket module does not name it
