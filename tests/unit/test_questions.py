# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verify asks what breaks an engine that answers a short question."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines import openai
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.client import Reply
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify import service
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.promised import verdict
from ansible_collections.gb10.fleet.plugins.module_utils._plan import service_slice
from test_speed_plan import planned

ANSWER = Reply(200, json.dumps({"choices": [{"message": {"content": "hi"}}], "usage": {"completion_tokens": 2}}))


def names(flags: dict[str, Any], context: int | None = 131072, sees: bool = False) -> list[str]:
    return [one["name"] for one in openai.questions("tiny", flags, context, sees, None)]


def test_what_is_asked_follows_what_the_service_has() -> None:
    prompts = ["a long prompt", "the same prompt again"]
    assert names({}) == prompts
    assert names({"enable-auto-tool-choice": True}) == [*prompts, "a call of a tool"]
    assert names({"tool-call-parser": "glm47"}, sees=True) == [*prompts, "a call of a tool", "an image"]
    assert names({"enable-auto-tool-choice": False}) == prompts


@pytest.mark.parametrize(
    ("flags", "context", "least", "most"),
    [
        ({"max-num-batched-tokens": 4096}, 202752, 4097, 12000),
        ({"chunked-prefill-size": 2048}, 32768, 2049, 6000),
        ({"chunked-prefill-size": -1}, 32768, 8193, 32640),
        ({}, 2048, 900, 1920),
        ({}, None, 4000, 8064),
        # a model whose shape the plan does not know: seen in the lab, 8,097 tokens for a service of 2,048
        ({"max-model-len": 2048}, None, 900, 1920),
        ({"ctx-size": 0}, None, 4000, 8064),
    ],
)
def test_a_prompt_is_longer_than_a_batch_and_fits(
    flags: dict[str, Any], context: int | None, least: int, most: int
) -> None:
    """A word is a token at the least, and two of a tokenizer of bytes."""
    asked = next(openai.questions("tiny", flags, context, sees=False, speed=None))
    text = asked["request"]["body"]["messages"][0]["content"] * asked["times"]
    assert least <= len(text.split())
    assert len(text) <= most
    assert asked["limit_s"] >= 120 + len(text.split()) // 50


# Of a dense model of 70 billion parameters on one host: its slow end.
SLOW: Any = {"alone": {"ttft_high": 5.0, "low": 3.2}, "together": {"ttft_high": 13.0, "low": 3.0}, "prompt": 2048}


@pytest.mark.parametrize(
    ("speed", "words", "context", "limit_s"),
    [
        (None, 10240, 131072, 324),
        (None, 0, 131072, 120),
        # a wait for 13 s of others' prompts, 5 s of its own, 8 s of answer; twice that
        (SLOW, 0, 2048, 120 + 52),
        # 20,480 tokens take 50 s
        (SLOW, 10240, 2048, 120 + 142),
        # another client's document of 131,072 tokens takes 320 s
        (SLOW, 10240, 131072, 120 + 756),
        (SLOW | {"together": None}, 0, 2048, 120 + 35),
    ],
)
def test_a_limit_follows_the_forecast_and_the_context(speed: Any, words: int, context: int, limit_s: int) -> None:
    """Found: each service had the same limit, of 50 tokens a second."""
    assert openai.limit_s(speed, words, context) == limit_s


def test_the_plan_brings_its_forecast_to_the_questions() -> None:
    plan = planned("llama-3.3-70b-instruct-nvfp4")
    service = plan["services"]["s"]
    [proof] = [each["proof"] for each in plan["hosts"]["titan"]["services"] if each["name"] == "s"]
    expected = openai.questions(
        service["served_name"], service["flags"], service["kv"]["context"], False, service["speed"]
    )
    assert service["speed"] is not None
    assert [one["limit_s"] for one in proof["questions"]][:2] == [one["limit_s"] for one in expected][:2]


def test_a_context_without_room_is_not_filled() -> None:
    assert names({}, context=100) == []


@pytest.mark.parametrize(
    ("replies", "failed"),
    [
        ([ANSWER] * 3, ""),
        ([ANSWER, Reply(500, "EngineDead")], "the same prompt again: HTTP 500: EngineDead"),
        ([Reply(0, "no answer within 220 s", late=True)], "a long prompt: no answer within 220 s"),
        ([Reply(429, "later"), ANSWER, ANSWER], ""),
        ([ANSWER, ANSWER, Reply(503, "The request queue is full.")], ""),
    ],
)
def test_the_first_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, replies: list[Reply], failed: str) -> None:
    """Found: 4-bit MLA on vLLM 0.26 answers a short question and dies by the first long one, and was proved healthy."""
    asked = [*openai.questions("tiny", {"tool-call-parser": "x"}, 8192, sees=False, speed=None)]
    given = iter(replies)
    monkeypatch.setattr(service, "fetch", lambda *_words: next(given))
    found = service.failed_question({"url": "http://127.0.0.1:1", "questions": asked}, "", None)
    assert found == failed


def test_a_service_that_fails_one_is_not_ready() -> None:
    unit = {"active": "active", "restarts": 0, "drop_ins": []}
    reply = {"ok": True, "answer": "hello", "error": "", "fingerprint": ""}
    reading = {"unit": unit, "reply": reply, "supervisor": {"state": "serving"}, "log_tail": [], "unanswered": ""}
    assert verdict("x.service", reading, 0).state == "ready"
    now = verdict("x.service", reading | {"unanswered": "a long prompt: HTTP 500: x"}, 0)
    assert (now.state, "fails at a long prompt: HTTP 500" in now.text) == ("failed", True)


@pytest.mark.parametrize(("cold_bytes", "low", "high"), [(0, 1000, 1000), (50, 950, 1050)])
def test_a_pool_that_a_warm_cache_alone_changes_is_as_planned(cold_bytes: int, low: int, high: int) -> None:
    """Found: the second start of a pool by utilization was another build or other flags."""
    kv = {"tokens": 1000, "bytes": 1000, "exact": True, "tokens_low": 1, "tokens_high": 2}
    found = service_slice._expected(kv, "0.28.0", cold_bytes)
    assert (found["kv_tokens_low"], found["kv_tokens_high"]) == (low, high)


def warm(flags: dict[str, Any], sees: bool = False, kind: str = "chat", words: Any = (8, 1024, 0)) -> list[Any]:
    return openai.warm_up(kind, "tiny", flags, words, sees)


def letters(request: Any) -> int:
    return len(request.body["messages"][0]["content"])


@pytest.mark.parametrize(
    ("flags", "prompts"),
    [
        ({"max-model-len": 131072, "max-num-batched-tokens": 4096}, [8, 1024, 4097]),
        ({"max-model-len": "128k", "max-num-batched-tokens": "4k"}, [8, 1024, 4001]),
        ({"context-length": 131072, "chunked-prefill-size": 2048}, [8, 1024, 2049]),
        # its own batch has no room in the context, whatever a tokenizer makes of a word
        ({"max-model-len": 32768, "max-num-batched-tokens": 8192}, [8, 1024]),
        ({"max-model-len": 2048}, [8, 203]),
        ({"max-model-len": 20}, [1, 1]),
        # nobody knows how long a request may be
        ({}, [8, 1024]),
        ({"max-model-len": -1}, [8, 1024]),
        ({"max-model-len": "auto"}, [8, 1024]),
        # what a slot of llama.cpp holds
        ({"ctx-size": 16384, "parallel": 4}, [8, 408]),
    ],
)
def test_prompts_before_clients_come_are_as_long_as_the_service_allows(
    flags: dict[str, Any], prompts: list[int]
) -> None:
    assert [letters(request) // len("word ") for request in warm(flags)] == prompts


def test_what_a_first_client_would_wait_for_is_asked_before() -> None:
    flags = {"max-model-len": 2048, "enable-auto-tool-choice": True, "tool-call-parser": "hermes"}
    *texts, tool, image = warm(flags, sees=True)
    assert len(texts) == 2
    assert "tools" in tool.body and "tools" not in image.body
    assert image.body["messages"][0]["content"][1]["type"] == "image_url"
    assert {request.body["max_tokens"] for request in warm(flags, sees=True)} == {16}
    assert len(warm({})) == 2
    # an embedding has neither, and fits into one batch of llama.cpp, which takes no longer one
    embedded = warm(flags | {"ctx-size": 8192}, sees=True, kind="embed")
    assert [(one.path, len(one.body["input"]) < 512) for one in embedded] == [("/v1/embeddings", True)] * 2


@pytest.mark.parametrize(
    ("flags", "config", "expected"),
    [
        ({}, {"vision_config": {}}, True),
        ({}, {}, False),
        ({}, None, False),
        ({"limit-mm-per-prompt": {"image": 0}}, {"vision_config": {}}, False),
        ({"limit-mm-per-prompt": {"image": 2}}, {"vision_config": {}}, True),
        ({"language-model-only": True}, {"vision_config": {}}, False),
    ],
)
def test_a_service_sees_what_its_model_and_options_allow(flags: Any, config: Any, expected: bool) -> None:
    assert openai.sees(flags, config) is expected
