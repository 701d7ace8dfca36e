# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine process, which in the real one holds the GPU: it counts what would be computed, and can die or hang.

It has the real one's name (VLLM::EngineCore), so that a test can stop or kill it. With several ranks (--nnodes) each
request goes once through every other rank, over TCP to --master-addr, as the real ranks' tensors do.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass

from . import ray
from .log import log

_PR_SET_NAME, _PR_SET_PDEATHSIG = 15, 1
_NAME = b"VLLM::EngineCor"  # the kernel keeps 15 letters
_RETRY_SECONDS = 0.5
_NOTICE_SECONDS = 1.5


@dataclass(frozen=True)
class Group:
    """The ranks of a service: --nnodes, --node-rank, --master-addr, --master-port; or that many nodes of Ray."""

    nodes: int
    rank: int
    address: str
    port: int
    ray_nodes: int = 0


def run(group: Group, load_seconds: float, prefill_seconds: float) -> int:
    """The engine of the first rank: says `ready` on stdout, then answers each line of stdin with one of its own.

    prefill_seconds: how long a thousand tokens keep it busy.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NAME, _NAME, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    peers = gather(group) if group.nodes > 1 else []
    if group.ray_nodes:
        threading.Thread(target=_end_with, args=(ray.until_nodes(group.ray_nodes),), daemon=True).start()
    time.sleep(load_seconds)
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            tokens = json.loads(line)["tokens"]
            _work(prefill_seconds * tokens / 1000)
            for peer in peers:
                _through(peer)
        except OSError as problem:
            text = f"EngineCore encountered a fatal error: Worker failed with error '{problem}'"
            log("EngineCore", "ERROR", "core.py", text)
            return 1
        print(json.dumps({"tokens": tokens}), flush=True)
    return 0


def _end_with(session: ray.Session) -> None:
    """With Ray the loss of a node ends the engine, also while it is idle; seen after 1.4 to 2.5 s."""
    with contextlib.suppress(OSError, ray.RayError):
        session.receive()
    time.sleep(_NOTICE_SECONDS)
    log("EngineCore", "ERROR", "ray_executor.py", "A Ray node was lost")
    os._exit(1)


def _work(seconds: float) -> None:
    """A prefill uses a processor; one that waits for a lost rank in NCCL does too."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def gather(group: Group) -> list[socket.socket]:
    """Wait for every other rank, without an end, as the real one does."""
    listener = socket.create_server((group.address, group.port))
    peers: list[socket.socket] = []
    while len(peers) < group.nodes - 1:
        peer, (address, *_) = listener.accept()
        log("EngineCore", "INFO", "parallel_state.py", f"world_size={group.nodes}: a rank joined from {address}")
        peers.append(peer)
    listener.close()
    return peers


def _through(peer: socket.socket) -> None:
    peer.sendall(b".")
    if not peer.recv(1):
        raise ConnectionResetError("Connection closed by peer")


def follow(group: Group) -> int:
    """A headless rank: echoes what the first rank sends, and never leaves by itself, not even when that one is gone."""
    connection = _join(group)
    text = f"world_size={group.nodes} rank={group.rank} distributed_init_method=tcp://{group.address}:{group.port}"
    log("Worker", "INFO", "parallel_state.py", text)
    with contextlib.suppress(OSError):
        while received := connection.recv(1):
            connection.sendall(received)
    # Seen in vLLM 0.32: neither a killed nor a stopped head ends its headless ranks.
    signal.pause()
    return 0


def _join(group: Group) -> socket.socket:
    while True:
        try:
            return socket.create_connection((group.address, group.port))
        except OSError:
            time.sleep(_RETRY_SECONDS)


if __name__ == "__main__":
    shape, *seconds = json.loads(sys.argv[1])
    sys.exit(run(Group(**shape), *seconds))
