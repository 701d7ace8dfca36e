# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real vLLM sends its traces, with headers that nobody sees, and answers while nobody takes them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]

VARS = Path(__file__).resolve().parents[1] / "vars"
KEY = (VARS / "key.txt").read_text("utf-8").strip()
SECRET = (VARS / "trace-headers.txt").read_text("utf-8").strip().partition(": ")[2]
GOT = "/run/gb10-test-collector.jsonl"
# Takes what is posted, as a collector over HTTP does; a protobuf message holds its texts as they are.
COLLECTOR = f"""
import http.server, json
class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        texts = ("llm_request", "gen_ai.latency.time_to_first_token", "Gutenberg")
        seen = {{text: text.encode() in body for text in texts}}
        with open("{GOT}", "a") as file:
            print(json.dumps([self.path, self.headers["Authorization"], b"tiny" in body, seen]), file=file)
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("", 4318), Collector).serve_forever()
"""


def ask(host: Host) -> dict[str, Any]:
    body = json.dumps({"model": "tiny", "prompt": "Gutenberg printed", "max_tokens": 4})
    answer: dict[str, Any] = json.loads(
        host.check_output(
            "curl -skf -m 120 --retry 30 --retry-delay 2 --retry-all-errors -H 'Content-Type: application/json'"
            f" -H 'Authorization: Bearer {KEY}' -d %s https://127.0.0.1:8000/v1/completions",
            body,
        )
    )
    return answer


@pytest.fixture
def collector(host: Host) -> Iterator[None]:
    host.check_output("systemd-run --unit gb10-test-collector --collect python3 -c %s", COLLECTOR)
    yield
    host.run("systemctl stop gb10-test-collector; rm -f %s", GOT)


def test_it_answers_while_nobody_takes_its_traces(host: Host) -> None:
    assert host.run("ss -Htln sport = :4318").stdout == ""
    assert all(ask(host)["usage"]["completion_tokens"] == 4 for _ in range(5))


def test_a_request_is_a_span_at_the_collector_without_its_text(host: Host, collector: None) -> None:
    ask(host)
    until = time.monotonic() + 120
    got: list[Any] = []
    while not any(seen["llm_request"] for *_rest, seen in got) and time.monotonic() < until:
        time.sleep(1)
        got = [json.loads(line) for line in host.run("cat %s", GOT).stdout.splitlines()]
    assert {(path, sent) for path, sent, *_rest in got} == {("/v1/traces", SECRET)}
    named, seen = next((named, seen) for _path, _sent, named, seen in got if seen["llm_request"])
    assert named and seen["gen_ai.latency.time_to_first_token"]
    assert not any(seen["Gutenberg"] for *_rest, seen in got)


def test_its_headers_are_in_no_argument_log_or_file_that_others_read(host: Host) -> None:
    token = SECRET.rpartition(" ")[2]
    assert token not in host.check_output("ps -eo args")
    assert token not in host.check_output("docker inspect gb10-service-tiny")
    assert token not in host.run("journalctl -b --no-pager; docker logs gb10-service-tiny 2>&1").stdout
    readable = host.check_output("find /etc/gb10-fleet /etc/systemd/system /run/gb10-fleet -type f -perm /044")
    assert token not in "".join(host.file(path).content_string for path in readable.splitlines())
