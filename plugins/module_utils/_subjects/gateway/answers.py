# SPDX-License-Identifier: GPL-3.0-or-later
"""What both processes of a gateway share: their own answers, in the form of OpenAI's errors, and how long they wait."""

import json
from collections.abc import Iterable

from .backends import Backend

# For a whole body.
BODY = "60s"
# Lines of `defaults` in both configurations.
SHARED = """\
    timeout connect 2s
    timeout http-keep-alive 60s
    timeout queue 2m
    # silence, and not length: a long prefill says nothing, a stream may go on for hours
    timeout server 1h
"""


# 20 MB of pictures are 27 MB in base64, and the words around them.
MOST_BODY = 32 << 20


def answer(status: int, code: str, message: str) -> str:
    """An answer in the form of OpenAI's errors, as words of ``http-request return``."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    body = json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})
    return f"status {status} content-type application/json string {quoted(body)}"


def no_model(offered: Iterable[Backend]) -> str:
    """The answer to a request for a model that nobody serves."""
    names = ", ".join(sorted(name for backend in offered for name in backend.names)) or "none"
    words = f"no such model; there are: {names}. Where a request is no JSON, name it by the header X-Model"
    return answer(404, "model_not_found", words)


def quoted(text: str) -> str:
    """A word of HAProxy's configuration: between single quotes nothing has a meaning but a single quote."""
    return "'" + text.replace("'", "'\\''") + "'"


# What both processes say.
TOO_LARGE = answer(413, "request_too_large", f"a request may have {MOST_BODY >> 20} MiB; send less at once")
UNFINISHED = answer(408, "request_timeout", "the request did not come to its end in time; send it again")
