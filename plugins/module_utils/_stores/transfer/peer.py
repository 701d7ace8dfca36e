# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks another host of the fleet, over SSH, for what its peer server gives."""

import contextlib
import json
import os
import select
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._base.received import checked, one_line, parsed
from ..._base.schema import Spec
from .access import ACCOUNT, KEY, KNOWN_HOSTS
from .parts import MOST_PACKED

# A host that says nothing for so long is taken for dead. Its server shows life every 2 s while it works.
SILENCE_SECONDS = 20
# What an answer may take, beside the bytes that were asked for.
_LINE_BYTES = 64 << 10
_WORDS_BYTES = 4096
_HEADS: Spec = {
    "type": "map",
    "min": 1,
    "max": 1,
    "options": {
        "ok": {"type": "int", "min": 0},
        "working": {"type": "bool"},
        "late": {"type": "bool"},
        "absent": {"type": "str"},
        "failed": {"type": "str"},
    },
}
# How long ssh gets to report why it ended.
_LAST_WORDS_SECONDS = 2


@dataclass(frozen=True)
class Peer:
    """A host to ask. host: its name in the inventory, which its host key is pinned to. present: it is in this run, so
    that what it does not have yet may still come."""

    host: str
    address: str
    port: int = 22
    present: bool = False

    @classmethod
    def from_plan(cls, entry: Mapping[str, Any], present_hosts: Sequence[str]) -> "Peer":
        return cls(entry["host"], entry["address"], entry["port"], entry["host"] in present_hosts)


class PeerError(Exception):
    """The host can't be used any further in this transfer, and why."""


class PeerAbsentError(Exception):
    """The host does not have what was asked for, and why."""


class PeerLateError(Exception):
    """The host will have what was asked for."""


Connect = Callable[[Peer], "Connection"]


def is_prepared() -> bool:
    """Whether this host was given access to others; a virgin one in check mode was not."""
    return Path(KEY).exists()


def over_ssh(peer: Peer) -> "Connection":
    """A connection of its own, with the cipher that is fastest where there are AES instructions: a core's work each."""
    options = {
        "BatchMode": "yes",
        "Ciphers": "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com",
        "Compression": "no",
        "ConnectTimeout": "10",
        "ControlPath": "none",
        "HostKeyAlias": peer.host,
        "IdentitiesOnly": "yes",
        "IdentityFile": KEY,
        "LogLevel": "INFO",
        "ServerAliveInterval": "5",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": KNOWN_HOSTS,
    }
    settings = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    # The account has one command, which this name only documents.
    return Connection(
        ["ssh", "-T", "-F", "none", "-p", str(peer.port), *settings, f"{ACCOUNT}@{peer.address}", "serve"]
    )


class Connection:
    """One conversation with a host's peer server. command: what reaches it. coming: when it answered last, it was
    still at work; of a file's parts: still getting files itself."""

    def __init__(self, command: list[str]) -> None:
        self.coming = False
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the connection
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, bufsize=0
        )
        self._rest = b""

    def ask(self, request: dict[str, Any]) -> bytes:
        """The answer's bytes. Raises PeerError, PeerAbsentError, PeerLateError."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise self._lost() from None
        self.coming = False
        while True:
            try:
                head = checked(_HEADS, parsed(self._line(), _LINE_BYTES, "its answer"), "its answer")
            except ValueError as error:
                raise PeerError(str(error)) from None
            if "ok" in head:
                if head["ok"] > _most(request):
                    raise PeerError(f"its answer has {head['ok']} bytes, which is more than was asked for")
                return self._exactly(head["ok"])
            if "absent" in head:
                raise PeerAbsentError(one_line(head["absent"]))
            if "late" in head:
                raise PeerLateError
            if "failed" in head:
                raise PeerError(one_line(head["failed"]))
            self.coming = True

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            with contextlib.suppress(BrokenPipeError):
                if stream:
                    stream.close()

    def _line(self) -> bytes:
        while b"\n" not in self._rest:
            if len(self._rest) > _LINE_BYTES:
                raise PeerError("its answer has no end")
            self._rest += self._some()
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _exactly(self, length: int) -> bytes:
        content = bytearray(self._rest[:length])
        self._rest = self._rest[length:]
        while len(content) < length:
            content += self._some(length - len(content))
        return bytes(content)

    def _some(self, most: int = 1 << 16) -> bytes:
        assert self._process.stdout
        readable, _, _ = select.select([self._process.stdout], [], [], SILENCE_SECONDS)
        if not readable:
            raise PeerError(f"it is silent for {SILENCE_SECONDS} s")
        content = os.read(self._process.stdout.fileno(), min(most, 1 << 20))
        if not content:
            raise self._lost()
        return content

    def _lost(self) -> PeerError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_WORDS_SECONDS)
        self._process.kill()
        self._process.wait()
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - _WORDS_BYTES))
        words = self._stderr.read().decode(errors="replace").strip().splitlines()
        return PeerError(one_line(words[-1]) if words else "the connection broke")


def _most(request: Mapping[str, Any]) -> int:
    """The bytes that an answer may have: of a read what it asks for, else a recipe's, the longest of the others."""
    return sum(length for _, length in request["ranges"]) if "ranges" in request else MOST_PACKED
