# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`ray start` and `ray status`, as far as vLLM over several hosts needs them: nodes that join a head and are missed.

As seen in Ray 2.60: a node without a head waits 60 s for it and ends with 1; one that loses its head ends by itself
after that time; a head marks a silent node dead after 60 s, a closed connection at once. Both end with 1 by SIGTERM,
also as a container's first process, which ends by none without a handler; a node whose head is gone tries for 30 s to
tell it first, or as long as RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S says. With RAY_AUTH_MODE=token nobody is heard
without the token. Lines of JSON over TCP stand for Ray's own protocol.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

PATIENCE_SECONDS = 60.0
DRAIN_SECONDS = 30.0
_BEAT_SECONDS = 1.0
# Where Ray keeps the address of the cluster that this container belongs to.
CURRENT = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"


class RayError(Exception):
    """No head, no token, or a node that is gone."""


def token() -> str:
    if os.environ.get("RAY_AUTH_MODE") != "token":
        return ""
    return Path(os.environ["RAY_AUTH_TOKEN_PATH"]).read_text().strip()


class Session:
    """A connection to the head: of a node, of `ray status`, or of vLLM."""

    def __init__(self, address: str, kind: str, name: str = "") -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)
        self._lines: IO[str] = self.socket.makefile("r")
        self.send({"kind": kind, "name": name, "token": token()})

    def send(self, message: Any) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Any:
        line = self._lines.readline()
        if not line:
            raise RayError("the head is gone, or asks for a token")
        return json.loads(line)


class Head:
    """The nodes that are in, and who wants to know when one is lost."""

    def __init__(self, own: str) -> None:
        self._lock = threading.Lock()
        self.nodes = {own: None}
        self._watchers: list[socket.socket] = []

    def serve(self, address: str, port: int) -> None:
        listener = socket.create_server((address, port))
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=self._meet, args=(peer,), daemon=True).start()

    def _meet(self, peer: socket.socket) -> None:
        peer.settimeout(PATIENCE_SECONDS)
        with peer, peer.makefile("r") as lines:
            try:
                who = json.loads(lines.readline() or "{}")
                if who.get("token") != token():
                    return
                with self._lock:
                    peer.sendall(json.dumps(sorted(self.nodes)).encode() + b"\n")
                if who["kind"] == "node":
                    self._keep(peer, who["name"], lines)
                elif who["kind"] == "watch":
                    peer.settimeout(None)
                    self._watchers.append(peer)
                    lines.readline()
            except (OSError, ValueError):
                return

    def _keep(self, peer: socket.socket, name: str, lines: IO[str]) -> None:
        """One node, until it is silent or closes."""
        with self._lock:
            self.nodes[name] = None
        try:
            while lines.readline():
                peer.sendall(b"{}\n")
        except OSError:
            pass
        with self._lock:
            self.nodes.pop(name, None)
            for watcher in self._watchers:
                with contextlib.suppress(OSError):
                    watcher.shutdown(socket.SHUT_RDWR)
        print(f"The node with node id {name} has been marked dead", flush=True)


def follow(address: str, own: str) -> int:
    """A node of another head."""
    session = _patiently(address, "node", own)
    if session is None:
        print("Failed to connect to GCS within 60 seconds", flush=True)
        return 1
    print("Ray runtime started.", flush=True)
    try:
        session.receive()
        while True:
            session.send({})
            session.receive()
            time.sleep(_BEAT_SECONDS)
    except (OSError, RayError):
        time.sleep(PATIENCE_SECONDS)
    print("Failed to connect to GCS within 60 seconds", flush=True)
    return 1


def _patiently(address: str, kind: str, name: str) -> Session | None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            return Session(address, kind, name)
        except OSError:
            time.sleep(_BEAT_SECONDS / 2)
    return None


def until_nodes(wanted: int) -> Session:
    """vLLM's view: waits without an end for that many nodes; the session ends when one of them is lost."""
    while True:
        session = Session(CURRENT.read_text(), "watch")
        nodes = session.receive()
        if len(nodes) >= wanted:
            session.socket.settimeout(None)
            return session
        session.socket.close()
        print(f"The number of required GPUs exceeds the total number of available GPUs: {nodes}", file=sys.stderr)
        time.sleep(_BEAT_SECONDS)


def end(*_: object) -> None:
    """After the head was told."""
    try:
        Session(CURRENT.read_text(), "status")
    except OSError:
        time.sleep(float(os.environ.get("RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", DRAIN_SECONDS)))
    sys.exit(1)


def status() -> str:
    nodes = Session(CURRENT.read_text(), "status").receive()
    active = "".join(f" 1 node_{node.replace('.', '')}\n" for node in nodes)
    head = f"======== Autoscaler status ========\nNode status\n{'-' * 63}\n"
    return f"{head}Active:\n{active}Pending:\n (no pending nodes)\n"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="ray")
    parser.add_argument("--version", action="version", version="ray, version 2.60.0")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("status")
    start = commands.add_parser("start")
    for flag in ("--head", "--block", "--disable-usage-stats"):
        start.add_argument(flag, action="store_true")
    for option in ("--address", "--node-ip-address", "--include-dashboard", "--ray-client-server-port"):
        start.add_argument(option)
    numbers = ("--port", "--min-worker-port", "--max-worker-port", "--num-cpus", "--num-gpus", "--object-store-memory")
    for option in numbers:
        start.add_argument(option, type=int)
    asked = parser.parse_args(words)
    try:
        if asked.command == "status":
            print(status(), end="")
            return 0
        signal.signal(signal.SIGTERM, end)
        CURRENT.parent.mkdir(exist_ok=True)
        CURRENT.write_text(asked.address or f"{asked.node_ip_address}:{asked.port}")
        if not asked.head:
            return follow(asked.address, asked.node_ip_address)
        print("Ray runtime started.", flush=True)
        Head(asked.node_ip_address).serve(asked.node_ip_address, asked.port)
    except (OSError, RayError) as problem:
        print(f"ray: {problem}", file=sys.stderr)
    return 1
