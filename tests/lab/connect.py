# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ssh's ProxyCommand (with ProxyUseFdpass): a TCP connection made inside the lab's network, handed over when open.

``python3 -m lab.connect DIRECTORY ADDRESS PORT``. No relay stays behind, and the machine's network knows nothing of it.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from .kernel import inside_network
from .workspace import Running, Workspace

_SECONDS = 10


def connect(running: Running, address: str, port: int, seconds: float = _SECONDS) -> socket.socket:
    with running.network() as network, inside_network(network):
        return socket.create_connection((address, port), seconds)


def main(directory: str, address: str, port: str) -> int:
    running = Running.find(Workspace(Path(directory)).state)
    if running is None:
        print(f"the lab in {directory} is not up: lab -d {directory} up", file=sys.stderr)
        return 1
    try:
        connection = connect(running, address, int(port))
    except OSError as error:
        print(f"no connection to {address} port {port} in the lab: {error.strerror or error}", file=sys.stderr)
        return 1
    connection.settimeout(None)
    with socket.socket(fileno=1) as ssh:
        socket.send_fds(ssh, [b"\0"], [connection.fileno()])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
