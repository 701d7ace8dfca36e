# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-ins for other engines than vLLM take the words that the plan writes, and show what the supervisor reads."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.sglang.engine import METRICS, Sglang
from ansible_collections.gb10.fleet.plugins.module_utils._engines.trtllm import catalogue as trtllm_catalogue
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.client import Reply
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.endpoint import judged
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.judge import parse_metrics
from lab.vllm import tiny_model, top_files
from lab.vllm.packages import SITE
from processes import GIVE_UP_SECONDS, eventually, free_port

KEY = "sk-0123456789abcdef"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image lays over its base, and the tiny model."""
    folder = tmp_path_factory.mktemp("image")
    top_files.build_stand_in(folder / "root")
    tiny_model.write(folder / "tiny")
    return folder


class Ranks:
    """Processes of a stand-in, ended with the test."""

    def __init__(self, image: Path) -> None:
        self.image, self.processes = image, list[subprocess.Popen[str]]()

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        path = str(self.image / "root" / SITE.lstrip("/"))
        self.processes.append(
            subprocess.Popen(
                [sys.executable, *words],
                env={"PATH": os.environ["PATH"], "PYTHONPATH": path, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return self.processes[-1]


@pytest.fixture
def ranks(image: Path) -> Iterator[Ranks]:
    started = Ranks(image)
    yield started
    for process in started.processes:
        process.kill()
        process.wait()


def ask(port: int, path: str, body: Any = None, key: str = KEY) -> tuple[int, str]:
    """(0, "") where nobody listens."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=GIVE_UP_SECONDS)) as connection:
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        try:
            method = "GET" if body is None else "POST"
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""


def test_sglang_over_two_ranks(ranks: Ranks, tmp_path: Path) -> None:
    """As `_engines.sglang.launch` writes them."""
    config, port, meets = tmp_path / "key.yaml", free_port(), free_port()
    config.write_text(f"api-key: {json.dumps(KEY)}\n")
    common = ["-m", "sglang.launch_server", "--model-path", str(ranks.image / "tiny"), "--enable-metrics"]
    common += ["--context-length", "1024", "--max-total-tokens", "2048", "--served-model-name", "tiny"]
    common += ["--nnodes", "2", "--dist-init-addr", f"127.0.0.1:{meets}", "--host", "127.0.0.1"]
    head = ranks.start(*common, "--node-rank", "0", "--port", str(port), "--config", str(config))
    eventually(lambda: ask(port, "/health", key="")[0] == 503)
    worker = ranks.start(*common, "--node-rank", "1", "--port", str(free_port()))
    eventually(lambda: ask(port, "/health", key="")[0] == 200)
    example = ENGINES["sglang"].example("chat", "tiny")
    status, reply = ask(port, example.path, dict(example.body))
    assert judged(["usage", "completion_tokens"], Reply(status, reply)).ok
    assert ask(port, example.path, dict(example.body), key="wrong")[0] == 401
    counted = parse_metrics(ask(port, "/metrics", key="")[1], METRICS)
    assert (counted.answered, counted.tokens > 24, counted.running) == (24, True, 0)
    worker.kill()
    assert head.wait(GIVE_UP_SECONDS) == 0
    log, _ = head.communicate()
    boot = Sglang().boot(log)
    assert (boot.kv_cache_tokens, boot.max_model_len) == (2048, 1024)
    assert KEY in log, "as SGLang itself prints it; the supervisor hides it"


def test_trtllm_serve(ranks: Ranks, tmp_path: Path) -> None:
    """As `_engines.trtllm.launch` writes them."""
    port, engine = free_port(), ENGINES["trtllm"]
    cache = tmp_path / "hub" / "models--org--tiny"
    for folder in ("refs", "snapshots"):
        (cache / folder).mkdir(parents=True)
    (cache / "refs" / "main").write_text("a" * 40)
    (cache / "snapshots" / ("a" * 40)).symlink_to(ranks.image / "tiny")
    (tmp_path / "extra.yml").write_text('{"kv_cache_config":{"free_gpu_memory_fraction":0.5,"max_tokens":2048}}')
    program = str(ranks.image / "root" / "usr/local/bin/trtllm-serve")
    words = [program, "org/tiny", "--extra_llm_api_options", str(tmp_path / "extra.yml"), "--backend", "pytorch"]
    words += ["--host", "127.0.0.1", "--port", str(port), "--max_seq_len", "1024", "--max_batch_size", "2"]
    process = ranks.start(*words, HF_HOME=str(tmp_path))
    eventually(lambda: ask(port, "/health", key="")[0] == 200)
    example = engine.example("chat", "org/tiny")
    status, reply = ask(port, example.path, dict(example.body), key="")
    assert judged(["usage", "completion_tokens"], Reply(status, reply)).ok
    process.terminate()
    boot = engine.boot(process.communicate()[0])
    assert (boot.kv_cache_tokens, boot.max_model_len, boot.release) == (2048, 1024, trtllm_catalogue.NEWEST)


def test_an_option_that_the_release_does_not_have_is_refused_as_by_the_real_one(ranks: Ranks) -> None:
    process = ranks.start("-m", "sglang.launch_server", "--model-path", str(ranks.image / "tiny"), "--no-such", "1")
    assert process.wait(GIVE_UP_SECONDS) == 2
