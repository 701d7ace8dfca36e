# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ProxyCommand of ssh that counts: bytes to the host, and round trips (the client sends after the server sent).

``python3 -m bench.relay LAB ADDRESS PORT FOLDER``; the counts lie in FOLDER, one JSON file a connection. Without a lab
(an empty word) the address is one of this machine's network.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
from pathlib import Path

from lab.connect import connect
from lab.workspace import Running, Workspace


def main(lab: str, address: str, port: str, folder: str) -> None:
    server = _of_lab(lab, address, int(port)) if lab else socket.create_connection((address, int(port)))
    server.settimeout(None)
    file = Path(folder) / f"{address}-{os.getpid()}.json"
    counts = {"address": address, "bytes": 0, "trips": 0}
    server_spoke = True
    choose = selectors.DefaultSelector()
    choose.register(0, selectors.EVENT_READ)
    choose.register(server, selectors.EVENT_READ)
    while True:
        for key, _ in choose.select():
            if key.fd == 0:
                if not (data := os.read(0, 1 << 16)):
                    return
                server.sendall(data)
                counts["bytes"] += len(data)
                counts["trips"] += server_spoke
                server_spoke = False
                # whole: who counts may read at any time
                file.with_suffix(".part").write_text(json.dumps(counts))
                file.with_suffix(".part").replace(file)
            else:
                if not (data := server.recv(1 << 16)):
                    return
                server_spoke = True
                while data:
                    data = data[os.write(1, data) :]


def _of_lab(lab: str, address: str, port: int) -> socket.socket:
    running = Running.find(Workspace(Path(lab)).state)
    assert running, f"no lab is up in {lab}"
    return connect(running, address, port)


if __name__ == "__main__":
    main(*sys.argv[1:])
