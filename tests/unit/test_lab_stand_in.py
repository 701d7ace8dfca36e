# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for vLLM behaves as vLLM 0.32 was seen to: options, key, errors, and above all how it fails."""

from __future__ import annotations

import http.client
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._on_host import api_key
from lab.vllm import tiny_model, top_files
from lab.vllm.packages import SITE, VLLM
from processes import GIVE_UP_SECONDS, eventually, free_port

# As the image's program starts it: the package lies where Python looks, and no variable says so.
PROGRAM = """
import sys
sys.path.append(sys.argv[1])
from vllm_stand_in.command import main
sys.exit(main(sys.argv[2:]))
"""
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}


class Process:
    """`vllm serve` of the tiny model, or what else is asked of the program."""

    def __init__(self, site: Path, *words: str, port: int = 0, **environment: str) -> None:
        self.port = port or free_port()
        self.popen = subprocess.Popen(
            [
                sys.executable,
                "-c",
                PROGRAM,
                str(site),
                *words,
                *(["--port", str(self.port)] if words[0] == "serve" else []),
            ],
            env={"PATH": os.environ["PATH"], **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ask(
        self, method: str, path: str, body: Any = None, key: str = "", kind: str = "application/json"
    ) -> tuple[int, Any]:
        """Status and JSON; (0, None) where nobody listens."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=GIVE_UP_SECONDS)) as connection:
            headers = {"content-type": kind} | ({"authorization": f"Bearer {key}"} if key else {})
            try:
                connection.request(method, path, json.dumps(body) if body is not None else None, headers)
                answer = connection.getresponse()
                content = answer.read()
            except OSError:
                return 0, None
            is_json = answer.headers.get("content-type", "") == "application/json"
            return answer.status, json.loads(content) if is_json else content.decode()

    def health(self) -> int:
        return self.ask("GET", "/health")[0]

    def until_healthy(self) -> Process:
        eventually(lambda: self.popen.poll() is not None or self.health() == 200)
        assert self.popen.poll() is None, self.output()
        return self

    def engine(self) -> int:
        (child,) = Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children").read_text().split()
        assert Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"VLLM::EngineCore\0")
        return int(child)

    def status(self) -> int:
        return self.popen.wait(GIVE_UP_SECONDS)

    def output(self) -> str:
        assert self.popen.stdout
        return self.popen.stdout.read()

    def end(self) -> None:
        self.popen.kill()
        self.popen.communicate()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in as it lies in its image."""
    root = tmp_path_factory.mktemp("image")
    top_files.build_stand_in(root)
    return root / SITE.lstrip("/")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_model.write(folder)
    return str(folder)


@pytest.fixture
def serve(site: Path, model: str) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def start(*words: str, port: int = 0, **environment: str) -> Process:
        named = ("--served-model-name", "tiny", "--host", "127.0.0.1")
        started.append(Process(site, "serve", model, *named, *words, port=port, **environment))
        return started[-1]

    yield start
    for process in started:
        process.end()


Serve = Callable[..., Process]


def test_it_serves_and_shows_what_it_is(serve: Serve) -> None:
    process = serve().until_healthy()
    status, answer = process.ask("POST", "/v1/chat/completions", CHAT)
    assert status == 200
    assert "stand-in" in answer["system_fingerprint"]
    assert answer["choices"][0]["message"]["content"] == "This is "
    assert answer["usage"]["completion_tokens"] == 8
    assert process.ask("GET", "/v1/models")[1]["data"][0]["id"] == "tiny"
    metrics = process.ask("GET", "/metrics")[1]
    assert 'vllm:generation_tokens_total{engine="0",model_name="tiny"} 8.0' in metrics
    assert 'vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 1.0' in metrics


def test_an_answer_takes_as_long_as_it_is_asked_to_and_is_counted_meanwhile(serve: Serve) -> None:
    process = serve().until_healthy()
    asked = {**CHAT, "stream": True, "max_tokens": 5, "vllm_xargs": {"token_seconds": 0.2}}
    began = time.monotonic()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(process.ask, "POST", "/v1/chat/completions", asked)
        eventually(
            lambda: 'num_requests_running{engine="0",model_name="tiny"} 1.0' in process.ask("GET", "/metrics")[1]
        )
        assert "[DONE]" in answer.result()[1]
    assert time.monotonic() - began >= 1
    eventually(lambda: 'num_requests_running{engine="0",model_name="tiny"} 0.0' in process.ask("GET", "/metrics")[1])


def test_it_shows_what_a_request_wishes(serve: Serve) -> None:
    process = serve().until_healthy()
    for wished in (0.97, -0.5):
        asked = {**CHAT, "vllm_xargs": {"vllm:kv_cache_usage_perc": wished}}
        assert process.ask("POST", "/v1/chat/completions", asked)[0] == 200
    assert 'vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.47' in process.ask("GET", "/metrics")[1]


def tokens(process: Process) -> float:
    text = process.ask("GET", "/metrics")[1]
    return float(text.partition('vllm:generation_tokens_total{engine="0",model_name="tiny"} ')[2].split()[0])


def is_idle(process: Process) -> bool:
    """Of many tokens' time. A step that was under way when it was asked is counted yet."""
    before = tokens(process)
    time.sleep(0.3)
    return tokens(process) == before


@pytest.mark.parametrize("stream", [True, False])
def test_each_token_of_a_paced_answer_is_a_step_of_the_engine(serve: Serve, stream: bool) -> None:
    """As a supervisor sees a real engine: counted while the answer goes on, and no longer when the engine hangs."""
    process = serve().until_healthy()
    asked = {**CHAT, "stream": stream, "max_tokens": 1000, "vllm_xargs": {"token_seconds": 0.01}}
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(process.ask, "POST", "/v1/chat/completions", asked)
        eventually(lambda: 0 < tokens(process) < 1000)
        before = tokens(process)
        eventually(lambda: tokens(process) > before)
        os.kill(process.engine(), signal.SIGSTOP)
        eventually(lambda: is_idle(process))
        os.kill(process.engine(), signal.SIGCONT)
        assert answer.result()[0] == 200
    assert tokens(process) == 1000


def test_a_stream_ends_with_the_error_of_its_engine(serve: Serve) -> None:
    process = serve().until_healthy()
    asked = {**CHAT, "stream": True, "max_tokens": 1000, "vllm_xargs": {"token_seconds": 0.01}}
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(process.ask, "POST", "/v1/chat/completions", asked)
        eventually(lambda: tokens(process) > 0)
        os.kill(process.engine(), signal.SIGKILL)
        events = answer.result()[1].split()
    assert "EngineCore" in answer.result()[1] and events[-1] == "[DONE]"


def test_streams_side_by_side_are_all_computed(serve: Serve) -> None:
    process = serve().until_healthy()
    asked = {**CHAT, "stream": True, "max_tokens": 20, "vllm_xargs": {"token_seconds": 0.01}}
    with ThreadPoolExecutor(16) as pool:
        answers = [pool.submit(process.ask, "POST", "/v1/chat/completions", asked) for _ in range(64)]
        assert [one.result()[0] for one in answers] == [200] * 64
    assert tokens(process) == 64 * 20


def test_a_stream_ends_as_the_real_one_does(serve: Serve) -> None:
    process = serve().until_healthy()
    status, text = process.ask("POST", "/v1/chat/completions", {**CHAT, "stream": True})
    assert status == 200
    events = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["usage"]["completion_tokens"] == 8
    assert len(events) == 8 + 2


@pytest.mark.parametrize(
    ("asked", "status", "message"),
    [
        ({**CHAT, "model": "other"}, 404, "The model `other` does not exist. Valid aliases: tiny."),
        ({"model": "tiny"}, 400, "Field required"),
        ({**CHAT, "max_tokens": 10**9}, 400, "cannot be greater than max_model_len=32768"),
        ([], 400, "valid dictionary"),
    ],
)
def test_bad_requests(serve: Serve, asked: Any, status: int, message: str) -> None:
    answer = serve().until_healthy().ask("POST", "/v1/chat/completions", asked)
    assert answer[0] == status
    assert message in answer[1]["error"]["message"]


def test_a_body_of_another_type_is_refused_as_vllm_does(serve: Serve) -> None:
    """The words of vLLM 0.32.0, seen on 24 November 2026: curl sends --data as a form."""
    kind = "application/x-www-form-urlencoded"
    status, reply = serve().until_healthy().ask("POST", "/v1/chat/completions", CHAT, kind=kind)
    assert (status, reply["error"]["code"]) == (400, 400)
    assert reply["error"]["message"].endswith("Unsupported Media Type: Only 'application/json' is allowed")


@pytest.mark.parametrize("place", ["file", "environment", "option"])
def test_the_key_guards_v1_and_no_more(serve: Serve, tmp_path: Path, place: str) -> None:
    (tmp_path / "key.yaml").write_text("# the service's key\napi-key: 'secret'\n")
    process = {
        "file": lambda: serve("--config", str(tmp_path / "key.yaml")),
        "environment": lambda: serve(VLLM_API_KEY="secret"),
        "option": lambda: serve("--api-key", "secret"),
    }[place]().until_healthy()
    assert process.ask("POST", "/v1/chat/completions", CHAT) == (401, {"error": "Unauthorized"})
    assert process.ask("POST", "/v1/chat/completions", CHAT, key="wrong")[0] == 401
    assert process.ask("POST", "/v1/chat/completions", CHAT, key="secret")[0] == 200
    assert process.ask("POST", "/invocations", {"model": "tiny", "prompt": "x"})[0] == 200


def test_middleware_is_asked_before_any_route(serve: Serve, tmp_path: Path) -> None:
    source = inspect.getsource(api_key).replace(str(api_key.KEY_FILE), str(tmp_path / "key.yaml"))
    (tmp_path / "gb10_api_key.py").write_text(source)
    (tmp_path / "key.yaml").write_text('api-key: "secret"\n')
    words = ["--config", str(tmp_path / "key.yaml"), "--middleware", "gb10_api_key.KeyOnEveryRoute"]
    process = serve(*words, PYTHONPATH=str(tmp_path)).until_healthy()
    for method, path in (("GET", "/metrics"), ("GET", "/v1/models"), ("POST", "/invocations"), ("GET", "/version")):
        assert process.ask(method, path) == (401, {"error": "Unauthorized"})
    assert process.ask("GET", "/version", key="secret")[0] == 200
    assert process.ask("POST", "/v1/chat/completions", CHAT, key="secret")[0] == 200


def test_the_command_line_wins_over_the_file(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("max-model-len: 1k\nserved-model-name: [a, b]\n")
    process = serve("--max-model-len", "2k", "--config", str(tmp_path / "x.yaml")).until_healthy()
    (card,) = process.ask("GET", "/v1/models")[1]["data"]
    assert (card["id"], card["max_model_len"]) == ("tiny", 2000)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--no-such-flag"], 2, "vllm: error: unrecognized arguments: --no-such-flag"),
        (["--max-model-len", "abc"], 2, "argument --max-model-len: invalid"),
        (["--kv-cache-dtype", "nope"], 2, "argument --kv-cache-dtype: invalid choice: 'nope'"),
        (["--tensor-parallel-size", "2"], 1, "World size (2) is larger than the number of available GPUs (1)"),
        (["--config", "/none.yaml"], 1, "/none.yaml"),
        (["--enable-prefix-caching", "--no-async-scheduling", "--max_num_seqs", "4", "-tp", "3"], 1, "World size (3)"),
    ],
)
def test_what_the_command_line_may_not_contain(serve: Serve, words: list[str], status: int, message: str) -> None:
    process = serve(*words)
    assert message in process.output()
    assert process.status() == status


def test_a_port_in_use_ends_it_with_1(serve: Serve) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as occupied:
        process = serve(port=occupied.getsockname()[1])
        assert "Address already in use" in process.output()
        assert process.status() == 1


def test_the_version_is_the_releases(site: Path) -> None:
    process = Process(site, "--version")
    assert process.output().strip() == VLLM
    assert process.status() == 0


def test_the_boot_log_reports_the_kv_cache(serve: Serve) -> None:
    process = serve("--max-model-len", "2048", "--kv-cache-memory-bytes", "32M").until_healthy()
    process.popen.send_signal(signal.SIGTERM)
    assert process.status() == 0
    printed = process.output()
    assert "GPU KV cache size: 65,536 tokens, Maximum concurrency for 2,048 tokens per request: 32.00x" in printed


def test_the_key_is_in_no_log(serve: Serve) -> None:
    process = serve("--api-key", "canary").until_healthy()
    process.popen.send_signal(signal.SIGTERM)
    assert "canary" not in process.output()


def test_it_ends_with_0_when_its_engine_dies(serve: Serve) -> None:
    process = serve().until_healthy()
    os.kill(process.engine(), signal.SIGKILL)
    assert process.status() == 0
    assert "EngineDeadError" in process.output()


def test_it_is_healthy_while_its_engine_hangs(serve: Serve) -> None:
    process = serve().until_healthy()
    engine = process.engine()
    os.kill(engine, signal.SIGSTOP)
    with closing(socket.create_connection(("127.0.0.1", process.port))) as waiting:
        body = json.dumps(CHAT).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        waiting.sendall(head % len(body) + body)
        assert process.health() == 200
        assert process.ask("GET", "/metrics")[0] == 200
        os.kill(engine, signal.SIGCONT)
        assert waiting.recv(12) == b"HTTP/1.1 200"


class Pair:
    """Two ranks without Ray, both on this machine."""

    def __init__(self, serve: Serve) -> None:
        self._serve, self._group = serve, ("--nnodes", "2", "-tp", "2", "--master-addr", "127.0.0.1")
        self._master = ("--master-port", str(free_port()))

    def head(self) -> Process:
        return self._serve(*self._group, *self._master, "--node-rank", "0")

    def worker(self) -> Process:
        return self._serve(*self._group, *self._master, "--node-rank", "1", "--headless")


def test_two_ranks_answer_together(serve: Serve) -> None:
    pair = Pair(serve)
    pair.worker()
    head = pair.head().until_healthy()
    status, answer = head.ask("POST", "/v1/chat/completions", CHAT)
    assert status == 200
    assert "-tp2-" in answer["system_fingerprint"]


def test_health_reports_nothing_of_a_dead_worker(serve: Serve) -> None:
    pair = Pair(serve)
    worker, head = pair.worker(), pair.head().until_healthy()
    worker.popen.kill()
    worker.status()
    assert head.health() == 200
    assert head.ask("POST", "/v1/chat/completions", CHAT)[0] == 500
    assert head.status() == 0
    assert "Worker failed" in head.output()


def test_a_headless_worker_stays_when_its_head_goes_and_joins_no_other(serve: Serve) -> None:
    pair = Pair(serve)
    worker, head = pair.worker(), pair.head().until_healthy()
    head.popen.kill()
    head.status()
    again = pair.head()
    # The real head, too, waits for a rank that never comes (vllm-cpu-lab 5): a fresh worker is what it takes.
    pair.worker()
    again.until_healthy()
    assert worker.popen.poll() is None


@pytest.mark.parametrize("point", [["--max-concurrency", "2"], ["--request-rate", "50"]])
def test_its_load_generator_measures_the_requests_of_its_words(
    serve: Serve, tmp_path: Path, site: Path, point: list[str]
) -> None:
    """By the words that a benchmark gives it; the real one ends with 0 where requests fail, too."""
    process = serve(VLLM_STAND_IN_DECODE_SECONDS="0.01").until_healthy()
    words = [*("bench", "serve", "--base-url", f"http://127.0.0.1:{process.port}", "--model", "m"), *point]
    words += ["--endpoint", "/v1/completions", "--served-model-name", "tiny", "--random-input-len", "64"]
    words += ["--random-output-len", "8", "--num-prompts", "4", "--seed", "1", "--result-dir", str(tmp_path)]

    def measured(*more: str) -> dict[str, Any]:
        done = Process(site, *words, *more, "--result-filename", "r.json")
        assert done.popen.wait(GIVE_UP_SECONDS) == 0
        found: dict[str, Any] = json.loads((tmp_path / "r.json").read_text("utf-8"))
        return found

    found = measured()
    assert (found["completed"], found["failed"], found["total_output_tokens"]) == (4, 0, 32)
    assert 0 < found["p50_ttft_ms"] <= found["p95_ttft_ms"] <= found["p99_ttft_ms"]
    # of all its figures the one that a busy machine can only lengthen
    assert found["median_e2el_ms"] >= 80
    found = measured("--served-model-name", "another")
    assert (found["completed"], found["failed"], found["total_output_tokens"]) == (0, 4, 0)
