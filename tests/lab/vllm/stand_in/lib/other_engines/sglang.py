# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for `python3 -m sglang.launch_server`: its options, key, log lines, health, metrics and ranks.

After entrypoints/http_server.py, entrypoints/engine.py and utils/auth.py of SGLang 0.5.23: without a rank nobody is
served, a rank other than the head answers /health alone, and all processes end when one is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from . import options
from .server import Server, Service

_LABELS = '{model_name="tiny",engine_type="unified",tp_rank="0",pp_rank="0",moe_ep_rank="0"}'
_SERIES = {
    "sglang:num_running_reqs": "running",
    "sglang:num_queue_reqs": "waiting",
    "sglang:token_usage": "used",
    "sglang:num_retracted_requests_total": "retracted",
    "sglang:prompt_tokens_total": "prompted",
    "sglang:generation_tokens_total": "generated",
    "sglang:realtime_tokens_total": "generated",
    "sglang:cached_tokens_total": "cached",
    "sglang:time_to_first_token_seconds_count": "requests",
    "sglang:inter_token_latency_seconds_count": "generated",
    "sglang:queue_time_seconds_count": "requests",
}


def main(words: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    asked = options.parse(_with_config(list(words)), "sglang", "sglang.json")
    config = json.loads((Path(asked.model_path) / "config.json").read_text())
    # as SGLang prints them, the key among them
    shown = ", ".join(f"{name}={value!r}" for name, value in vars(asked).items())
    _log(f"server_args=ServerArgs({shown})")
    rank, nodes = int(asked.node_rank or 0), int(asked.nnodes or 1)
    if rank:
        return _follow(asked)
    service = Service(
        name=asked.served_model_name or asked.model_path,
        key=asked.api_key or "",
        open_paths=("/health", "/ready", "/metrics"),
        health=("/health", "/health_generate"),
        metrics="/metrics",
        series={name + _LABELS: what for name, what in _SERIES.items()},
    )
    server = _listen(asked, service)
    ranks = _gather(asked, nodes)
    context = int(asked.context_length or config["max_position_embeddings"])
    tokens = int(asked.max_total_tokens or 65536)
    _log("Load weight end. elapsed=0.10 s, type=Qwen3ForCausalLM, avail mem=100.00 GB, mem usage=0.01 GB.")
    _log(
        f"max_total_num_tokens={tokens}, chunked_prefill_size={asked.chunked_prefill_size}, max_prefill_tokens=16384, "
        f"max_running_requests={asked.max_running_requests}, context_len={context}, available_gpu_mem=100.00 GB"
    )
    service.ready.set()
    _log("The server is fired up and ready to roll!")
    for one in ranks:
        threading.Thread(target=_watch, args=(one, service), daemon=True).start()
    service.lost.wait()
    server.shutdown()
    return 0


def _with_config(words: list[str]) -> list[str]:
    """`--config FILE` makes way for the file's words, which come first, so that the command line wins."""
    if "--config" not in words:
        return words
    at = words.index("--config")
    lines = (line.partition(":") for line in Path(words[at + 1]).read_text().splitlines() if line.strip())
    given = [word for name, _, value in lines for word in (f"--{name.strip()}", json.loads(value))]
    return [*given, *words[:at], *words[at + 2 :]]


def _listen(asked: Namespace, service: Service) -> Server:
    server = Server((asked.host or "127.0.0.1", int(asked.port or 30000)), service)
    if asked.ssl_certfile:
        server.encrypt(asked.ssl_certfile, asked.ssl_keyfile)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _gather(asked: Namespace, nodes: int) -> list[socket.socket]:
    """Wait for every other rank, without an end."""
    if nodes == 1:
        return []
    address, _, port = asked.dist_init_addr.rpartition(":")
    listener = socket.create_server((address, int(port)))
    ranks = [listener.accept()[0] for _ in range(nodes - 1)]
    listener.close()
    return ranks


def _watch(rank: socket.socket, service: Service) -> None:
    with contextlib.suppress(OSError):
        while rank.recv(1):
            pass
    _log("Received sigquit from a child process. It usually means the child failed.")
    service.lost.set()


def _follow(asked: Namespace) -> int:
    """A rank other than the head: says that it is there, and ends with the head."""
    there = Service(asked.model_path, "", ("/",), ("/health", "/health_generate", "/ping"), "/metrics", {})
    there.ready.set()
    _listen(asked, there)
    address, _, port = asked.dist_init_addr.rpartition(":")
    while True:
        with contextlib.suppress(OSError), socket.create_connection((address, int(port))) as head:
            while head.recv(1):
                pass
            return 0
        time.sleep(0.5)


def _log(text: str) -> None:
    print(time.strftime("[%Y-%m-%d %H:%M:%S]"), text, file=sys.stderr, flush=True)
