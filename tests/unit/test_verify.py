"""What readings of a service mean."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines import openai
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.client import Reply
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.promised import (
    comparison,
    computed_by_others,
    promised,
    verdict,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.service import answered
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.tables import end_table

VLLM = ENGINES["vllm"]
UNIT = "gb10-service-nano.service"


def reading(
    active: str = "active", restarts: int = 0, reply: Any = None, log: list[str] | None = None, **status: Any
) -> dict[str, Any]:
    """told: what the supervisor says besides that it serves."""
    unit = {"active": active, "sub": "running", "result": "exit-code", "restarts": restarts, "invocation": "x"}
    unit["drop_ins"] = []
    supervisor = {"state": "serving", "error": "", "last_end": ""} | status
    return {"unit": unit, "reply": reply, "log_tail": log or [], "supervisor": supervisor, "boot": {}}


def expected(tokens: int | None, low: int | None = None, high: int | None = None) -> dict[str, Any]:
    low, high = (tokens, tokens) if low is None else (low, high)
    return {"release": None, "kv_tokens": tokens, "kv_tokens_low": low, "kv_tokens_high": high}


def obstructed(now: str, **status: Any) -> dict[str, Any]:
    """A service that could not start since eight o'clock."""
    since = {"since": "2026-11-22T08:00:00+00:00", "updated_at": now}
    return reading(**({"state": "preparing", "error": "port 8000 can't be had"} | since | status))


ANSWER = {"ok": True, "answer": "Hello", "error": "", "fingerprint": ""}
REFUSED = {"ok": False, "answer": "", "error": "HTTP 401: Unauthorized", "fingerprint": ""}


@pytest.mark.parametrize(
    ("now", "state"),
    [
        (reading(reply=ANSWER), "ready"),
        (reading(log=["INFO loading"]), "waiting"),
        (reading(reply=REFUSED), "waiting"),
        (reading(reply=ANSWER, state="warming"), "waiting"),
        (reading(state="loading", last_end="rank 1 left"), "waiting"),
        (reading() | {"supervisor": None}, "waiting"),
        (reading(reply=ANSWER, age_s=61.0), "waiting"),  # whoever answers, nobody watches it
        (reading(reply=ANSWER, age_s=9.0), "ready"),
        (obstructed("2026-11-22T08:01:30+00:00"), "waiting"),
        (obstructed("2026-11-22T08:01:31+00:00"), "failed"),
        (obstructed("2026-11-22T08:01:31+00:00", state="waiting"), "waiting"),
        (obstructed("2026-11-22T08:01:31+00:00", error=""), "waiting"),
        (reading(active="activating"), "waiting"),
        (reading(active="failed"), "failed"),
        (reading(restarts=1), "failed"),
        (reading(active="inactive"), "failed"),
    ],
)
def test_verdict(now: dict[str, Any], state: str) -> None:
    assert verdict(UNIT, now, restarts_before=0).state == state


def test_an_obstacle_of_before_this_run_is_looked_at_again() -> None:
    """Found: site.yml brought the image that was missing, and failed by the sentence of before."""
    now = obstructed("2026-11-22T08:01:31+00:00")
    assert verdict(UNIT, now, restarts_before=0, waited_s=74.0).state == "waiting"
    assert verdict(UNIT, now, restarts_before=0, waited_s=75.0).state == "failed"


def test_an_owners_drop_in_is_named_where_its_unit_fails() -> None:
    """Found in the lab: site.yml said "unit result: exit-code" of a unit that an owner's drop-in made fail."""
    now, mine = reading(active="failed"), f"/etc/systemd/system/{UNIT}.d/mine.conf"
    assert "changes" not in verdict(UNIT, now, restarts_before=0).text
    now["unit"]["drop_ins"] = [mine]
    text = verdict(UNIT, now, restarts_before=0).text
    assert f"{mine} changes the unit, which systemctl revert {UNIT} undoes" in text


def test_a_dead_start_is_explained_by_its_last_error() -> None:
    log = ["INFO starting", "vllm: error: unrecognized arguments: --no-such-flag", "exited"]
    text = verdict(UNIT, reading(restarts=3, log=log), restarts_before=2).text
    assert "unrecognized arguments: --no-such-flag" in text
    assert f"journalctl -u {UNIT}" in text


def test_what_a_supervisor_reports_is_shown_meanwhile() -> None:
    assert "rank 1 left" in verdict(UNIT, reading(state="loading", last_end="rank 1 left"), 0).text
    assert "spark-3" in verdict(UNIT, reading(state="waiting", error="spark-3 is not there"), 0).text


def test_the_engines_own_words_are_not_taken_for_the_phase() -> None:
    """A load that goes on looked like a fault."""
    line = "W1122 find_triton_kernels = []"
    assert verdict(UNIT, reading(state="loading", log=[line]), 0).text == f"loading; the engine's last line: {line}"
    assert verdict(UNIT, reading() | {"supervisor": None}, 0).text.startswith("starting; ")


def test_a_budget_that_is_used_up_is_explained_by_the_supervisor() -> None:
    text = verdict(UNIT, reading(active="failed", state="stopped", error="3 starts did not last"), 0).text
    assert "3 starts did not last" in text


def test_plan_and_boot_log_agree_or_a_finding_shows_by_how_much() -> None:
    assert promised(VLLM, "nano", expected(1000), {"kv_cache_tokens": 1000}) == []
    assert promised(VLLM, "nano", expected(None), {"kv_cache_tokens": 1000}) == []
    assert promised(VLLM, "nano", expected(1000, 900, 1100), {"kv_cache_tokens": 990}) == []
    (finding,) = promised(VLLM, "nano", expected(1000), {"kv_cache_tokens": 990})
    assert finding.rule == "verify-kv-pool"
    assert finding.expected == "1,000 planned (-1.00%)"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ((990,), "KV pool 990 tokens, as planned"),
        ((1000,), "KV pool 990 tokens, 1,000 planned (-1.00%)"),
        ((1000, 900, 1100), "KV pool 990 tokens, 1,000 planned (-1.00%), 900 to 1,100 before the first boot"),
        ((None,), ""),
    ],
)
def test_every_start_shows_how_it_compares(wanted: tuple[int | None, ...], words: str) -> None:
    assert comparison(expected(*wanted), {"kv_cache_tokens": 990}) == words
    assert comparison(expected(*wanted), {}) == ""


@pytest.mark.parametrize(
    ("named", "runs", "rules"),
    [
        ("0.23.0", "0.23.0", []),
        ("0.23.0", "0.23.0+cu130", []),
        ("0.23.0", "0.24.0", ["verify-release"]),
        (None, "0.24.0", []),
        ("0.23.0", None, []),
        ("nightly", "0.24.0", []),
    ],
)
def test_another_release_than_the_recipe_names_is_reported(
    named: str | None, runs: str | None, rules: list[str]
) -> None:
    found = promised(VLLM, "nano", expected(None) | {"release": named}, {"release": runs})
    assert [finding.rule for finding in found] == rules


@pytest.mark.parametrize(
    ("fingerprint", "ranks", "rules"),
    [
        ("vllm-0.32.0-tp2-57c051c7", 2, []),
        ("vllm-0.32.0-tp2-pp2-57c051c7", 4, []),
        ("vllm-0.32.0-57c051c7", 1, []),
        ("", 2, []),
        ("vllm-0.32.0-tp2-57c051c7", 1, ["verify-ranks"]),
        ("vllm-0.32.0-tp1-57c051c7", 2, ["verify-ranks"]),
    ],
)
def test_the_answer_is_that_of_all_ranks(fingerprint: str, ranks: int, rules: list[str]) -> None:
    found = computed_by_others(VLLM, "nano", ranks, fingerprint)
    assert [finding.rule for finding in (found,) if finding] == rules


@pytest.mark.parametrize(
    ("kind", "reply", "text"),
    [
        ("chat", {"choices": [{"message": {"content": "hi"}}]}, "hi"),
        ("chat", {"choices": [{"message": {"content": None, "reasoning_content": "hm"}}]}, "hm"),
        ("embed", {"data": [{"embedding": [0.0] * 768}]}, "768 numbers"),
    ],
)
def test_the_answer_in_a_reply(kind: str, reply: dict[str, Any], text: str) -> None:
    answers = openai.example(kind, "nano").answers
    whole = json.dumps(reply | {"system_fingerprint": "vllm-1"})
    assert answered(answers, Reply(200, whole)) == {"ok": True, "answer": text, "fingerprint": "vllm-1", "error": ""}
    assert answered(answers, Reply(200, json.dumps(reply)))["fingerprint"] == ""


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(200, "{}"), "a reply without an answer: {}"),
        (Reply(200, '{"choices": []}'), 'a reply without an answer: {"choices": []}'),
        (Reply(200, '{"choices": null}'), 'a reply without an answer: {"choices": null}'),
        (
            Reply(200, '{"choices": [{"message": {"content": ""}}]}'),
            'an answer of nothing: {"choices": [{"message": {"content": ""}}]}',
        ),
        (Reply(200, "nobody"), "a reply without an answer: nobody"),
        (Reply(503, "loading"), "HTTP 503: loading"),
        (Reply(0, "connection refused"), "connection refused"),
    ],
)
def test_a_reply_without_an_answer_is_no_answer(reply: Reply, error: str) -> None:
    found = answered(openai.example("chat", "nano").answers, reply)
    assert (found["ok"], found["error"]) == (False, error)


def test_the_end_of_a_run_reports_how_a_start_compares() -> None:
    kv = {"context": 8192, "bytes": 1 << 30, "tokens": 1000}
    service = {"endpoint": "http://titan:8000/v1", "served_name": "nano", "kv": kv, "hosts": ["titan"]}
    plan = {
        "services": {"nano": service},
        "hosts": {"titan": {"services": [{"name": "nano", "memory_bytes": 2 << 30, "key": None, "tls": None}]}},
        "gateway": None,
        "clients": [],
    }
    found = {"state": "serving", "answer": "Hello", "comparison": "KV pool 1,000 tokens, as planned", "problems": []}
    text = end_table(plan, ["nano"], ["titan"], {("titan", "nano"): found}, {}, {})
    assert 'nano on titan says: "Hello"\nnano on titan: KV pool 1,000 tokens, as planned' in text
