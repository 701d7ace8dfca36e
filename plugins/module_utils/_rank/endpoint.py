# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The service's API as its own head sees it: a real answer, and the counters."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import judge
from .probes import Metrics, Request


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like another: the key goes where the plan says and nowhere else."""

    def redirect_request(self, *_arguments: Any) -> None:
        return None


# An owner's proxy is for the world outside, not for this host's own service.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())
_REPLY_BYTES = 16 << 20


@dataclass(frozen=True)
class Answer:
    """ok: the model computed something. error: why not. final: asking again will not help."""

    ok: bool
    error: str = ""
    final: bool = False


@dataclass(frozen=True)
class Reply:
    """status 0: there was none, with the reason as text."""

    status: int
    text: str


def fetch(url: str, key: str, timeout_s: float, body: Mapping[str, Any] | None = None) -> Reply:
    """GET, or POST of a JSON body; never raises for what a server or the network does."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    asked = urllib.request.Request(url, json.dumps(body).encode() if body is not None else None, headers)
    try:
        with _OPENER.open(asked, timeout=timeout_s) as reply:
            return Reply(reply.status, reply.read(_REPLY_BYTES).decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.read(_REPLY_BYTES).decode("utf-8", "replace"))
    except (OSError, http.client.HTTPException) as error:
        return Reply(0, str(getattr(error, "reason", error)) or type(error).__name__)


def is_healthy(url: str, timeout_s: float) -> bool:
    """Asked without the key, which nobody checks there."""
    return fetch(url, "", timeout_s).status == 200


def ask(url: str, key: str, request: Request, timeout_s: float) -> Answer:
    """One real request to the endpoint."""
    return judged(request.answer, fetch(url + request.path, key, timeout_s, request.body))


def judged(path: Sequence[str | int], reply: Reply) -> Answer:
    """Something was computed: nothing less shows that the ranks compute. path: `probes.Request.answer`."""
    if reply.status != 200:
        final = 400 <= reply.status < 500 and reply.status not in (408, 425, 429)
        message = f"HTTP {reply.status}: {reply.text[:300]}" if reply.status else reply.text
        return Answer(False, message, final)
    try:
        computed: Any = json.loads(reply.text)
        for step in path:
            computed = computed[step]
    except (KeyError, IndexError, TypeError, ValueError):
        return Answer(False, f"a reply without an answer: {reply.text[:300]}")
    return Answer(True) if computed else Answer(False, f"an answer of nothing: {reply.text[:300]}")


def metrics(url: str, key: str, names: Metrics, timeout_s: float) -> judge.Metrics | None:
    """None when the server gives none."""
    reply = fetch(url + names.path, key, timeout_s)
    return judge.parse_metrics(reply.text, names) if reply.status == 200 else None
