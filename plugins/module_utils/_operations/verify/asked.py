# SPDX-License-Identifier: GPL-3.0-or-later
"""One question as a person asks it: the answer word by word, with the seconds that it took."""

import http.client
import json
import ssl
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from ..._base.received import Foreign, one_line, text_of
from ..._base.schema import Spec

_LIMIT_S = 300
_MOST_LINES, _MOST_LINE = 100_000, 1 << 16
FORM: Spec = {
    "type": "map",
    "options": {
        "answer": {"type": "str", "required": True},
        "first_s": {"type": "number", "required": True, "min": 0, "max": 1e6},
        "speed": {"type": "number", "nullable": True, "required": True, "min": 0, "max": 1e6},
    },
}


def request(example: Mapping[str, Any], question: str, most_tokens: int) -> dict[str, Any] | None:
    """The body of a question; None where the service is none that talks. example: the request of its proof."""
    body = {key: value for key, value in example["body"].items() if key in ("model", "messages", "prompt")}
    if "messages" in body:
        body["messages"] = [{"role": "user", "content": question}]
    elif "prompt" in body:
        body["prompt"] = question
    else:
        return None
    return {**body, "max_tokens": most_tokens, "stream": True, "stream_options": {"include_usage": True}}


def streamed(
    url: str, body: Mapping[str, object], key: str, tls: ssl.SSLContext | None
) -> tuple[Foreign, float, float, int]:
    """``(answer, seconds to its first token, seconds to its last, tokens)``. OSError, ValueError without an answer."""
    at = urlsplit(url)
    connection = http.client.HTTPConnection(str(at.hostname), at.port, timeout=_LIMIT_S)
    if tls:
        connection = http.client.HTTPSConnection(str(at.hostname), at.port, timeout=_LIMIT_S, context=tls)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    began = time.monotonic()
    try:
        connection.request("POST", at.path, json.dumps(body), headers)
        reply = connection.getresponse()
        if reply.status != 200:
            raise ValueError(f"HTTP {reply.status}: {one_line(text_of(reply.read(300)))}")
        lines = (reply.readline(_MOST_LINE) for _ in range(_MOST_LINES))
        return _read(lines, began)
    except http.client.HTTPException as problem:
        raise ValueError(f"it ended in the middle: {problem!r}") from problem
    finally:
        connection.close()


def _read(lines: Iterable[bytes], began: float) -> tuple[Foreign, float, float, int]:
    words: list[str] = []
    first = last = 0.0
    tokens = 0
    for line in lines:
        if not line or line.strip() == b"data: [DONE]":
            break
        event = json.loads(line[5:]) if line.startswith(b"data:") else {}
        tokens = (event.get("usage") or {}).get("completion_tokens") or tokens
        for choice in event.get("choices", ()):
            piece = choice.get("delta") or choice
            word = piece.get("content") or piece.get("text") or ""
            if word or piece.get("reasoning_content") or piece.get("reasoning"):
                last = time.monotonic() - began
                first = first or last
            words.append(word)
    if not first:
        raise ValueError("it answered without a word")
    return text_of("".join(words).encode("utf-8", "replace")), first, last, tokens
