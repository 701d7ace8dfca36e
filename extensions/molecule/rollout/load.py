# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Streams through the gateway without a pause, until standard input ends: ``load.py CA ADDRESS KEY CLIENTS TOKENS``,
and a model other than tiny.

Prints a JSON line for each answer: {status, tokens, whole, waited_ms, began, first_s, problem}. status: 0 for none;
tokens: that came; whole: all that were asked for came, and the stream's end; waited_ms: at the gateway, as its answer
says; began: when it was asked for, by this machine's clock; first_s: after how long its status came.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import sys
import threading
import time
from typing import Any

NAME = "llm.lab"
PACE_S = 0.1


class Connection(http.client.HTTPSConnection):
    """To an address, for a name that leads nowhere here."""

    def __init__(self, address: str, tls: ssl.SSLContext) -> None:
        super().__init__(NAME, timeout=1500, context=tls)
        self._address, self._tls = address, tls

    def connect(self) -> None:
        self.sock = self._tls.wrap_socket(socket.create_connection((self._address, 443), 60), server_hostname=NAME)
        self.sock.settimeout(1500)
        # whose other end is no more is noticed within seconds
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 6)):
            self.sock.setsockopt(socket.IPPROTO_TCP, option, value)


def ask(connection: Connection, key: str, tokens: int, model: str) -> dict[str, Any]:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": tokens,
        "stream": True,
        "vllm_xargs": {"token_seconds": PACE_S},
    }
    found: dict[str, Any] = {"status": 0, "tokens": 0, "whole": False, "waited_ms": 0, "problem": ""}
    found |= {"began": time.time(), "first_s": None}
    try:
        # without its type a body is refused by vLLM, not by the stand-in
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        found |= {"status": answer.status, "waited_ms": int(answer.headers.get("X-Gateway-Waited-Ms", 0))}
        found["first_s"] = time.time() - found["began"]
        text = answer.read().decode()
        found["tokens"] = text.count('"delta"')
        found["whole"] = found["tokens"] == tokens and text.endswith("data: [DONE]\n\n")
        found["problem"] = "" if found["whole"] else text[-300:]
    except (OSError, http.client.HTTPException) as problem:
        found["problem"] = repr(problem)
    finally:
        connection.close()
    return found


def main(ca: str, address: str, key: str, clients: str, tokens: str, model: str = "tiny") -> None:
    tls = ssl.create_default_context(cafile=ca)
    ends = threading.Event()

    def go() -> None:
        while not ends.is_set():
            found = ask(Connection(address, tls), key, int(tokens), model)
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()
            if found["status"] != 200:
                time.sleep(1)

    threads = [threading.Thread(target=go) for _ in range(int(clients))]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ends.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
