# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An imitation of Open WebUI and of Hermes' API: what `gateway_ready` asks, answered by the gateway as they do."""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

KIND = sys.argv[1]
if KIND == "hermes":
    SETTINGS = json.loads(Path("/opt/data/config.yaml").read_text("utf-8"))  # which is YAML, too
    GATEWAY = SETTINGS["providers"]["fleet"]["base_url"]
    KEY = os.environ[SETTINGS["providers"]["fleet"]["key_env"]]
    PORT = int(os.environ["API_SERVER_PORT"])
else:
    GATEWAY, KEY, PORT = os.environ["OPENAI_API_BASE_URL"], os.environ["OPENAI_API_KEY"], 8080


def asked(path: str, body: Any = None) -> Any:
    """Of the gateway, whose certificate is proved by what SSL_CERT_FILE names."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(GATEWAY + path, data, headers)
    with urllib.request.urlopen(request, timeout=60, context=ssl.create_default_context()) as reply:
        return json.load(reply)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer(200, {})
        elif not self.knows():
            self.answer(401, {})
        else:
            self.answer(200, asked("/models"))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/api/v1/auths/signin":
            good = (os.environ["WEBUI_ADMIN_EMAIL"], os.environ["WEBUI_ADMIN_PASSWORD"])
            is_known = (body["email"], body["password"]) == good
            self.answer(200 if is_known else 400, {"token": "signed-in"} if is_known else {})
        elif not self.knows():
            self.answer(401, {})
        else:
            model = SETTINGS["model"]["default"] if KIND == "hermes" else body["model"]
            self.answer(200, asked("/chat/completions", {**body, "model": model, "max_tokens": 8}))

    def knows(self) -> bool:
        key = "signed-in" if KIND == "open-webui" else os.environ["API_SERVER_KEY"]
        return self.headers.get("authorization") == f"Bearer {key}"

    def answer(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


ThreadingHTTPServer(("0.0.0.0", PORT), Handler).serve_forever()
