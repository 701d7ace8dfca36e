# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for `trtllm-serve`: its options, log lines and health. It asks nobody for a key.

After tensorrt_llm/commands/serve.py and serve/openai_server.py: it listens once the model is loaded, and knows it by
what it was started with. Over several hosts it waits for a node of Ray a rank (executor/ray_executor.py). What it does
when a node is lost nobody has seen: here it goes on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vllm_stand_in import ray  # type: ignore[import-not-found]  # beside this one in the image

from . import options
from .server import Server, Service


def main(words: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    asked = options.parse(words, "trtllm-serve", "trtllm.json", positional="model")
    # JSON is all that the plan writes into it
    extra = json.loads(Path(asked.config).read_text()) if asked.config else {}
    config = _config(asked)
    tokens = int(extra.get("kv_cache_config", {}).get("max_tokens") or 65536)
    longest = int(asked.max_seq_len or config["max_position_embeddings"])
    print(f"[TensorRT-LLM] TensorRT-LLM version: {asked.release}", flush=True)
    print(f"[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.01 GiB for max tokens in paged KV cache ({tokens}).")
    print(
        f"[TRT-LLM] [I] max_seq_len={longest}, max_num_requests={asked.max_batch_size}, max_num_tokens=8192", flush=True
    )
    if extra.get("orchestrator_type") == "ray":
        ray.until_nodes(int(asked.tensor_parallel_size or 1) * int(asked.pipeline_parallel_size or 1)).socket.close()
    service = Service(asked.model, "", ("/",), ("/health", "/health_generate"), "/prometheus/metrics", {})
    service.ready.set()
    Server((asked.host or "localhost", int(asked.port or 8000)), service).serve_forever()
    return 0


def _config(asked: Namespace) -> dict[str, Any]:
    """The model's config.json in the hub's cache, by repository and revision or what `refs/main` names, as
    huggingface_hub finds it; nothing is fetched."""
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    folder = home / "hub" / f"models--{asked.model.replace('/', '--')}"
    try:
        revision = asked.revision or (folder / "refs" / "main").read_text().strip()
        found: dict[str, Any] = json.loads((folder / "snapshots" / revision / "config.json").read_text())
    except OSError as problem:
        sys.exit(f"OSError: {asked.model} is not in the cache: {problem}")
    return found
