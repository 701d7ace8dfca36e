# SPDX-License-Identifier: GPL-3.0-or-later
"""How an engine is asked whether it serves: data, which its part of the plan writes and the supervisor follows.

What Kubernetes calls startup and readiness probe is `health` and `proof` here; its liveness probe is `metrics`, and
`proof` again where they are silent.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    """One POST. path: below the endpoint's URL. body: JSON. answer: keys and indexes that lead through the JSON reply
    to what the model computed: a number above 0, or a text or list that is not empty. sound_s: seconds of silence that
    are sent with it, as the file of a form whose fields the body is; 0 for a body that is sent as JSON."""

    path: str
    body: Mapping[str, Any]
    answer: Sequence[str | int]
    sound_s: float = 0.0

    def __post_init__(self) -> None:
        _check_path(self.path)


@dataclass(frozen=True)
class Metrics:
    """Names in the Prometheus text at a path. Several names, and several series of one name, are added up.

    tokens: all that moves while the engine computes. answered: generated tokens. running, waiting: requests. kv_use:
    the part of the KV cache in use, 0 to 1, of which the highest counts.
    """

    path: str
    tokens: Sequence[str]
    answered: Sequence[str]
    running: Sequence[str]
    waiting: Sequence[str]
    kv_use: Sequence[str]

    def __post_init__(self) -> None:
        _check_path(self.path)


@dataclass(frozen=True)
class Joined:
    """How to see, before `exec`, that all ranks are in. command: its words. pattern: one match (re.MULTILINE) a rank in
    what it prints. timeout_s: for all of them."""

    command: Sequence[str]
    pattern: str
    timeout_s: float

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"pattern {self.pattern!r} is no regular expression ({error})") from None


@dataclass(frozen=True)
class Requires:
    """What an image has to bring, asked before a launch. command: its words. pattern: one group, the version in what it
    prints. least: the version's first numbers. otherwise: what is wrong with an older one, and what to do."""

    command: Sequence[str]
    pattern: str
    least: Sequence[int]
    otherwise: str

    def __post_init__(self) -> None:
        try:
            groups = re.compile(self.pattern).groups
        except re.error as error:
            raise ValueError(f"pattern {self.pattern!r} is no regular expression ({error})") from None
        if groups != 1:
            raise ValueError(f"pattern {self.pattern!r} has {groups} groups, expected one for the version")


@dataclass(frozen=True)
class Others:
    """What the head's engine needs of the other ranks before it begins. port: of TCP, on each one's address in the
    group, which must take connections. timeout_s: for all of them."""

    port: int
    timeout_s: float


@dataclass(frozen=True)
class Probes:
    """health: the path that answers 200, without a key, once requests may come. proof: the smallest real request.
    metrics: None for an engine that has none, which then proves itself by `proof` alone. patience_s: one step of the
    engine may take so long; what stands still for longer is hung. exit_words: what an exit status means, by the status
    as text. shared_memory: what killed processes leave in /dev/shm, by the beginnings of names. joined: only with a
    further command (`serve`). requires: None where any image will do. others: None where the ranks wait for each other;
    else they are launched before the head, which waits for them. insist_s: for an engine that ends at once when it is
    asked a second time, seconds after the first; None where a second time means nothing, or harm.
    """

    health: str
    proof: Request
    metrics: Metrics | None
    patience_s: float = 300.0
    exit_words: Mapping[str, str] = field(default_factory=dict)
    shared_memory: Sequence[str] = ()
    joined: Joined | None = None
    requires: Requires | None = None
    others: Others | None = None
    insist_s: float | None = None

    def __post_init__(self) -> None:
        _check_path(self.health)
        if self.insist_s is not None and not self.insist_s > 0:
            raise ValueError(f"insist_s is {self.insist_s}, expected seconds above 0, or null")
        if not all(self.shared_memory):
            raise ValueError("shared_memory has an empty name, which every file's begins with")


def _check_path(path: str) -> None:
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is no path below the endpoint: it begins with /")
