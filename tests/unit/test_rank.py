# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rank's supervisor decides, by tables. What it does, is proved on lab hosts (tests/cluster)."""

from __future__ import annotations

import hmac
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import stand_in_engine
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import (
    client,
    endpoint,
    evidence,
    host,
    judge,
    members,
    probes,
    service,
    worker,
)
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.report import Ledger, Report
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.wire import WireError
from hypothesis import given
from hypothesis import strategies as st

BUDGET = service.Budget(starts=3, within_s=1800)
LIMITS = service.Limits(startup_limit_s=100, drain_s=60, stop_s=30, canary_s=30, strikes=3, budget=BUDGET)
PROBES = asdict(stand_in_engine.PROBES)
URL = "http://127.0.0.1:8000"
WRITTEN: dict[str, Any] = {
    "service": "pair",
    "rank": 0,
    "ranks": 2,
    "container": "gb10-service-pair",
    "run": ["docker", "run", "--rm", "img"],
    "serve": None,
    "address": "192.168.100.1",
    "rendezvous": {"address": "192.168.100.1", "port": 29400},
    "adapter": None,
    "peers": ["192.168.100.2"],
    "definition": "abc",
    "secret_file": "/etc/gb10-fleet/secrets/pair",
    "token": None,
    "endpoint": {"url": URL, "model": "m", "key_file": None, "key_form": "%s", "certificate": None},
    "readiness": None,
    "probes": PROBES,
    "gids": [{"device": "rocep1s0f1", "address": "192.168.100.1"}],
    "memory_bytes": 1,
    "guard": {
        "floor_bytes": 6 << 30,
        "high_bytes": 40 << 30,
        "creep_s": 300,
        "on_creep": "report",
        "unit": "gb10-memory-guard.service",
    },
    "ports": [8000],
    "limits": {
        "startup_limit_s": 100,
        "drain_s": 60,
        "stop_s": 30,
        "canary_s": 30,
        "strikes": 3,
        "budget": {"starts": 3, "within_s": 1800},
    },
    "warm_up": [{"path": "/echo", "body": {"text": "x"}, "answer": ["echo", 0]}],
}
HEAD = service.from_plan(WRITTEN)
SOLO = service.from_plan(WRITTEN | {"rendezvous": None, "gids": None, "ranks": 1, "peers": []})


def test_the_plans_file_is_read() -> None:
    assert HEAD.limits == LIMITS
    assert (HEAD.rendezvous, HEAD.unit) == (service.Address("192.168.100.1", 29400), "gb10-service-pair.service")
    assert asdict(HEAD.probes) == PROBES
    assert from_plan_without("exit_words", "joined", "metrics").metrics is None
    solo = service.from_plan(WRITTEN | {"rendezvous": None, "gids": None, "secret_file": None, "ranks": 1, "peers": []})
    assert (solo.rendezvous, solo.gids) == (None, None)


def from_plan_without(*names: str) -> probes.Probes:
    """Probes of which some keys are not written, or null."""
    left = {name: value for name, value in PROBES.items() if name not in names} | {"metrics": None}
    return service.from_plan(WRITTEN | {"probes": left}).probes


def with_(path: str, value: Any) -> str:
    """The file with another value at a dotted path; None removes the key."""
    changed = json.loads(json.dumps(WRITTEN))
    *above, name = path.split(".")
    inner = reduce(lambda found, key: found[key], above, changed)
    inner[name] = value
    if value is None:
        del inner[name]
    return json.dumps(changed)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "service is missing"),
        ("[]", "it is [], expected a map"),
        ("no JSON", "Expecting value"),
        (with_("warm_up", [{"url": "x"}]), "warm_up[0].url is not known"),
        (with_("container", 3), "container is 3, expected a text"),
        (with_("ports", ["8000"]), "ports[0] is '8000', expected a whole number"),
        (with_("memory_bytes", True), "memory_bytes is True, expected a whole number"),
        (with_("limits.budget.starts", 0), "limits: one of them is not above 0"),
        (with_("guard.on_creep", "kill"), "guard: on_creep is 'kill', expected report or restart"),
        (with_("rank", 2), "rank is 2, expected one of 2"),
        (with_("secret_file", None), "secret_file is missing"),
        (json.dumps(WRITTEN | {"secret_file": None}), "secret_file is null, which a service of several ranks needs"),
        (json.dumps(WRITTEN | {"endpoint": None}), "endpoint is null, which the head needs"),
        (json.dumps(WRITTEN | {"run": []}), "run has no command"),
        (with_("probes", None), "probes is missing"),
        (with_("probes.health", "ready"), "probes: 'ready' is no path below the endpoint"),
        (with_("probes.proof.answer", [1.5]), "probes.proof.answer[0] is 1.5, expected a text"),
        (with_("probes.metrics.tokens", "echo_work"), "probes.metrics.tokens is 'echo_work', expected a list"),
        (with_("probes.metrics.kv_use", None), "probes.metrics.kv_use is missing"),
        (with_("probes.exit_words", {"7": 7}), "probes.exit_words.7 is 7, expected a text"),
        (with_("probes.shared_memory", [""]), "probes: shared_memory has an empty name"),
        (with_("probes.joined.pattern", "("), "probes.joined: pattern '(' is no regular expression"),
        (with_("probes.joined.timeout_s", "30"), "probes.joined.timeout_s is '30', expected a number"),
        (with_("probes.livenes", {}), "probes.livenes is not known"),
    ],
)
def test_another_file_is_refused_in_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "pair.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"pair\.json is not as the plan writes it .*: run site\.yml") as found:
        service.read_service(file)
    assert problem in str(found.value)


@pytest.mark.parametrize(
    ("form", "text", "key"),
    [
        ("api-key: %s\n", 'api-key: "k\\"1"\n', 'k"1'),
        ("api-key: %s\n", 'api-key:   "k"\n\n', "k"),
        ("%s\n", '"k"', "k"),
        ("%s\n", "k", None),
        ("api-key: %s\n", 'other: "k"\n', None),
        ("api-key: %s\n", 'api-key: ""\n', None),
        ("api-key: %s\n", "", None),
    ],
)
def test_the_key_is_read_in_the_engines_own_form(tmp_path: Path, form: str, text: str, key: str | None) -> None:
    file = tmp_path / "key"
    file.write_text(text)
    assert service.read_key(None, form) == ""
    if key is not None:
        assert service.read_key(str(file), form) == key
        return
    with pytest.raises(ValueError, match=r"has no line|holds no key as a JSON text"):
        service.read_key(str(file), form)


# Budget -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("starts", "now", "may"),
    [
        ([], 0, True),
        ([1, 2], 3, True),
        ([1, 2, 3], 4, False),
        ([1, 2, 3], 1801, True),  # the first no longer counts
        ([1, 2, 3], 1800.5, False),
        ([5000, 5001, 5002], 10, True),  # of a boot before: the clock began anew
    ],
)
def test_three_starts_in_half_an_hour(starts: list[float], now: float, may: bool) -> None:
    assert judge.may_start(starts, now, LIMITS) is may


@given(st.lists(st.floats(0, 1e5)))
def test_a_window_never_holds_more_starts_than_the_budget(pauses: list[float]) -> None:
    now, starts = 0.0, []
    for pause in pauses:
        now += pause
        if judge.may_start(starts, now, LIMITS):
            starts.append(now)
    for start in starts:
        assert len([other for other in starts if start <= other < start + BUDGET.within_s]) <= BUDGET.starts


@pytest.mark.parametrize(
    ("restarts", "before", "is_owners"),
    [
        (0, None, True),  # after a boot, and the first start of all
        (0, 0, True),
        (0, 3, True),
        (1, 0, False),  # Restart=
        (4, 3, False),
        (3, 3, True),  # in the pause before one of systemd's, which ends and leaves the count
        (1, None, False),  # a ledger that was lost, or of an earlier release
        (None, None, False),
        (None, 3, False),
    ],
)
def test_a_start_is_the_owners_unless_systemd_has_counted_one_more(
    restarts: int | None, before: int | None, is_owners: bool
) -> None:
    """As systemd counts: core/service.c of 255 and 257."""
    assert judge.is_owners_start(restarts, before) is is_owners


def test_the_owners_start_is_a_new_budget(tmp_path: Path) -> None:
    def supervised(restarts: int | None) -> list[float]:
        ledger = Ledger(HEAD, pytest.fail, tmp_path)
        ledger.supervised(restarts)
        found = [*ledger.starts]
        ledger.launched(float(len(found)))
        return found

    # the owner's, two of systemd's, one that systemd says nothing of, the owner's in the pause, and a new one
    counted = [0, 1, 2, None, 2, 0]
    assert [len(supervised(restarts)) for restarts in counted] == [0, 1, 2, 3, 0, 0]


def test_the_budget_outlives_the_supervisor(tmp_path: Path) -> None:
    def ledger() -> Ledger:
        return Ledger(HEAD, pytest.fail, tmp_path)

    first = ledger()
    assert first.begin() == 1
    first.launched(10.0)
    second = ledger()
    assert second.begin() == 2
    second.launched(20.0)
    assert ledger().starts == [10.0, 20.0]
    second.restore_budget()
    assert ledger().starts == [10.0]
    second.clear()
    assert (ledger().starts, ledger().epoch) == ([], 2)


# Load -------------------------------------------------------------------------------------------------------------


def load(at: float, lines: int = 0, read_mib: int = 0, memory_mib: int = 0) -> judge.LoadLook:
    return judge.LoadLook(at, lines, read_mib << 20, memory_mib << 20)


@pytest.mark.parametrize(
    ("what", "later", "moved"),
    [
        ("nothing", load(50), False),
        ("a line of a new kind", load(50, lines=1), True),
        ("weights from disk", load(50, read_mib=50), True),
        ("chatter between processes", load(50, read_mib=10), False),
        ("memory filled", load(50, memory_mib=32), True),
        ("memory that wavers", load(50, memory_mib=31), False),
    ],
)
def test_what_counts_as_progress_of_a_load(what: str, later: judge.LoadLook, moved: bool) -> None:
    progress = judge.progressed(judge.progressed(None, load(0)), later)
    assert progress.moved_at == (50 if moved else 0), what


def test_a_load_may_take_any_time_while_it_moves_and_is_stuck_when_it_does_not() -> None:
    progress = None
    for minute in range(60):
        progress = judge.progressed(progress, load(minute * 60, read_mib=minute * 600))
        assert not judge.is_stuck(progress, LIMITS)
    for second in range(3600, 3639, 10):
        progress = judge.progressed(progress, load(second, read_mib=59 * 600))
        assert not judge.is_stuck(progress, LIMITS)
    assert judge.is_stuck(judge.progressed(progress, load(3641, read_mib=59 * 600)), LIMITS)


def test_memory_that_is_freed_and_taken_again_is_no_progress() -> None:
    progress = judge.progressed(None, load(0, memory_mib=1000))
    progress = judge.progressed(progress, load(10, memory_mib=100))
    assert judge.progressed(progress, load(20, memory_mib=1000)).moved_at == 0


def test_a_line_that_differs_in_numbers_alone_is_of_one_kind() -> None:
    first, second = (
        "No available shared memory block found in 60 seconds",
        "No available shared memory block found in 120 seconds",
    )
    assert judge.kind_of_line(first) == judge.kind_of_line(second) != judge.kind_of_line("Loading weights took 3 s")


# Liveness ---------------------------------------------------------------------------------------------------------

METERED = replace(stand_in_engine.PROBES, patience_s=300)
IDLE = judge.Metrics(tokens=100, answered=50, running=0, waiting=0, kv_use=0.0)
BUSY = replace(IDLE, running=2)


def look(at: float, metrics: judge.Metrics | None, cpu_s: float = 0.0, late: bool = False) -> judge.Look:
    return judge.Look(at, metrics, [cpu_s], silent_since=0 if late else None)


GROWN = replace(BUSY, kv_use=0.1)


@pytest.mark.parametrize(
    ("what", "before", "now", "life", "verdict"),
    [
        ("tokens move", look(0, BUSY), look(30, replace(BUSY, tokens=101)), 0, "alive"),
        ("a new engine began", look(0, BUSY), look(30, replace(BUSY, tokens=0)), 0, "alive"),
        ("idle", look(0, IDLE), look(30, IDLE), 0, "canary"),
        ("no metrics", look(0, None), look(30, None, late=True), 0, "strike"),
        ("no metrics any more", look(0, IDLE), look(30, IDLE, 0, late=True), 0, "strike"),
        ("no metrics while it works", look(0, IDLE), look(30, IDLE, 30, late=True), 0, "patient"),
        ("metrics refused", look(0, IDLE), look(30, None, 30), 0, "canary"),
        ("metrics again", look(0, None), look(30, BUSY), 0, "canary"),
        ("the gauge rises", look(0, BUSY, 0), look(30, GROWN, 30), 0, "patient"),
        (
            "the gauge rises again and again",
            look(600, BUSY, 0),
            look(630, GROWN, 30),
            judge.Life(0, 0, rises=2),
            "alive",
        ),
        ("it rises since somebody came", look(271, BUSY, 0), look(301, replace(GROWN, running=3), 30), 0, "patient"),
        ("it falls", look(271, GROWN, 0), look(301, BUSY, 30), judge.Life(0, 0, rises=2, moved=241), "hung"),
        ("it falls after a long standstill", look(271, GROWN, 0), look(301, BUSY, 30), 0, "patient"),
        ("a prompt that SGLang counts nowhere", look(0, IDLE), look(30, replace(IDLE, kv_use=0.1)), 0, "patient"),
        ("a long prefill", look(0, BUSY, 0), look(30, BUSY, 30), 0, "patient"),
        ("a long prefill, still", look(240, BUSY, 0), look(270, BUSY, 30), 0, "patient"),
        ("ranks that spin for ever", look(271, BUSY, 0), look(301, BUSY, 30), 0, "hung"),
        ("more and more who wait", look(271, BUSY, 0), look(301, replace(BUSY, waiting=9), 30), 0, "hung"),
        ("a stopped engine", look(0, BUSY, 10), look(30, BUSY, 10), 0, "strike"),
        (
            "requests wait and nothing works",
            look(0, replace(IDLE, waiting=1)),
            look(30, replace(IDLE, waiting=1)),
            0,
            "strike",
        ),
    ],
)
def test_liveness(
    what: str, before: judge.Look, now: judge.Look, life: judge.Life | float, verdict: judge.Verdict
) -> None:
    since = life if isinstance(life, judge.Life) else judge.Life.proved(life)
    assert judge.liveness(since, before, now, METERED)[0] == verdict, what


def story(gauge: Callable[[float], float], running: Callable[[float], int] = lambda _at: 1, last: int = 1800) -> float:
    """Seconds until an engine whose processes work is taken for hung, whose gauges are these at each time; 0: never."""
    life, before = judge.Life.proved(0), look(0, replace(BUSY, running=running(0), kv_use=gauge(0)))
    for at in range(30, last, 30):
        now = look(at, replace(BUSY, running=running(at), kv_use=gauge(at)), at)
        verdict, life = judge.liveness(life, before, now, METERED)
        if verdict == "hung":
            return at
        before = now
    return 0


@pytest.mark.parametrize("step_s", [1, 29, 45, 90, 119, 121, 170, 250, 300])
def test_a_prompt_lives_whose_steps_take_no_longer_than_a_step_may(step_s: int) -> None:
    """Found: with steps of 110 s it was killed before the third rise, as a dense model needs at 500,000 tokens."""
    assert story(lambda at: at // step_s / 1000) == 0


@pytest.mark.parametrize(
    ("what", "gauge", "running", "longest"),
    [
        ("a still gauge", lambda at: 0.5, lambda at: 1, 360),
        ("a rise as the step that hangs is let in", lambda at: 0.5 if at > 29 else 0.4, lambda at: 1, 360),
        ("noise", lambda at: 0.5 + at // 30 % 2 / 100, lambda at: 1, 360),
        ("noise beside clients", lambda at: 0.5 + at // 30 % 3 / 100, lambda at: 1 + at // 60 % 2, 360),
        ("clients come and go", lambda at: 0.1 * (1 + at // 30 % 3), lambda at: 1 + at // 30 % 3, 360),
        ("it falls, as one after the other gives up", lambda at: 0.9 - at / 4000, lambda at: 9 - at // 240, 360),
    ],
)
def test_a_hang_is_found_within_six_minutes(
    what: str, gauge: Callable[[float], float], running: Callable[[float], int], longest: float
) -> None:
    assert 0 < story(gauge, running) <= longest, what


def test_a_rank_that_works_is_enough() -> None:
    """The head's own processes may wait for another host's without spinning."""
    before, now = judge.Look(0, BUSY, [1, 5]), judge.Look(30, BUSY, [1, 35])
    assert judge.liveness(judge.Life.proved(0), before, now, METERED)[0] == "patient"


def test_silence_is_a_step_as_long_as_processes_work() -> None:
    """llama.cpp answers between two steps alone, and any server may read a long prompt meanwhile."""
    for cpu, at, verdict in ((30, 60, "patient"), (0, 60, "strike"), (30, 330, "hung")):
        before, now = look(at - 30, BUSY), look(at, BUSY, cpu, late=True)
        assert judge.liveness(judge.Life.proved(0), before, now, METERED)[0] == verdict


@given(st.floats(0, 1e3), st.floats(0, 1e3), st.integers(0, 9), st.integers(0, 9))
def test_an_endpoint_that_computes_is_never_struck(cpu: float, alive_at: float, running: int, waiting: int) -> None:
    then, now = judge.Metrics(1, 1, running, waiting, 0), look(30, judge.Metrics(2, 1, running, waiting, 0), cpu)
    assert judge.liveness(judge.Life.proved(alive_at), look(0, then), now, METERED) == (
        "alive" if running + waiting else "canary",
        judge.Life.proved(30),
    )


def test_metrics_are_read_by_the_engines_own_names() -> None:
    text = (
        "# HELP echo_busy x\n"
        'echo_busy{engine="0",model_name="m"} 2.0\necho_busy{engine="1"} 1.0\n'
        'echo_work{engine="0"} 1e+03\necho_words 20.0\necho_marks{engine="0"} 7.0\necho_words_bucket{le="1.0"} 99.0\n'
        'echo_kv{engine="0"} 0.25\necho_kv{engine="1"} 0.5\necho_queue NaN\n'
    )
    names = stand_in_engine.PROBES.metrics
    assert names is not None
    assert judge.parse_metrics(text, names) == judge.Metrics(1000, 27, 3, 0, 0.5)
    assert judge.parse_metrics("vllm:num_requests_running 1\n", names) == judge.Metrics(0, 0, 0, 0, 0)


def test_tokens_a_second() -> None:
    assert judge.tokens_a_second(look(0, IDLE), look(10, replace(IDLE, answered=150))) == 10
    assert judge.tokens_a_second(look(0, IDLE), look(10, replace(IDLE, answered=0))) == 0
    assert judge.tokens_a_second(look(0, None), look(10, IDLE)) is None
    assert judge.tokens_a_second(look(10, IDLE), look(10, replace(IDLE, answered=150))) is None


# Answers ----------------------------------------------------------------------------------------------------------


TOKENS, NUMBERS = ["usage", "completion_tokens"], ["data", 0, "embedding"]


@pytest.mark.parametrize(
    ("path", "reply", "ok", "final"),
    [
        (TOKENS, (200, '{"usage": {"completion_tokens": 1}}'), True, False),
        (TOKENS, (200, '{"usage": {"completion_tokens": 0}}'), False, False),
        (TOKENS, (200, "<html>"), False, False),
        (TOKENS, (200, "[]"), False, False),
        (TOKENS, (0, "timed out"), False, False),
        (TOKENS, (500, "EngineCore"), False, False),
        (TOKENS, (429, "busy"), False, False),
        (TOKENS, (401, "Unauthorized"), False, True),
        (NUMBERS, (200, '{"data": [{"embedding": [0.1]}]}'), True, False),
        (NUMBERS, (200, '{"data": []}'), False, False),
        (["echo", 0], (200, '{"echo": ["gb10"]}'), True, False),
        (["echo", 0], (200, '{"echo": [""]}'), False, False),
    ],
)
def test_what_is_an_answer(path: list[str | int], reply: tuple[int, str], ok: bool, final: bool) -> None:
    answer = endpoint.judged(path, client.Reply(*reply))
    assert (answer.ok, answer.final) == (ok, final)
    assert ok or answer.error


@pytest.mark.parametrize(
    ("status", "text", "canary"),
    [
        (503, "The engine is currently busy and cannot accept new requests. Please try again later", "silent"),
        (503, "The engine has reached its prefill token backlog limit. Please try again later", "silent"),
        (503, "The request queue is full.", "silent"),
        (503, "Request waiting timeout reached.", "silent"),
        (429, "", "silent"),
        (503, "EngineCore encountered an issue", "refused"),
        (500, "The request queue is full.", "refused"),
        (0, "Connection refused", "refused"),
    ],
)
def test_an_endpoint_that_takes_no_more_is_busy_and_not_sick(status: int, text: str, canary: judge.Canary) -> None:
    """vLLM since 0.29 refuses what is over `max-num-queued-reqs`, which counts those that run: a canary, too."""
    found = endpoint.judged(TOKENS, client.Reply(status, text)).canary
    assert found == canary
    full = look(30, replace(BUSY, tokens=200))
    assert judge.after_canary("alive", judge.Life.proved(30), found, full, full, METERED)[0] == (
        "alive" if canary == "silent" else "strike"
    )


@pytest.mark.parametrize(("at", "cpu_s", "verdict"), [(60, 30, "patient"), (60, 0, "strike"), (330, 30, "hung")])
def test_an_endpoint_that_seems_idle_may_be_in_its_first_step(at: float, cpu_s: float, verdict: judge.Verdict) -> None:
    """Found in the lab: vLLM counts a request after its first step, and was ended in one of 130 s as idle and dead."""
    asked, now = look(at - 30, IDLE), look(at, IDLE, cpu_s)
    life = judge.Life(0, began=0, waits=True)
    assert judge.after_canary("canary", life, "silent", asked, now, METERED)[0] == verdict


def test_the_step_that_keeps_a_canary_began_no_later_than_it() -> None:
    """Found by simulation: a prompt that came with the canary was killed in its first step of 299 s."""
    asked, now = look(29, IDLE), look(59, IDLE, 30)
    life = judge.after_canary("canary", judge.Life.proved(0), "silent", asked, now, METERED)[1]
    assert (life.at, life.began) == (0, 29)
    assert judge.after_canary("canary", life, "silent", now, look(89, IDLE, 60), METERED)[1].began == 29


def test_docker_is_asked_for_events_until_this_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found in the lab: a second that was rounded down left out the one in which Docker was asked to kill."""
    asked: list[list[str]] = []

    def run(words: list[str], _limit_s: float) -> SimpleNamespace:
        asked.append(words)
        return SimpleNamespace(stdout="")

    monkeypatch.setattr(host, "run", run)
    monkeypatch.setattr(host.time, "time", lambda: 1000.4)
    host.scene("c", "1" * 64, ())
    docker = next(words for words in asked if words[0] == "docker")
    assert float(docker[docker.index("--until") + 1]) >= 1000.4


# Ranks ------------------------------------------------------------------------------------------------------------

WHO = {"service": "pair", "rank": 1, "definition": "abc", "host": "spark-3"}


@pytest.mark.parametrize(
    ("who", "address", "problem"),
    [
        (WHO, "192.168.100.2", ""),
        (WHO, "192.168.100.3", "rank 1 of pair is at 192.168.100.2, not at 192.168.100.3"),
        (WHO | {"rank": 0}, "192.168.100.2", "which pair does not have"),
        (WHO | {"rank": 2}, "192.168.100.2", "which pair does not have"),
        (WHO | {"rank": "1"}, "192.168.100.2", "which pair does not have"),
        (WHO | {"service": "other"}, "192.168.100.2", "which pair does not have"),
        (
            WHO | {"definition": "def"},
            "192.168.100.2",
            "rank 1 (spark-3) has another definition of pair: run the playbook",
        ),
        ({}, "192.168.100.2", "which pair does not have"),
    ],
)
def test_who_is_taken_in(who: dict[str, Any], address: str, problem: str) -> None:
    problem_found = members.unfit(HEAD, who, address)
    assert problem in problem_found if problem else not problem_found


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('192.168.100.1', 29400)"), "(Connection refused)"),
        (TimeoutError(), "its supervisor does not answer"),
        (WireError("this host has another secret"), "this host has another secret"),
    ],
)
def test_why_a_head_is_not_reached(problem: Exception, words: str) -> None:
    assert worker.in_words(problem).endswith(words)


# The host ---------------------------------------------------------------------------------------------------------


def test_the_gid_index_goes_behind_docker_run() -> None:
    words = host.with_environment(["docker", "run", "--rm", "img", "m"], ["NCCL_IB_GID_INDEX=3"])
    assert words == ["docker", "run", "--env", "NCCL_IB_GID_INDEX=3", "--rm", "img", "m"]
    assert host.with_environment(["docker", "run", "img"], []) == ["docker", "run", "img"]


CDI = {
    "nvidia.yaml": "---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: all\n",
    "nvidia.json": '{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[]}',
}

LIBRARY = "  containerEdits: {mounts: [{hostPath: /gone/libcuda.so.580.159.04}]}\n"
# With numbers that are no driver's, and the relative target of a link in a hook.
OTHERS = "- /usr/lib/aarch64-linux-gnu/libnvidia-egl-gbm.so.1.1.2\n- ../libglxserver_nvidia.so.580.159.04::/usr/lib/x\n"


@pytest.mark.parametrize(
    ("folders", "files", "found"),
    [
        ("[{here}]", {"nvidia.yaml": CDI["nvidia.yaml"]}, True),
        ("[{here}]", {"nvidia.json": CDI["nvidia.json"]}, True),
        ('["/no/such/folder", {here}]', {"x.yaml": "kind: vendor.com/nic\n", **CDI}, True),
        ("[{here}]", {"nvidia.yaml": "kind: nvidia.com/gpu-else\n"}, False),
        ("[{here}]", {"nvidia.yaml.old": CDI["nvidia.yaml"]}, False),
        ("[{here}]", {}, False),
        ("[{here}]", {"nvidia.yaml": CDI["nvidia.yaml"] + LIBRARY.replace("/gone", "{here}")}, True),
        ("[{here}]", {"nvidia.yaml": CDI["nvidia.yaml"] + LIBRARY}, False),  # of an earlier driver: the hook is taken
        ("[{here}]", {"nvidia.yaml": CDI["nvidia.yaml"] + OTHERS}, True),
        ("[]", CDI, False),  # Docker 25 to 28.2 without the feature
        ("null", CDI, False),
        ("template: no such field", CDI, False),
    ],
)
def test_the_gpu_comes_by_its_specification_where_docker_reads_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folders: str, files: dict[str, str], found: bool
) -> None:
    """A reload of systemd takes the GPU from containers that got it by NVIDIA's hook."""
    (tmp_path / "libcuda.so.580.159.04").touch()
    for name, text in files.items():
        (tmp_path / name).write_text(text.replace("{here}", str(tmp_path)))
    answer = folders.replace("{here}", json.dumps(str(tmp_path)))
    monkeypatch.setattr(host, "run", lambda words: subprocess.CompletedProcess(words, 0, answer, ""))
    assert host.gpu_by_specification() == found


def test_a_specification_replaces_the_option_of_the_hook() -> None:
    words = host.with_specification(["docker", "run", "--pull", "never", "--gpus", "all", "--ulimit", "stack=1", "img"])
    assert words == ["docker", "run", "--pull", "never", "--device", "nvidia.com/gpu=all", "--ulimit", "stack=1", "img"]


@pytest.mark.parametrize(
    ("shown", "floor"),
    [
        (
            "ActiveState=active\nExecStart={ path=/usr/bin/python3 ; argv[]=/usr/bin/python3 -I "
            "/usr/local/lib/gb10-fleet/memory_guard.py 3221225472 1610612736 900 ; ignore_errors=no }\n",
            3 << 30,
        ),
        ("ActiveState=inactive\nExecStart={ argv[]=python3 memory_guard.py 3221225472 1610612736 900 ; }\n", 0),
        ("ActiveState=inactive\n", 0),
        ("", 0),
    ],
)
def test_a_start_that_the_memory_guard_would_end_waits(monkeypatch: pytest.MonkeyPatch, shown: str, floor: int) -> None:
    """Found: a start that the guard ended right after its load, and then a second, used the budget up."""
    done = subprocess.CompletedProcess([], 0, shown, "")
    monkeypatch.setattr(host, "run", lambda *_words: done)
    found = host.guard_floor("gb10-memory-guard.service")
    assert found == floor
    short = host.short_of_memory(12 << 30, 10 << 30, found)
    assert (short is None) == (not floor)
    assert short is None or "beside the 3.0 GiB under which the memory guard ends an engine" in short


def test_what_site_yml_brings_is_looked_for_often() -> None:
    missing = 'docker: Error response from daemon: No such image: "x"'
    assert [judge.pause_s(9, obstacle) for obstacle in (missing, "port 8000 can't be had")] == [5.0, 60.0]


@pytest.mark.parametrize(("available", "fits"), [(10 << 30, True), (9 << 30, False)])
def test_memory_that_is_not_there_is_reported(available: int, fits: bool) -> None:
    problem_found = host.short_of_memory(available, 10 << 30)
    assert (
        problem_found is None
        if fits
        else "9.0 GiB of memory are free, this service needs 10.0 GiB" in str(problem_found)
    )


def test_shared_memory_of_dead_ranks_goes_and_that_of_others_stays(tmp_path: Path) -> None:
    shared, proc = tmp_path / "shm", tmp_path / "proc"
    shared.mkdir()
    for name in ("echo-dead", "echo-mapped", "echo-open", "owners-own", "psm_other"):
        (shared / name).write_text("x")
    (proc / "7" / "fd").mkdir(parents=True)
    inode = (shared / "echo-mapped").stat().st_ino
    (proc / "7" / "maps").write_text(
        f"7f00-7f01 rw-s 00000000 00:19 {inode} /dev/shm/echo-mapped\n7f02-7f03 r--p 0 0:0 0\n"
    )
    (proc / "self").mkdir()
    assert [file.name for file in host.orphans(shared, proc, ["echo-"]) if file.name != "echo-open"] == ["echo-dead"]


def test_only_files_of_our_own_user_are_orphans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "echo-1").write_text("x")
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert host.orphans(tmp_path, tmp_path, ["echo-"]) == []


def test_this_process_is_in_its_own_usage() -> None:
    used = host.usage(os.getpid())
    assert used.memory_bytes > 1 << 20
    assert host.usage(0) == host.Usage()


# Ray --------------------------------------------------------------------------------------------------------------

RAY = {"command": ["ray", "--version"], "pattern": r"version (\d+(?:\.\d+)+)", "least": [2, 52], "otherwise": "bad"}


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("ray, version 2.52.0\n", None),
        ("ray, version 2.60.1", None),
        ("ray, version 3.0", None),
        ("Some NGC banner, version of nothing\nray, version 2.100.0.dev0+abc", None),
        ("ray, version 2.51.9\n", "the image has 2.51.9, expected 2.52 or newer: bad"),
        ("ray, version 2.6", "the image has 2.6, expected 2.52 or newer: bad"),
        ("ray, version 1.99.0", "the image has 1.99.0, expected 2.52 or newer: bad"),
        ("", "`ray --version` shows no version: ''; expected 2.52 or newer"),
        ("no end after 180 s", "`ray --version` shows no version: 'no end after 180 s'; expected 2.52 or newer"),
        ("ray, version 99999999999999999999.1", None),
    ],
)
def test_a_ray_that_asks_nobody_who_he_is_starts_nothing(output: str, problem: str | None) -> None:
    assert judge.too_old(probes.Requires(**RAY), output) == problem


@pytest.mark.parametrize("pattern", ["(", "version", "(a)(b)"])
def test_a_version_is_one_group(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        probes.Requires(**RAY | {"pattern": pattern})


def test_rays_token_shows_nothing_of_the_groups_secret(tmp_path: Path) -> None:
    secret = b"0123456789abcdef0123456789abcdef"
    token = service.Token(str(tmp_path / "pair" / "token"), "ray")
    host.give_token(token, b"another")
    host.give_token(token, secret)
    written = Path(token.file).read_text()
    assert written == hmac.new(secret, b"ray", "sha256").hexdigest() != service.Token("", "other").derived(secret)
    assert secret.decode() not in written
    assert oct(Path(token.file).stat().st_mode & 0o777) == "0o600"
    assert [file.name for file in Path(token.file).parent.iterdir()] == ["token"]


def test_a_token_of_no_secret_is_refused() -> None:
    wrong = WRITTEN | {"ranks": 1, "peers": [], "secret_file": None, "token": {"file": "/x", "purpose": "ray"}}
    with pytest.raises(ValueError, match="which the token is derived from"):
        service.from_plan(wrong)


# What is told -----------------------------------------------------------------------------------------------------


def test_secrets_are_masked_in_all_that_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(HEAD, ["s3cret", ""], tmp_path)
    report.enter("loading", "the key is s3cret", error="s3cret")
    report.log("argv: --api-key s3cret")
    written = (tmp_path / "pair" / "status.json").read_text()
    assert "s3cret" not in capsys.readouterr().out + written
    assert json.loads(written)["state"] == "loading"


def test_a_sentence_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(HEAD, [], tmp_path)
    report.enter("waiting", "for rank 1")
    report.enter("waiting", "for rank 1")
    assert capsys.readouterr().out == "gb10.fleet: for rank 1\n"


def test_inspect_is_kept_without_secrets() -> None:
    variables = ["HF_TOKEN=hf_x", "HF_TOKEN_PATH=/run/token", "VLLM_API_KEY=k", "TORCH_X=1"]
    kept = evidence.without_secrets({"Id": "1", "Config": {"Env": variables, "Image": "i"}})
    assert kept["Config"] == {
        "Env": ["HF_TOKEN=***", "HF_TOKEN_PATH=/run/token", "VLLM_API_KEY=***", "TORCH_X=1"],
        "Image": "i",
    }
    assert evidence.without_secrets({})["Config"] == {"Env": []}


def test_the_newest_bundles_are_kept(tmp_path: Path) -> None:
    report = Report(HEAD, ["s3cret"], tmp_path / "run")
    for epoch in range(1, evidence.KEPT + 3):
        report.update(epoch=epoch)
        bundle = evidence.keep(HEAD, report, None, "rank 1 is lost, s3cret", tmp_path)
    kept = sorted(path.name.rpartition("-")[2] for path in (tmp_path / "pair").iterdir())
    assert kept == [str(epoch) for epoch in range(3, evidence.KEPT + 3)]
    assert (bundle / "reason.txt").read_text() == "rank 1 is lost, ***\n"
    assert (bundle / "memory.txt").read_text().startswith("MemTotal")


def test_a_command_in_a_container_is_found_by_its_words() -> None:
    """`docker stop` reaches the first process alone: the others are asked by their ids on the host."""
    running = {
        4711: "ray start --head --block",
        4712: "/usr/bin/python3 /usr/local/bin/vllm serve org/model --port 8000",
        4713: "VLLM::EngineCore",
    }
    assert judge.process_ids(running, [["vllm", "serve", "org/model", "--port", "8000"]]) == [4712]
    assert judge.process_ids(running, [["vllm", "serve", "org/other"]]) == []
    assert judge.process_ids({}, [["vllm"]]) == []
