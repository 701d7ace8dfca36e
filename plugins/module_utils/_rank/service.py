# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The plan's file of one rank (`/etc/gb10-fleet/services/NAME.json`), as data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECRET_BYTES = 32


@dataclass(frozen=True)
class Limits:
    """Seconds, and counts.

    startup_limit_s: a load may go so long without any progress. stop_s: from `docker stop` to the kill. canary_s:
    between two looks at a serving endpoint, and how long a canary may take. strikes: bad looks in a row that end an
    epoch. starts, within_s: the restart budget.
    """

    startup_limit_s: float
    stop_s: float
    canary_s: float
    strikes: int
    starts: int
    within_s: float


@dataclass(frozen=True)
class Endpoint:
    """The API as the head reaches it. kind: chat or embed. key_file: in vLLM's --config form; None without a key."""

    url: str
    model: str
    kind: str
    key_file: str | None


@dataclass(frozen=True)
class Request:
    """One POST to the endpoint: the path below its URL, and the JSON body."""

    path: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Service:
    """One rank of a service.

    run: the `docker run` words, in the foreground. serve: words that begin to serve once all Ray nodes are in, or None.
    head, port: where the head meets the other ranks; both None for a service of one rank. peers: the other ranks'
    addresses, by rank. definition: equal on all ranks of one plan. gids: (RDMA device, IPv4 address). ports: TCP ports
    that must be free before a start. warm_up: what takes compilation on itself before clients come.
    """

    name: str
    rank: int
    ranks: int
    container: str
    run: Sequence[str]
    serve: Sequence[str] | None
    head: str | None
    port: int | None
    peers: Sequence[str]
    definition: str
    secret_file: str | None
    endpoint: Endpoint | None
    gids: Sequence[tuple[str, str]]
    memory_bytes: int
    ports: Sequence[int]
    limits: Limits
    warm_up: Sequence[Request]

    @property
    def unit(self) -> str:
        return f"gb10-vllm-{self.name}.service"


def read_service(path: Path) -> Service:
    """ValueError with one sentence when the file is not what the plan writes."""
    try:
        return from_plan(json.loads(path.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not as the plan writes it ({error!r}): run site.yml for this host again") from None


def from_plan(written: Mapping[str, Any]) -> Service:
    meeting = written["rendezvous"] or {"address": None, "port": None}
    limits, budget = written["limits"], written["limits"]["budget"]
    endpoint = written["endpoint"]
    return Service(
        name=written["service"],
        rank=written["rank"],
        ranks=written["ranks"],
        container=written["container"],
        run=[*written["run"]],
        serve=written["serve"],
        head=meeting["address"],
        port=meeting["port"],
        peers=[*written["peers"]],
        definition=written["definition"],
        secret_file=written["secret_file"],
        endpoint=Endpoint(**endpoint) if endpoint else None,
        gids=[(gid["device"], gid["address"]) for gid in written["gids"] or ()],
        memory_bytes=written["memory_bytes"],
        ports=[*written["ports"]],
        limits=Limits(
            startup_limit_s=limits["startup_limit_s"],
            stop_s=limits["stop_s"],
            canary_s=limits["canary_s"],
            strikes=limits["strikes"],
            starts=budget["starts"],
            within_s=budget["within_s"],
        ),
        warm_up=[Request(**one) for one in written["warm_up"]],
    )


def read_key(path: str | None) -> str:
    """The API key in a file of vLLM's --config form; an empty string without a file."""
    if path is None:
        return ""
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        name, _colon, value = line.partition(":")
        if name.strip() == "api-key":
            return _key(value, path)
    raise ValueError(f"{path} has no line `api-key: KEY`")


def _key(written: str, path: str) -> str:
    """The key itself is in no message."""
    try:
        key = json.loads(written)
    except ValueError:
        key = None
    if not isinstance(key, str) or not key:
        raise ValueError(f"{path} holds no key as a JSON text")
    return key


def read_secret(path: str | None) -> bytes:
    """The group's secret; empty without a file. ValueError for one that can be guessed."""
    if path is None:
        return b""
    secret = Path(path).read_bytes().strip()
    if len(secret) < SECRET_BYTES:
        raise ValueError(f"{path} holds {len(secret)} bytes, a group's secret has {SECRET_BYTES} or more")
    return secret
