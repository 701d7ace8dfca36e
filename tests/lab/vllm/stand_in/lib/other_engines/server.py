# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP server of a stand-in: health, metrics, models and chat completions of the OpenAI API."""

from __future__ import annotations

import hmac
import json
import ssl
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_ANSWER = "This is a stand-in, not a model. "


@dataclass
class Service:
    """name: the model's for clients. key: empty for none. open_paths: beginnings that ask for no key. health: paths.
    metrics: its path. series: of the metrics, with the labels, by (prompted, generated, running)."""

    name: str
    key: str
    open_paths: tuple[str, ...]
    health: tuple[str, ...]
    metrics: str
    series: dict[str, str]
    ready: threading.Event = field(default_factory=threading.Event)
    lost: threading.Event = field(default_factory=threading.Event)
    counts: Counter[str] = field(default_factory=Counter)

    def text(self) -> str:
        return "".join(f"{series} {float(self.counts[what])}\n" for series, what in self.series.items())


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], service: Service) -> None:
        self.service = service
        super().__init__(address, _Handler)

    def encrypt(self, certificate: str, key: str) -> None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate, key)
        self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        service, path = self.server.service, self.path.partition("?")[0]
        if not self._may_pass(path):
            self._send(401, {"error": "Unauthorized"})
        elif path in service.health:
            self._send(200 if service.ready.is_set() and not service.lost.is_set() else 503, b"")
        elif path == service.metrics:
            self._send(200, service.text().encode(), "text/plain; version=0.0.4")
        elif path == "/v1/models":
            self._send(200, {"object": "list", "data": [{"id": service.name, "object": "model"}]})
        else:
            self._send(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        if not self._may_pass(path):
            self._send(401, {"error": "Unauthorized"})
        elif path != "/v1/chat/completions":
            self._send(404, {"detail": "Not Found"})
        elif self.server.service.lost.is_set():
            self._send(500, {"error": {"message": "a rank was lost"}})
        else:
            self._complete(json.loads(content))

    def _complete(self, asked: dict[str, Any]) -> None:
        service = self.server.service
        prompt, limit = len(json.dumps(asked["messages"])), int(asked.get("max_tokens") or 16)
        service.counts["prompted"] += prompt
        service.counts["generated"] += limit
        text = (_ANSWER * (limit // len(_ANSWER) + 1))[:limit]
        usage = {"prompt_tokens": prompt, "completion_tokens": limit, "total_tokens": prompt + limit}
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "length"}
        answer = {"id": uuid.uuid4().hex, "object": "chat.completion", "created": int(time.time())}
        self._send(200, {**answer, "model": service.name, "choices": [choice], "usage": usage})

    def _may_pass(self, path: str) -> bool:
        service = self.server.service
        if not service.key or path.startswith(service.open_paths):
            return True
        scheme, _, token = (self.headers.get("authorization") or "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.encode(), service.key.encode())

    def _send(self, status: int, body: dict[str, Any] | bytes, kind: str = "application/json") -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, _format: str, *details: Any) -> None:
        """The real ones print a line a request; a stand-in's are of no use to anybody."""
