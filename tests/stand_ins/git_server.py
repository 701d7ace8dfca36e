# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repositories below a folder over https, by git's own server program: ``git_server.py FOLDER ADDRESS PORT PEM``."""

from __future__ import annotations

import http.server
import os
import ssl
import subprocess
import sys
from pathlib import Path


def certificate(path: Path, name: str) -> Path:
    """A PEM file with a key and a certificate of its own for an address."""
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=git"]
    made += ["-addext", f"subjectAltName=IP:{name}", "-keyout", f"{path}.key", "-out", f"{path}.crt"]
    subprocess.run(made, check=True, capture_output=True)
    path.write_bytes(Path(f"{path}.key").read_bytes() + Path(f"{path}.crt").read_bytes())
    return path


def server(folder: Path, address: str, port: int, pem: Path) -> http.server.ThreadingHTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def answer(self) -> None:
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            own = {
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "CONTENT_LENGTH": str(len(body)),
            }
            done = subprocess.run(
                ["git", "http-backend"], input=body, env=os.environ | own, capture_output=True, check=True
            )
            heading, _, content = done.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in heading.decode().splitlines())
            self.send_response(int(fields.pop("Status", "200").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer  # noqa: N815 - http.server's names

    one = http.server.ThreadingHTTPServer((address, port), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    one.socket = context.wrap_socket(one.socket, server_side=True)
    return one


if __name__ == "__main__":
    server(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])).serve_forever()
