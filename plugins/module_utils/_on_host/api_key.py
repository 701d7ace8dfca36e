# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks for the API key on every route of vLLM but /health.

vLLM's own check guards paths by their beginning (/v1, /v2, /inference); /invocations, /tokenize, /metrics, /pause and
others answer anybody (vllm/entrypoints/serve/middleware/authenticate.py). This file is mounted into the container, and
vLLM loads it by its option --middleware. Standard library only: which Python the image brings is not known.
"""

import hmac
import json
from pathlib import Path
from typing import Any

KEY_FILE = Path("/run/secrets/vllm.yaml")
OPEN = ("/health",)
_UNAUTHORIZED = json.dumps({"error": "Unauthorized"}).encode()


def read_key(file: Path) -> bytes:
    """The key in a file of vLLM's --config form, written as JSON; without one vLLM must not come up."""
    for line in file.read_text(encoding="utf-8").splitlines():
        name, _colon, value = line.partition(":")
        if name.strip() == "api-key" and value.strip():
            return _text(value, file).encode()
    raise ValueError(f"{file} has no line `api-key: KEY`")


def _text(written: str, file: Path) -> str:
    """The key itself is in no message."""
    try:
        key = json.loads(written)
    except ValueError:
        key = None
    if not isinstance(key, str) or not key:
        raise ValueError(f"{file} holds no key as a JSON text")
    return key


class KeyOnEveryRoute:
    """ASGI middleware (https://asgi.readthedocs.io): passes a request on, or answers 401 as vLLM does."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._key = read_key(KEY_FILE)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket") or self._may_pass(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(_UNAUTHORIZED)).encode())]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": _UNAUTHORIZED})

    def _may_pass(self, scope: Any) -> bool:
        if scope["path"] in OPEN or _is_preflight(scope):
            return True
        given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        return len(given) == 1 and self._is_key(given[0])

    def _is_key(self, header: bytes) -> bool:
        scheme, _space, token = header.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token, self._key)


def _is_preflight(scope: Any) -> bool:
    """A browser's question whether it may send the key, which vLLM's CORS layer answers itself. An OPTIONS without
    both headers would reach the route (Starlette, CORSMiddleware)."""
    if scope.get("method") != "OPTIONS":
        return False
    names = {name.lower() for name, _value in scope["headers"]}
    return {b"origin", b"access-control-request-method"} <= names
