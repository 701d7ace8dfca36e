# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM's probes against what vLLM and Ray print."""

from __future__ import annotations

import io
import re
import threading
import wave
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines import openai
from ansible_collections.gb10.fleet.plugins.module_utils._engines.ray import NODE
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.purpose import KINDS
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import endpoint, judge, service
from planned import ranks_of
from test_ranks import RAY, plan

METRICS = Path(__file__).parents[1] / "lab" / "vllm" / "stand_in" / "lib" / "vllm_stand_in" / "metrics.txt"


def supervised(**declared: Any) -> service.Service:
    """The head as its supervisor reads it."""
    return service.from_plan(ranks_of(plan(**declared), "pair")[0]["supervisor"])


def test_the_supervisor_reads_what_is_planned_for_each_rank() -> None:
    for declared in ({}, {"flags": RAY}, {"hosts": ["spark-2"]}):
        ranks = [one["supervisor"] for one in ranks_of(plan(**declared), "pair")]
        read = [service.from_plan(rank) for rank in ranks]
        assert [asdict(one) for one in read] == ranks
        assert all(one.probes == read[0].probes for one in read)
    assert supervised().probes.joined is None
    joined = supervised(flags=RAY).probes.joined
    assert joined is not None
    assert joined.command == ["/usr/bin/docker", "exec", supervised().container, "ray", "status"]


def test_metrics_of_all_engines_are_one() -> None:
    text = (
        "# HELP vllm:num_requests_running x\n"
        'vllm:num_requests_running{engine="0",model_name="m"} 2.0\nvllm:num_requests_running{engine="1"} 1.0\n'
        'vllm:prompt_tokens_total{engine="0"} 1e+03\nvllm:generation_tokens_total{engine="0"} 20.0\n'
        'vllm:iteration_tokens_total_sum{engine="0"} 7.0\nvllm:iteration_tokens_total_bucket{le="1.0"} 99.0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:kv_cache_usage_perc{engine="1"} 0.5\n'
    )
    names = supervised().probes.metrics
    assert names is not None
    assert judge.parse_metrics(text, names) == judge.Metrics(1027, 20, 3, 0, 0.5)


def test_each_name_is_one_that_vllm_gives() -> None:
    """The lab's stand-in holds what the real one gave."""
    names = supervised().probes.metrics
    assert names is not None
    given = set(re.findall(r"^([\w:]+)[{ ]", METRICS.read_text("utf-8"), re.MULTILINE))
    wanted = {name for key, value in asdict(names).items() if isinstance(value, list) for name in value}
    assert wanted - given == set()


def test_an_embedding_is_proved_by_an_embedding() -> None:
    proof = supervised().probes.proof
    assert (proof.path, proof.answer) == ("/v1/chat/completions", ["usage", "completion_tokens"])
    assert proof.body["model"] == "gb10-lab/tiny"


def test_its_end_with_0_is_called_what_it_is() -> None:
    words = supervised().probes.exit_words
    assert judge.describe_exit(0, words) == "0: as vLLM does when its engine has died"
    assert judge.describe_exit(1, words) == "1"


STATUS = """======== Autoscaler status: 2026-11-21 10:00:00.0 ========
Node status
---------------------------------------------------------------
Active:
 1 node_0a1b
 1 node_2c3d
Pending:
 (no pending nodes)
Recent failures:
 1 node_dead (ip: 192.168.100.2)
"""


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        (STATUS, 2),
        ("", 0),
        ("Active:\n (no active nodes)\nPending:\n", 0),
        # newer releases list nodes without work apart
        ("Active:\n (no active nodes)\nIdle:\n 1 node_a\n 1 node_b\nPending:\n (no pending nodes)\n", 2),
        ("Active:\n 1 node_a\nIdle:\n 1 node_b\nPending:\n 1 node_c, launching\nRecent failures:\n", 2),
    ],
)
def test_nodes_of_ray(text: str, nodes: int) -> None:
    assert len(re.findall(NODE, text, re.MULTILINE)) == nodes


# kind: where it is asked, the body's keys beside the model's name, and a reply of vLLM 0.32 (entrypoints/pooling).
ASKED: dict[str, tuple[str, set[str], str]] = {
    "chat": ("/v1/chat/completions", {"messages", "max_tokens", "temperature"}, '{"usage": {"completion_tokens": 1}}'),
    "embed": ("/v1/embeddings", {"input"}, '{"data": [{"embedding": [0.5, -0.25]}]}'),
    "rerank": ("/rerank", {"query", "documents"}, '{"results": [{"index": 0, "relevance_score": 0.98}]}'),
    "score": ("/score", {"text_1", "text_2"}, '{"data": [{"index": 0, "score": 0.98}]}'),
    "classify": ("/classify", {"input"}, '{"data": [{"label": "A", "probs": [0.75, 0.25]}]}'),
    "transcribe": ("/v1/audio/transcriptions", set(), '{"text": "", "usage": {"type": "duration", "seconds": 1}}'),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_each_kind_of_model_is_asked(kind: str) -> None:
    path, keys, reply = ASKED[kind]
    asked, example = openai.request(kind, "m", "gb10"), openai.example(kind, "m")
    assert (asked.path, asked.body.keys() - {"model"}, asked.body["model"]) == (path, keys, "m")
    assert (example.path, example.sound_s) == (path, asked.sound_s)
    assert (asked.sound_s > 0) == (kind == "transcribe")
    assert endpoint.judged(asked.answer, endpoint.Reply(200, reply)).ok
    assert not endpoint.judged(asked.answer, endpoint.Reply(200, "{}")).ok
    assert kind == "chat" or list(asked.answer) in [list(one) for one in example.answers]


@pytest.fixture
def transcriber() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """(url, requests): a server that answers like a transcribing one, and what it has been sent."""
    requests: list[tuple[str, bytes]] = []

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.append((self.headers["Content-Type"], body))
            reply = ASKED["transcribe"][2].encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_words: Any) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()


def test_a_transcribing_model_is_sent_a_form_with_sound(transcriber: tuple[str, list[tuple[str, bytes]]]) -> None:
    url, requests = transcriber
    assert endpoint.ask(endpoint.Access(url, ""), openai.request("transcribe", "m", ""), 30).ok
    ((kind, body),) = requests
    boundary = kind.partition("boundary=")[2].encode()
    parts = [part.strip(b"\r\n").split(b"\r\n\r\n", 1) for part in body.split(b"--" + boundary)[1:-1]]
    assert kind.startswith("multipart/form-data; ")
    assert [head for head, _ in parts] == [
        b'Content-Disposition: form-data; name="model"',
        b'Content-Disposition: form-data; name="file"; filename="sound.wav"',
    ]
    assert parts[0][1] == b"m"
    start = body.index(b"RIFF")
    with wave.open(io.BytesIO(body[start:])) as sound:
        assert (sound.getframerate(), sound.getnframes(), sound.getnchannels()) == (16_000, 16_000, 1)
