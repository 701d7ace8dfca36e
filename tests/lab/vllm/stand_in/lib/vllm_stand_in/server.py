# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The routes of the OpenAI API server that a fleet's tools ask, with the real one's answers and errors."""

from __future__ import annotations

import hmac
import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from . import middleware
from .metrics import Metrics

# vllm/entrypoints/serve/middleware/authenticate.py: what lies elsewhere asks for no key, /invocations among it.
GUARDED = ("/v1", "/v2", "/inference", "/cohere")
_DEFAULT_TOKENS = 16
# Of a prompt, that many at a time; and what the KV cache holds.
_CHUNK, _POOL = 128, 65_536
_KV_GAUGE = "vllm:kv_cache_usage_perc"
_ANSWER = "This is a stand-in, not a model. "


class Engine(Protocol):
    @property
    def alive(self) -> bool: ...

    def compute(self, tokens: int) -> bool:
        """False: the engine died of it, or before."""


@dataclass(frozen=True)
class Service:
    """What the routes need to know."""

    release: str
    names: Sequence[str]
    root: str
    max_model_len: int
    tensor_parallel: int
    keys: Sequence[str]
    engine: Engine
    metrics: Metrics
    middleware: Sequence[Any] = ()
    pace_s: float = 0.0

    @property
    def fingerprint(self) -> str:
        """With more than one rank the real one names the number."""
        ranks = f"-tp{self.tensor_parallel}" if self.tensor_parallel > 1 else ""
        return f"vllm-{self.release}{ranks}-stand-in"


class RequestError(Exception):
    def __init__(self, status: int, kind: str, message: str, parameter: str | None = None) -> None:
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": parameter, "code": status}}
        super().__init__(message)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], service: Service, bind_and_activate: bool = True) -> None:
        self.service = service
        super().__init__(address, Handler, bind_and_activate)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        service = self.server.service
        path = self.path.partition("?")[0]
        if self._refused(path):
            return
        match path:
            case "/health" | "/ping":
                self._send(200 if service.engine.alive else 503, b"")
            case "/version":
                self._send(200, {"version": service.release})
            case "/metrics":
                self._send(200, service.metrics.text().encode(), "text/plain; version=0.0.4; charset=utf-8")
            case "/v1/models":
                self._send(200, {"object": "list", "data": [_card(service, name) for name in service.names]})
            case "/v1/chat/completions" | "/v1/completions" | "/invocations":
                self._send(405, {"detail": "Method Not Allowed"})
            case _:
                self._send(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        if self._refused(path):
            return
        try:
            if path in ("/v1/chat/completions", "/v1/completions", "/invocations"):
                self._complete(content, chat=path.endswith("/chat/completions"))
            elif path in ("/health", "/version", "/metrics", "/v1/models"):
                self._send(405, {"detail": "Method Not Allowed"})
            else:
                self._send(404, {"detail": "Not Found"})
        except RequestError as error:
            self._send(error.status, error.body)

    def _refused(self, path: str) -> bool:
        """Whether the request was answered without asking the model."""
        answer = middleware.refusal(self.server.service.middleware, self.command, path, dict(self.headers))
        if answer is not None:
            self._send(*answer)
        elif not self._authorised(path):
            self._send(401, {"error": "Unauthorized"})
        else:
            return False
        return True

    def _authorised(self, path: str) -> bool:
        keys = self.server.service.keys
        if not keys or not path.startswith(GUARDED):
            return True
        scheme, _, token = (self.headers.get("authorization") or "").partition(" ")
        return scheme.lower() == "bearer" and any(hmac.compare_digest(token.encode(), key.encode()) for key in keys)

    def _complete(self, content: bytes, chat: bool) -> None:
        service = self.server.service
        if self.headers.get_content_type() != "application/json":
            message = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
            raise RequestError(400, "Bad Request", message)
        asked = _asked(content)
        if asked.get("model", service.names[0]) not in service.names:
            known = ", ".join(service.names)
            message = f"The model `{asked['model']}` does not exist. Valid aliases: {known}."
            raise RequestError(404, "NotFoundError", message, "model")
        prompt, limit = _counted(asked, "messages" if chat else "prompt", service.max_model_len)
        wished = asked.get("vllm_xargs") or {}
        pace_s = float(wished.get("token_seconds", service.pace_s))
        for series in wished.keys() - {"token_seconds"}:
            service.metrics.add(series, float(wished[series]))
        service.metrics.add("vllm:num_requests_running")
        self._chunks = 0
        try:
            self._answer(asked, (prompt, limit), pace_s, chat)
        finally:
            service.metrics.add("vllm:num_requests_running", -1)
            service.metrics.add(_KV_GAUGE, -self._chunks * _CHUNK / _POOL)

    def _answer(self, asked: dict[str, Any], counted: tuple[int, int], pace_s: float, chat: bool) -> None:
        service, (prompt, limit) = self.server.service, counted
        self._prefill(prompt)
        # what is paced is computed token by token, what is not all at once
        if not pace_s:
            self._compute(limit)
        service.metrics.add("vllm:prompt_tokens_total", prompt)
        service.metrics.add("vllm:generation_tokens_total", 0 if pace_s else limit)
        usage = {"prompt_tokens": prompt, "total_tokens": prompt + limit, "completion_tokens": limit}
        answer = {"id": f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex[:16]}", "created": int(time.time())}
        answer |= {"model": service.names[0], "system_fingerprint": service.fingerprint}
        text = (_ANSWER * (limit // len(_ANSWER) + 1))[:limit]
        if asked.get("stream"):
            self._stream(answer, text, usage, chat, pace_s)
        else:
            for _letter in text:
                self._step(pace_s)
            reply_part = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            choice = {"index": 0, **reply_part, "logprobs": None, "finish_reason": "length"}
            kind = "chat.completion" if chat else "text_completion"
            service.metrics.add("vllm:request_success_total length")
            self._send(200, {**answer, "object": kind, "choices": [choice], "usage": usage})

    def _prefill(self, tokens: int) -> None:
        """As the real one: the gauge moves with each chunk, and no token is counted before the last."""
        for start in range(0, tokens, _CHUNK):
            self._compute(min(_CHUNK, tokens - start))
            self.server.service.metrics.add(_KV_GAUGE, _CHUNK / _POOL)
            self._chunks += 1

    def _step(self, pace_s: float) -> None:
        """One token of an answer that is paced: a step of the engine, counted when it is done."""
        if pace_s:
            time.sleep(pace_s)
            self._compute(1)
            self.server.service.metrics.add("vllm:generation_tokens_total")

    def _compute(self, tokens: int) -> None:
        if not self.server.service.engine.compute(tokens):
            raise RequestError(500, "InternalServerError", "EngineCore encountered an issue. See stack trace (above).")

    def _stream(self, answer: dict[str, Any], text: str, usage: dict[str, int], chat: bool, pace_s: float) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        answer["object"] = "chat.completion.chunk" if chat else "text_completion"
        try:
            for position, letter in enumerate(text, start=1):
                self._step(pace_s)
                reply_part = {"delta": {"content": letter}} if chat else {"text": letter}
                reason = "length" if position == len(text) else None
                self._event({**answer, "choices": [{"index": 0, **reply_part, "finish_reason": reason}]})
            self._event({**answer, "choices": [], "usage": usage})
            self.server.service.metrics.add("vllm:request_success_total length")
        except RequestError as error:
            # the real one's stream ends with the error, and then as others do
            self._event(error.body)
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, data: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(data).encode() + b"\n\n")

    def _send(self, status: int, body: dict[str, Any] | bytes, kind: str = "application/json") -> None:
        content = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        self.send_response(status)
        if content:
            self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, _format: str, *details: Any) -> None:
        status = details[1] if len(details) > 1 else ""
        print(
            f'INFO:     {self.client_address[0]}:{self.client_address[1]} - "{self.requestline}" {status}', flush=True
        )


def _card(service: Service, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "vllm",
        "root": service.root,
        "parent": None,
        "max_model_len": service.max_model_len,
    }


def _asked(content: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(content)
    except ValueError as error:
        raise RequestError(400, "Bad Request", f"1 validation error:\n  JSON decode error: {error}", "body") from None
    if not isinstance(asked, dict):
        raise RequestError(400, "Bad Request", "1 validation error:\n  Input should be a valid dictionary", "body")
    return asked


def _counted(asked: dict[str, Any], field: str, longest: int) -> tuple[int, int]:
    """Tokens of the prompt (a byte each, as the tiny model counts) and of the answer; refuses what can't fit."""
    if field not in asked:
        message = f"1 validation error:\n  {{'type': 'missing', 'loc': 'body.{field}', 'msg': 'Field required'}}"
        raise RequestError(400, "Bad Request", message, f"body.{field}")
    prompt = len(json.dumps(asked[field]).encode())
    limit = asked.get("max_completion_tokens") or asked.get("max_tokens") or _DEFAULT_TOKENS
    if not isinstance(limit, int) or limit > longest:
        message = (
            f"max_tokens={limit} cannot be greater than max_model_len={longest}. Please request fewer output tokens."
        )
        raise RequestError(400, "BadRequestError", message, "max_tokens")
    if prompt + limit > longest:
        message = (
            f"This model's maximum context length is {longest} tokens. However, your prompt contains at least {prompt}"
        )
        raise RequestError(400, "BadRequestError", f"{message} input tokens.", "input_tokens")
    return prompt, limit
