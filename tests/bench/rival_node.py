# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One process of `bench.rivals`: our peer server over TCP, a host that receives from such servers, or a tracker.

``serve FOLDER PORT [blob|layer FILE]``; ``receive FOLDER SHA256 ADDRESS,... [OLD LAYER]``; ``track PORT``.
"""

from __future__ import annotations

import os
import socket
import socketserver
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ansible_collections.gb10.fleet.plugins.module_utils._base.staging import Progress
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.docker import Docker
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.contents import Contents
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.server import serve
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.fetch import Transfer, Wish
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.parts import cut_tar
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.peer import Connection, Peer
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.places import Places
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.route import Route

from .rivals import PORT, bencode, digest

_STREAMS = 4
# Joins a connection to a peer's port with standard input and output, as ssh does.
_JOIN = "exec 3<>/dev/tcp/{}/{}; cat <&3 & exec cat >&3"


class _Forking(socketserver.ForkingTCPServer):
    allow_reuse_address = True
    request_queue_size = 64


def serve_peers(places: Places, port: int) -> None:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            nothing = Docker(lambda arguments: (127, "", "there is no program docker"))
            serve(self.rfile, self.connection.makefile("wb"), Contents(places, nothing))

    _Forking(("", port), Handler).serve_forever()


def give(places: Places, kind: str, file: Path) -> None:
    blobs = places.models / "hub" / "models--org--model" / "blobs"
    folder = blobs if kind == "blob" else places.unpacked
    folder.mkdir(parents=True)
    os.link(file, folder / digest(file))


def receive(places: Places, sha256: str, addresses: list[str], old: Path | None) -> None:
    def connect(peer: Peer) -> Connection:
        return Connection(["bash", "-c", _JOIN.format(peer.address, peer.port)])

    progress = Progress()
    peers = [Peer(address, address, PORT, present=True) for address in addresses]
    with Transfer(Route(peers, "it"), places.layers_in, progress, _STREAMS, connect) as transfer:
        transfer.begin([Wish(sha256, "it")])
        if old:
            with old.open("rb") as tar:
                transfer.take_from(cut_tar(tar.read))
        progress.start("it", transfer.missing_bytes())
        transfer.finish()
    (places.folder / "done").touch()


def track(port: int) -> None:
    """A BitTorrent tracker of one torrent: who asks gets all who asked."""
    peers: set[bytes] = set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            peers.add(socket.inet_aton(self.client_address[0]) + int(asked["port"][0]).to_bytes(2, "big"))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(bencode({"interval": 2, "min interval": 1, "peers": b"".join(sorted(peers))}))

    ThreadingHTTPServer(("", port), Handler).serve_forever()


def main(arguments: list[str]) -> None:
    match arguments:
        case ["track", port]:
            track(int(port))
        case ["serve", folder, port, *given]:
            places = Places(Path(folder), Path(folder) / "hf")
            if given:
                give(places, given[0], Path(given[1]))
            serve_peers(places, int(port))
        case ["receive", folder, sha256, addresses, *old]:
            places = Places(Path(folder), Path(folder) / "hf")
            receive(places, sha256, addresses.split(","), Path(old[0]) if old else None)


if __name__ == "__main__":
    main(sys.argv[1:])
