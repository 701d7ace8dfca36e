# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The service's API as its own head sees it: a real answer, and the counters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import judge
from .client import Reply, fetch
from .probes import Metrics, Request


@dataclass(frozen=True)
class Answer:
    """ok: the model computed something, `computed`. error: why not. final: asking again will not help."""

    ok: bool
    error: str = ""
    final: bool = False
    computed: Any = None


def is_healthy(url: str, timeout_s: float) -> bool:
    """Asked without the key, which nobody checks there."""
    return fetch(url, "", timeout_s).status == 200


def ask(url: str, key: str, request: Request, timeout_s: float) -> Answer:
    """One real request to the endpoint."""
    return judged(request.answer, fetch(url + request.path, key, timeout_s, request.body, request.sound_s))


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
    return Answer(True, computed=computed) if computed else Answer(False, f"an answer of nothing: {reply.text[:300]}")


def metrics(url: str, key: str, names: Metrics, timeout_s: float) -> judge.Metrics | None:
    """None when the server gives none."""
    reply = fetch(url + names.path, key, timeout_s)
    return judge.parse_metrics(reply.text, names) if reply.status == 200 else None
