# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same with the real vLLM, with and without Ray: what a stand-in can't know. Minutes each: not in ./test."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines import openai
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.engine import Vllm

from .bare import HOSTS
from .group import CONTAINER, KEY, PORT, ROUTES, Group

pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def serving(real_group: Group) -> Iterator[Group]:
    asked = openai.warm_up("chat", "tiny", {"max-model-len": 2048}, Vllm.warm_words, sees=False)
    real_group.warm_up = [asdict(request) for request in asked]
    real_group.place(limits={"startup_limit_s": 600, "canary_s": 10})
    status = real_group.until_serving()
    print(f"\nready after {status['ready_s']} s, warm-up {status['warm_up_s']} s")
    # before anybody else has asked: ten short and ten longer prompts, each another one
    for name, text in (("short", "hello"), ("longer", "word " * 150)):
        taken = [real_group.first_token_s(f"{number} {text}") for number in range(10)]
        real_group.first_tokens[name] = taken
        print(f"{name} prompts, first token after {', '.join(f'{one:.2f}' for one in taken)} s")
    yield real_group


@pytest.mark.parametrize("kind", ["short", "longer"])
def test_the_first_client_waits_no_longer_than_the_others(serving: Group, kind: str) -> None:
    """Within 1.3 of the slowest of the nine after it: on a machine with other work each of them is late sometimes."""
    first, *others = serving.first_tokens[kind]
    assert first <= 1.3 * max(others)


def test_both_ranks_computed_it(serving: Group) -> None:
    assert "-tp2-" in serving.completion()["system_fingerprint"]


def test_no_route_answers_without_the_key(serving: Group) -> None:
    assert serving.open_routes() == []
    assert serving.open_routes(key=KEY) == [*ROUTES]


def test_a_saturated_run_is_never_restarted(serving: Group, request: pytest.FixtureRequest) -> None:
    """More requests than it computes at once, for --minutes."""
    before = serving.until_serving()
    end = time.monotonic() + 60 * request.config.getoption("--minutes")
    answers = 0

    def client() -> None:
        nonlocal answers
        while time.monotonic() < end:
            # Late answers are what saturation is, and with random weights an answer may be without a text.
            assert serving.completion(prompt="x" * 1000, patience_s=900)["usage"]["completion_tokens"]
            answers += 1

    with ThreadPoolExecutor(12) as clients:
        for ended in [clients.submit(client) for _ in range(12)]:
            ended.result()
    after = serving.status(serving.head)
    print(f"\n{answers} answers, {after['tokens_per_s']} tokens/s at the end")
    assert (after["epoch"], after["state"]) == (before["epoch"], "serving")
    assert "strike" not in serving.journal(serving.head)


def test_a_killed_worker(serving: Group) -> None:
    def kill_the_worker() -> None:
        serving.fleet.root(serving.worker, f"docker kill {CONTAINER}")

    serving.recovers(kill_the_worker)


def test_an_engine_that_hangs_while_health_answers_200(serving: Group) -> None:
    def stop_the_engine() -> None:
        serving.fleet.root(serving.head, "pkill -STOP -f '^VLLM::EngineCor'")
        assert serving.fleet.ok(serving.head, f"curl -sf http://127.0.0.1:{PORT}/health")

    serving.recovers(stop_the_engine)
    assert "T" in serving.evidence(serving.head, "processes.txt")


def test_nothing_of_it_is_left_when_the_owner_stops_it(serving: Group) -> None:
    serving.stop()
    for host in HOSTS:
        assert not serving.fleet.root(host, "docker ps --all --quiet")
