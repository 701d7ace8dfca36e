# SPDX-License-Identifier: GPL-3.0-or-later
"""The service's API as its own head sees it: a real answer, and the counters."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import judge
from .client import Reply, fetch
from .probes import Metrics, Request


@dataclass(frozen=True)
class Answer:
    """ok: the model computed something, `computed`. error: why not. final: asking again will not help. busy: no answer
    in time, or it takes no more requests now."""

    ok: bool
    error: str = ""
    final: bool = False
    computed: Any = None
    busy: bool = False

    @property
    def canary(self) -> judge.Canary:
        return "answered" if self.ok else "silent" if self.busy else "refused"


@dataclass(frozen=True)
class Access:
    """url: of the API. key: what it asks for, empty for none. tls: what its certificate is known by, None without."""

    url: str
    key: str
    tls: ssl.SSLContext | None = None


def is_healthy(access: Access, path: str, timeout_s: float) -> bool:
    """Asked without the key, which nobody checks there."""
    return fetch(access.url + path, "", timeout_s, tls=access.tls).status == 200


def ask(access: Access, request: Request, timeout_s: float) -> Answer:
    """One real request to the endpoint."""
    url, body = access.url + request.path, request.body
    return judged(request.answer, fetch(url, access.key, timeout_s, body, request.sound_s, access.tls))


def status_without_key(access: Access, request: Request, timeout_s: float) -> int:
    """Of the same request from somebody who has no key; 0 without an answer."""
    return fetch(access.url + request.path, "", timeout_s, request.body, request.sound_s, access.tls).status


def judged(path: Sequence[str | int], reply: Reply) -> Answer:
    """Something was computed: nothing less shows that the ranks compute. path: `probes.Request.answer`."""
    if reply.status != 200:
        final = 400 <= reply.status < 500 and reply.status not in (408, 425, 429)
        message = f"HTTP {reply.status}: {reply.shown}" if reply.status else reply.shown
        return Answer(False, message, final, busy=reply.late or reply.is_full)
    try:
        computed: Any = reply.document()
        for step in path:
            computed = computed[step]
    except (KeyError, IndexError, TypeError, ValueError):
        return Answer(False, f"a reply without an answer: {reply.shown}")
    return Answer(True, computed=computed) if computed else Answer(False, f"an answer of nothing: {reply.shown}")


def metrics(access: Access, names: Metrics, timeout_s: float) -> judge.Metrics | None:
    """None when the server gives none."""
    reply = fetch(access.url + names.path, access.key, timeout_s, tls=access.tls)
    return judge.parse_metrics(reply.read(), names) if reply.status == 200 else None
