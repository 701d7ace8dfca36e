# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`vllm serve` and `vllm bench serve`, from their words to the exit status."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import arguments, bench, engine, middleware
from .log import log
from .metrics import Metrics
from .server import Server, Service
from .speed import slowness

RELEASE = json.loads(Path(__file__).with_name("release.json").read_text())
# How long a load takes; the real one's lasts minutes.
LOAD_SECONDS = "VLLM_STAND_IN_LOAD_SECONDS"
# How long a thousand tokens of a prompt take.
PREFILL_SECONDS = "VLLM_STAND_IN_PREFILL_SECONDS"
# How long each token of an answer takes, where the request itself doesn't say.
DECODE_SECONDS = "VLLM_STAND_IN_DECODE_SECONDS"
# The same with the fastest options; others make it slower (speed.py).
OPTIONS = "VLLM_STAND_IN_OPTIONS"
# PORT=TIMES: a token takes so many times as long at that port. The port is what tells two machines apart that serve
# the same with the same variables: a container knows no name of its host.
SLOW_PORT = "VLLM_STAND_IN_SLOW_PORT"
# An image whose variant has this name starts no engine.
_VARIANT, _BROKEN = Path("/etc/gb10-lab-variant"), "broken"
_KV_CACHE_BYTES = 32 << 20
_BLOCK_TOKENS = 16
# Seen in vLLM 0.32 after its engine was killed: 503 for half a second, gone after three, status 0.
_LAST_ANSWERS_SECONDS = 0.5
_PROCESS = "APIServer"


class StartError(Exception):
    """vLLM ends with a traceback and status 1 here; the stand-in with its last line."""


class EngineProcess:
    """The engine as the API server sees it: one question at a time, through its stdin and stdout."""

    def __init__(self, group: engine.Group, load_seconds: float, prefill_seconds: float) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [
                "VLLM::EngineCore",
                "-m",
                f"{__package__}.engine",
                json.dumps([asdict(group), load_seconds, prefill_seconds]),
            ],
            executable=sys.executable,
            # Under a foreign name Python does not find its own packages.
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ready(self) -> bool:
        return self._line() == "ready"

    def compute(self, tokens: int) -> bool:
        with self._lock:
            try:
                assert self._process.stdin
                self._process.stdin.write(json.dumps({"tokens": tokens}) + "\n")
                self._process.stdin.flush()
            except OSError:
                return False
            return bool(self._line())

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def wait(self) -> None:
        self._process.wait()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def main(words: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if list(words[:2]) == ["bench", "serve"]:
        return bench.serve(words[2:])
    try:
        asked = arguments.parse(words, RELEASE)
        return _serve(asked)
    except (StartError, arguments.ConfigFileError, OSError) as problem:
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
        return 1


def _serve(asked: argparse.Namespace) -> int:
    ranks = (asked.tensor_parallel_size or 1) * (asked.pipeline_parallel_size or 1)
    group = engine.Group(
        asked.nnodes or 1,
        asked.node_rank or 0,
        asked.master_addr or "127.0.0.1",
        asked.master_port or 29501,
        ray_nodes=ranks if asked.distributed_executor_backend == "ray" else 0,
    )
    _check_ranks(asked, ranks, group.nodes)
    model = _model(asked)
    if asked.headless:
        return engine.follow(group)

    given = {name: value for name, value in vars(asked).items() if value is not None and name != "command"}
    log(_PROCESS, "INFO", "api_utils.py", f"version {RELEASE} (stand-in)")
    log(_PROCESS, "INFO", "api_utils.py", f"non-default args: {given | ({'api_key': '***'} if asked.api_key else {})}")
    core = EngineProcess(group, *(float(os.environ.get(name, "0")) for name in (LOAD_SECONDS, PREFILL_SECONDS)))
    try:
        return _answer(asked, model, core)
    finally:
        core.stop()


def _check_ranks(asked: argparse.Namespace, ranks: int, nodes: int) -> None:
    """One GPU a host (vllm/config/parallel.py)."""
    if ranks > nodes and asked.distributed_executor_backend != "ray":
        raise StartError(
            f"World size ({ranks}) is larger than the number of available GPUs ({nodes}) in this node. If this is "
            "intentional and you are using:\n- ray, set '--distributed-executor-backend ray'.\n"
            "- multiprocessing, set '--nnodes' appropriately."
        )


def _model(asked: argparse.Namespace) -> dict[str, Any]:
    """The model's config.json, from its folder or the hub's cache layout."""
    name = asked.model_tag or asked.model or ""
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    cached = home / "hub" / f"models--{name.replace('/', '--')}" / "snapshots"
    folders = [Path(name), *(sorted(cached.iterdir()) if cached.is_dir() else [])]
    for folder in folders:
        if (folder / "config.json").is_file():
            config = json.loads((folder / "config.json").read_text())
            return {"root": name, **config.get("text_config", config)}
    raise StartError(f"no config.json for '{name}': it is neither a folder nor in the cache {home}")


def _times_as_long(port: int | None) -> float:
    slow, _, times = os.environ.get(SLOW_PORT, "").partition("=")
    return float(times) if times and slow == str(port) else 1.0


def _answer(asked: argparse.Namespace, model: dict[str, Any], core: EngineProcess) -> int:
    longest = asked.max_model_len or int(model["max_position_embeddings"])
    names = asked.served_model_name or [model["root"]]
    service = Service(
        release=RELEASE,
        names=names,
        root=model["root"],
        max_model_len=longest,
        tensor_parallel=asked.tensor_parallel_size or 1,
        keys=arguments.api_keys(asked),
        engine=core,
        metrics=Metrics(names[0]),
        pace_s=_times_as_long(asked.port) * float(os.environ.get(DECODE_SECONDS, "0"))
        + float(os.environ.get(OPTIONS, "0")) * slowness(vars(asked)),
        middleware=middleware.load(asked.middleware or ()),
    )
    address = (asked.host or "0.0.0.0", asked.port or 8000)
    server = Server(address, service, bind_and_activate=False)
    server.server_bind()  # a port in use is an error at once, but nobody is served before the engine is ready
    if not core.ready() or (_VARIANT.exists() and _VARIANT.read_text().strip() == _BROKEN):
        raise StartError("Engine core initialization failed. See root cause above. Failed core proc(s): {}")
    log(_PROCESS, "INFO", "kv_cache_utils.py", kv_cache_line(asked, model, longest))
    scheme = "http"
    if asked.ssl_keyfile:
        # a handshake waits in the thread of its own connection, not where connections are taken
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(asked.ssl_certfile, asked.ssl_keyfile)
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        scheme = "https"
    server.server_activate()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    log(_PROCESS, "INFO", "entry.py", f"Starting vLLM server on {scheme}://{address[0]}:{address[1]}")
    print("INFO:     Application startup complete.", file=sys.stderr, flush=True)
    core.wait()
    log(_PROCESS, "ERROR", "async_llm.py", "EngineDeadError: EngineCore encountered an issue. See stack trace (above).")
    time.sleep(_LAST_ANSWERS_SECONDS)
    return 0


def kv_cache_line(asked: argparse.Namespace, model: dict[str, Any], longest: int) -> str:
    """What vLLM prints (kv_cache_utils.py) for a model with the same plain attention in each layer; knows no other."""
    heads = int(model["num_key_value_heads"]) // (asked.tensor_parallel_size or 1)
    value_bytes = 1 if str(asked.kv_cache_dtype).startswith("fp8") else 2
    token_bytes = 2 * int(model["num_hidden_layers"]) * heads * int(model["head_dim"]) * value_bytes
    blocks = (asked.kv_cache_memory_bytes or _KV_CACHE_BYTES) // (token_bytes * _BLOCK_TOKENS)
    requests = blocks / math.ceil(longest / _BLOCK_TOKENS)
    return (
        f"GPU KV cache size: {int(requests * longest):,} tokens, "
        f"Maximum concurrency for {longest:,} tokens per request: {requests:.2f}x"
    )
