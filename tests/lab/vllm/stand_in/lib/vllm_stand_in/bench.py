# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`vllm bench serve`: real requests to a real endpoint, measured; of the real one's options and figures what we ask."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import ssl
import string
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

_TIMEOUT_S = 300
_MS = 1000
_TEXTS = (
    *("base-url", "backend", "endpoint", "model", "served-model-name", "dataset-name", "percentile-metrics"),
    "metric-percentiles",
    *("result-dir", "result-filename", "random-mm-limit-mm-per-prompt", "random-mm-bucket-config"),
)
_NUMBERS = (
    *("random-input-len", "random-output-len", "random-prefix-len", "num-prompts", "max-concurrency", "seed"),
    "random-mm-base-items-per-request",
)
_SWITCHES = ("ignore-eos", "disable-tqdm", "save-result", "insecure", "trust-remote-code")


@dataclass(frozen=True)
class Answer:
    """Of one request, in seconds of one clock: when it was sent, its first token came, and its last one."""

    sent: float
    first: float
    last: float
    prompted: int
    answered: int


def serve(words: Sequence[str]) -> int:
    """What follows `vllm bench serve`. As the real one it ends with 0 where requests fail, and counts them."""
    parser = argparse.ArgumentParser(prog="vllm bench serve")
    for name in _TEXTS:
        parser.add_argument(f"--{name}", default="")
    for name in _NUMBERS:
        parser.add_argument(f"--{name}", type=int, default=0)
    for name in _SWITCHES:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--request-rate", type=float, default=float("inf"))
    asked = parser.parse_args(words)
    chance = random.Random(asked.seed)
    common = _text(chance, asked.random_prefix_len)
    prompts = [common + _text(chance, asked.random_input_len) for _ in range(asked.num_prompts)]
    pauses = [0.0 if asked.request_rate == float("inf") else chance.expovariate(asked.request_rate) for _ in prompts]
    began = time.monotonic()
    with ThreadPoolExecutor(asked.max_concurrency or len(prompts)) as pool:
        running = []
        for prompt, pause in zip(prompts, pauses, strict=True):
            time.sleep(pause)
            running.append(pool.submit(_ask, asked, prompt))
        found = [answer for one in running if (answer := one.result())]
    result = _result(found, len(prompts), time.monotonic() - began)
    Path(asked.result_dir, asked.result_filename).write_text(json.dumps(result), "utf-8")
    return 0


def _text(chance: random.Random, tokens: int) -> str:
    """A byte is a token."""
    return "".join(chance.choices(string.ascii_letters, k=tokens))


def _ask(asked: argparse.Namespace, prompt: str) -> Answer | None:
    chat = asked.endpoint.endswith("/chat/completions")
    sent = {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
    limit = {"max_tokens": asked.random_output_len, "stream": True, "stream_options": {"include_usage": True}}
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}"}
    began = time.monotonic()
    first = last = 0.0
    usage = None
    try:
        connection = _connected(asked.base_url)
        connection.request(
            "POST", asked.endpoint, json.dumps({"model": asked.served_model_name} | sent | limit), headers
        )
        for line in connection.getresponse():
            event = _event(line)
            if event and event.get("choices"):
                first, last = first or time.monotonic(), time.monotonic()
            usage = (event or {}).get("usage") or usage
        connection.close()
    except (OSError, http.client.HTTPException):
        return None
    if not first or not usage:
        return None
    return Answer(began, first, last, usage["prompt_tokens"], usage["completion_tokens"])


def _connected(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    assert parts.hostname
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S)
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S, context=trusting)


def _event(line: bytes) -> dict[str, Any] | None:
    text = line.decode().strip().removeprefix("data: ")
    found: dict[str, Any] | None = json.loads(text) if text.startswith("{") else None
    return found


def _result(found: Sequence[Answer], asked: int, seconds: float) -> dict[str, Any]:
    """Under the real one's names (vllm/benchmarks/serve.py)."""
    first = [_MS * (one.first - one.sent) for one in found] or [0.0]
    each = [_MS * (one.last - one.first) / max(1, one.answered - 1) for one in found] or [0.0]
    whole = [_MS * (one.last - one.sent) for one in found] or [0.0]
    answered = sum(one.answered for one in found)
    percentiles = {
        f"p{share}_{name}_ms": _percentile(values, share)
        for name, values in {"ttft": first, "tpot": each, "e2el": whole}.items()
        for share in (50, 95, 99)
    }
    return {
        **percentiles,
        "duration": seconds,
        "completed": len(found),
        "failed": asked - len(found),
        "total_input_tokens": sum(one.prompted for one in found),
        "total_output_tokens": answered,
        "request_throughput": len(found) / seconds,
        "output_throughput": answered / seconds,
        "median_ttft_ms": median(first),
        "median_tpot_ms": median(each),
        "median_e2el_ms": median(whole),
    }


def _percentile(values: Sequence[float], share: int) -> float:
    """As NumPy's: between two values by their distance."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * share / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
