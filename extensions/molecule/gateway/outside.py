# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients of the gateway, run in the lab's network: ``outside.py TASK CA ADDRESS KEY`` prints what they saw as JSON."""

from __future__ import annotations

import json
import socket
import ssl
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import openai

NAME = "llm.lab"


def client(ca: str, key: str) -> openai.OpenAI:
    """OpenAI's own; each of its failures is one."""
    http = openai.DefaultHttpxClient(verify=ssl.create_default_context(cafile=ca))
    return openai.OpenAI(base_url=f"https://{NAME}/v1", api_key=key, http_client=http, max_retries=0, timeout=120)


def failure(ask: Callable[[], Any]) -> dict[str, Any]:
    """How OpenAI's client sees an error: the class that it raises, and what it read of the answer."""
    try:
        ask()
    except openai.APIStatusError as error:
        return {
            "kind": type(error).__name__,
            "status": error.status_code,
            "code": error.code,
            "message": error.message,
            "retry_after": error.response.headers.get("retry-after"),
            "type": error.response.headers.get("content-type"),
        }
    return {}


def chat(here: openai.OpenAI, model: str = "tiny", **others: Any) -> Any:
    messages = [{"role": "user", "content": "hello"}]
    return here.chat.completions.create(**{"model": model, "messages": messages, "max_tokens": 4, **others})


def uses(ca: str, key: str) -> dict[str, Any]:
    """The usual calls, and the usual errors."""
    here = client(ca, key)
    chunks = [one.choices[0].delta.content for one in chat(here, stream=True, max_tokens=16) if one.choices]
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * 20_000_000}"}}
    pictures = [{"role": "user", "content": [{"type": "text", "text": "what is this?"}, picture]}]
    return {
        "models": sorted(one.id for one in here.models.list()),
        "answer": chat(here).choices[0].message.content,
        "completion": here.completions.create(model="gpt-4o", prompt="hello", max_tokens=4).choices[0].text,
        "streamed": "".join(one for one in chunks if one),
        "wrong key": failure(lambda: chat(client(ca, "wrong-key-of-nobody-here"))),
        "unknown model": failure(lambda: chat(here, "none")),
        "pictures": failure(lambda: chat(here, messages=pictures)),
    }


def overload(ca: str, key: str) -> list[dict[str, Any]]:
    """What forty at once see while no engine computes: an empty map is an answer. A first line says that some of them
    were refused, upon which the engines may go on."""
    with ThreadPoolExecutor(40) as pool:
        asked = [pool.submit(failure, lambda: chat(client(ca, key))) for _ in range(40)]
        first = [one.result() for one, _ in zip(as_completed(asked), range(10), strict=False)]
        print(json.dumps(first), flush=True)
        return [one.result() for one in asked]


if __name__ == "__main__":
    task, authority, address, own_key = sys.argv[1:]
    look_up = socket.getaddrinfo
    # the name leads there; the lab has no DNS
    socket.getaddrinfo = lambda host, *rest, **others: look_up(address if host == NAME else host, *rest, **others)
    print(json.dumps({"uses": uses, "overload": overload}[task](authority, own_key)))
