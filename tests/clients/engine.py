# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An imitation of vLLM's chat for programs that mind how an answer ends: it ends by itself, after one sentence.

The lab's stand-in counts a byte as a token and always ends by `max_tokens`, which an agent takes for a cut answer. Here
four bytes are a token; a prompt and `max_tokens` that exceed the context together are refused, as vLLM does.
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "This is an imitation, not a model."
KEY, CONTEXT, PAUSE_S = "key-of-the-engine", 65536, 0.2
_FIXED: dict[str, Any] = {"id": "chatcmpl-1", "created": 1, "model": "coder"}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(200 if self.path == "/health" else 404, {})

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        asked = json.loads(content)
        needed = len(content) // 4 + (asked.get("max_completion_tokens") or asked.get("max_tokens") or 1)
        if self.headers["authorization"] != f"Bearer {KEY}":
            self.answer(401, {"error": "Unauthorized"})
        elif needed > CONTEXT:
            message = f"This model's maximum context length is {CONTEXT} tokens. You requested {needed}."
            self.answer(400, {"error": {"message": message, "type": "BadRequestError", "code": 400}})
        elif asked.get("stream"):
            self.stream()
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
            self.answer(200, {**_FIXED, "object": "chat.completion", "choices": [choice]})

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        words = ANSWER.split(" ")
        deltas: list[dict[str, Any]] = [{"content": word + " " * (word != words[-1])} for word in words]
        for delta in (*deltas, {}):
            choice = {"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}
            chunk = {**_FIXED, "object": "chat.completion.chunk", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            time.sleep(PAUSE_S)
        self.wfile.write(b"data: [DONE]\n\n")

    def answer(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
