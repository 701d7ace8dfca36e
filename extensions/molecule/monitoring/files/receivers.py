# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom an owner has alerts sent to: a webhook, ntfy and a mail server, which keep what comes.

/run/receivers/hooks has a line of JSON for each request, ``[path, body]``; /run/receivers/mails each mail as it came.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

FOLDER = Path("/run/receivers")


class Hooks(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with (FOLDER / "hooks").open("a") as file:
            print(json.dumps([self.path, body]), file=file)
        self.send_response(200)
        self.end_headers()


class Mails(StreamRequestHandler):
    """RFC 5321, as far as one sender goes."""

    def handle(self) -> None:
        self._reply("220 receivers")
        while line := self.rfile.readline().strip():
            if line == b"DATA":
                self._reply("354 go on")
                with (FOLDER / "mails").open("ab") as file:
                    while (part := self.rfile.readline()) != b".\r\n":
                        file.write(part)
            self._reply("250 yes")
            if line == b"QUIT":
                return

    def _reply(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    threading.Thread(target=ThreadingTCPServer(("127.0.0.1", 2525), Mails).serve_forever).start()
    ThreadingHTTPServer(("127.0.0.1", 9999), Hooks).serve_forever()
