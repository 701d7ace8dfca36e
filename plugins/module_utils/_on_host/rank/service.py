# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan's file of one rank (`/etc/gb10-fleet/services/NAME.json`), as data."""

import hashlib
import hmac
import json
import re
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import typed
from .probes import Probes, Request

SECRET_BYTES = 32


@dataclass(frozen=True)
class Budget:
    """So many starts within so many seconds."""

    starts: int
    within_s: float


@dataclass(frozen=True)
class Limits:
    """Seconds, and counts.

    startup_limit_s: a load may go so long without any progress. drain_s: so long running answers may go on once the
    service is to stop; 0: none does. stop_s: from `docker stop` to the kill. canary_s: between two looks at a serving
    endpoint, and how long a canary may take. strikes: bad looks in a row that end an epoch. budget: of restarts.
    """

    startup_limit_s: float
    drain_s: float
    stop_s: float
    canary_s: float
    strikes: int
    budget: Budget

    def __post_init__(self) -> None:
        if not min(self.startup_limit_s, self.stop_s, self.canary_s, self.strikes, self.budget.starts) > 0:
            raise ValueError("one of them is not above 0")
        if self.drain_s < 0:
            raise ValueError(f"drain_s is {self.drain_s}, expected 0 or more seconds")


@dataclass(frozen=True)
class Guard:
    """Of the host's memory, in bytes. floor_bytes: must stay free while a model loads. high_bytes: what the rank was
    planned to take at most. creep_s: seconds beyond that after which it is said. on_creep: ``report`` alone, or
    ``restart``. unit: which ends a rank where too little memory is left."""

    floor_bytes: int
    high_bytes: int
    creep_s: float
    on_creep: str
    unit: str

    def __post_init__(self) -> None:
        if self.on_creep not in ("report", "restart"):
            raise ValueError(f"on_creep is {self.on_creep!r}, expected report or restart")


@dataclass(frozen=True)
class Endpoint:
    """The API as the head reaches it. model: its name for clients. key_file: None without a key. key_form: that file's
    text, with ``%s`` for the key as JSON or ``%t`` for its text. certificate: the file of the one that the API shows;
    None without TLS."""

    url: str
    model: str
    key_file: str | None
    key_form: str
    certificate: str | None

    def __post_init__(self) -> None:
        if self.url.startswith("https:") != (self.certificate is not None):
            raise ValueError(f"certificate is {self.certificate}, which does not fit the url {self.url}")
        if not self.port:
            raise ValueError(f"the url {self.url} has no port")

    @property
    def port(self) -> int:
        return urllib.parse.urlsplit(self.url).port or 0


@dataclass(frozen=True)
class Adapter:
    """This host's way to the other ranks.

    address: its IPv4 address in the group. state_file: holds 0 while hot-plug keeps the adapter off. absent: what is
    to be reported then, with the remedy.
    """

    address: str
    state_file: str
    absent: str


@dataclass(frozen=True)
class Address:
    """Where the head meets the other ranks, or gateways."""

    address: str
    port: int


@dataclass(frozen=True)
class Gid:
    """An RDMA device, and the IPv4 address that its GID is looked up by."""

    device: str
    address: str


@dataclass(frozen=True)
class Token:
    """What the engine's processes of a group know each other by. file: where the container finds it. purpose: what it
    is derived for, so that it shows nothing of the group's secret, nor of a token for something else."""

    file: str
    purpose: str

    def derived(self, secret: bytes) -> str:
        """64 hexadecimal digits: HMAC-SHA256 of the purpose under the group's secret, as HKDF expands (RFC 5869)."""
        return hmac.new(secret, self.purpose.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Service:
    """One rank of a service: the keys of the plan's file (docs/explanation/architecture.md, "A service and its ranks").

    token: None where the engine's processes need none. run: the `docker run` words, in the foreground. serve: words
    that begin to serve once all ranks have joined, or None. rendezvous, adapter: None for a service of one rank.
    readiness: where the head tells gateways whether it serves; None without any. address: of this rank, peers: of the
    others, by rank. definition: equal on all ranks of one plan. ports: TCP ports
    that must be free before a start. warm_up: what takes compilation on itself before clients come.
    """

    service: str
    rank: int
    ranks: int
    container: str
    run: Sequence[str]
    serve: Sequence[str] | None
    address: str | None
    peers: Sequence[str]
    rendezvous: Address | None
    definition: str
    secret_file: str | None
    token: Token | None
    adapter: Adapter | None
    gids: Sequence[Gid] | None
    memory_bytes: int
    guard: Guard
    ports: Sequence[int]
    endpoint: Endpoint | None
    readiness: Address | None
    probes: Probes
    warm_up: Sequence[Request]
    limits: Limits

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.ranks:
            raise ValueError(f"rank is {self.rank}, expected one of {self.ranks}")
        if len(self.run) < 2:
            raise ValueError("run has no command, expected `docker run` words")
        if self.ranks > 1 and (self.rendezvous is None or self.secret_file is None):
            raise ValueError("rendezvous or secret_file is null, which a service of several ranks needs")
        if self.token is not None and self.secret_file is None:
            raise ValueError("secret_file is null, which the token is derived from")
        if self.rank == 0 and self.endpoint is None:
            raise ValueError("endpoint is null, which the head needs")

    @property
    def unit(self) -> str:
        return f"{self.container}.service"


def read_service(path: Path) -> Service:
    """ValueError with one sentence when the file is not what the plan writes."""
    try:
        return from_plan(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not as the plan writes it ({error}): run site.yml for this host again") from None


def from_plan(written: Any) -> Service:
    service: Service = typed.read(Service, written)
    return service


def read_key(path: str | None, form: str) -> str:
    """The API key in a file of this form (`Endpoint.key_form`); an empty string without a file."""
    if path is None:
        return ""
    as_text = "%t" in form
    before, _, after = (re.escape(part.strip()) for part in form.partition("%t" if as_text else "%s"))
    found = re.fullmatch(rf"{before}\s*(.+?)\s*{after}", Path(path).read_text(encoding="utf-8").strip(), re.DOTALL)
    if found is None:
        raise ValueError(f"{path} has no line `{form.strip().replace('%t', 'KEY').replace('%s', 'KEY')}`")
    return _text_key(found[1], path) if as_text else _key(found[1], path)


def _key(written: str, path: str) -> str:
    """The key itself is in no message."""
    try:
        key = json.loads(written)
    except ValueError:
        key = None
    if not isinstance(key, str) or not key:
        raise ValueError(f"{path} holds no key as a JSON text")
    return key


def _text_key(written: str, path: str) -> str:
    """A key that its engine reads as a line: one of several, or a comment, would be another one to it."""
    if len(written.splitlines()) != 1 or written.startswith("#"):
        raise ValueError(f"{path} holds no key as one line that does not begin with #")
    return written


def read_secret(path: str | None) -> bytes:
    """The group's secret; empty without a file. ValueError for one that can be guessed."""
    if path is None:
        return b""
    secret = Path(path).read_bytes().strip()
    if len(secret) < SECRET_BYTES:
        raise ValueError(f"{path} holds {len(secret)} bytes, a group's secret has {SECRET_BYTES} or more")
    return secret
