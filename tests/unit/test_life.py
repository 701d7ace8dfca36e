# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which endpoints live and which are hung, as a supervisor sees them from look to look: an hour in a moment."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp import engine as llama_cpp
from ansible_collections.gb10.fleet.plugins.module_utils._engines.sglang import engine as sglang
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm import probes as vllm
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import endpoint, host, judge, members, serving
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import report as shown
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.probes import Metrics, Probes
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.report import Report
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.service import from_plan
from test_rank import WRITTEN

HOUR, SIX_MINUTES = 3600.0, 360.0
SOLO = from_plan(WRITTEN | {"ranks": 1, "rank": 0, "peers": [], "rendezvous": None, "secret_file": None})
VLLM = vllm.probes("chat", "tiny", on_ray=False)
SGLANG = replace(VLLM, metrics=sglang.METRICS)
LLAMA_CPP = replace(VLLM, metrics=llama_cpp.METRICS, patience_s=300)
TRTLLM = replace(VLLM, metrics=None, patience_s=300)
WARM = judge.Metrics(tokens=1000, answered=10, running=0, waiting=0, kv_use=0.0)
REFUSES = judge.Metrics(tokens=-1, answered=0, running=0, waiting=0, kv_use=0.0)


@dataclass(frozen=True)
class Engine:
    """metrics: what it gives at a time, None while it is silent, REFUSES for an error. answers: seconds that a canary
    then takes, None for ever, below 0 for a refusal. cores: its processes use so many, until they stop."""

    metrics: Callable[[float], judge.Metrics | None]
    answers: Callable[[float], float | None]
    cores: float = 1.0
    stops_at: float = HOUR


def dead_after(engine: Engine, probes: Probes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> float | None:
    """When the supervisor ends it, in seconds; None: not within an hour."""
    now = 0.0

    class OverError(Exception):
        pass

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        if now > HOUR:
            raise OverError

    def metrics(_access: endpoint.Access, _names: Metrics, timeout_s: float) -> judge.Metrics | None:
        nonlocal now
        until = now + timeout_s
        while (seen := engine.metrics(now)) is None and now < until:
            now += 1
        return None if seen is REFUSES else seen

    def ask(_access: endpoint.Access, _request: Any, timeout_s: float) -> endpoint.Answer:
        nonlocal now
        took = engine.answers(now)
        if took is not None and took < 0:
            return endpoint.Answer(False, "HTTP 500: it failed")
        now += timeout_s if took is None else min(took, timeout_s)
        late = took is None or took > timeout_s
        return endpoint.Answer(not late, "timed out" if late else "", busy=late)

    asyncio_sleep = asyncio.sleep

    async def within(_limit_s: float, _late: Any, ask: Callable[..., Any], *words: Any) -> Any:
        """Two questions at once take as long as the longer of them."""
        nonlocal now
        began = now
        found = ask(*words)
        ended, now = now, began
        await asyncio_sleep(0)
        now = max(now, ended)
        return found

    class Local:
        init = 1

        async def usage(self) -> dict[str, Any]:
            return {"cpu_s": engine.cores * min(now, engine.stops_at)}

    monkeypatch.setattr(serving.time, "monotonic", lambda: now)
    monkeypatch.setattr(serving.asyncio, "sleep", sleep)
    monkeypatch.setattr(serving, "_within", within)
    monkeypatch.setattr(serving.endpoint, "metrics", metrics)
    monkeypatch.setattr(serving.endpoint, "ask", ask)
    # what is shown of each of thousands of looks, nobody reads here
    write = shown.replace
    monkeypatch.setattr(shown, "replace", lambda file, text: "" if file.exists() else write(file, text))
    service = replace(SOLO, probes=probes)
    report = Report(service, [], tmp_path)
    one = serving.Serving(service, report, "", members.Members(service, report, b"", print), Local())  # type: ignore[arg-type]
    try:
        asyncio.run(one.watch())
    except host.RankError:
        return now
    except OverError:
        pass
    return None


def _never(_at: float) -> float | None:
    return None


def _at_once(_at: float) -> float | None:
    return 0.0


def _prefill(at: float, seconds: float, running: int = 1) -> judge.Metrics:
    """vLLM's figures: its gauge grows by blocks, and no token is counted before the end."""
    return replace(WARM, running=running, kv_use=0.8 * int(at / seconds * 700) / 700)


def _sglang_before_059(at: float) -> judge.Metrics:
    return replace(WARM, kv_use=round(0.9 * at / HOUR, 2) if at > 60 else 0.0)


def _batches(at: float) -> judge.Metrics | None:
    """llama.cpp, a batch of which takes 100 s: it answers at the end of one."""
    return replace(WARM, running=1, tokens=1000 + int(at / 100)) if at % 100 < 5 else None


def _given_up(steps: int, seconds: float) -> Engine:
    """Prompts one after the other, each given up after so many steps, of so many seconds."""
    return Engine(lambda at: replace(WARM, running=1, kv_use=0.01 + 0.01 * (int(at / seconds) % steps)), _never)


LIVES: dict[str, tuple[Engine, Probes]] = {
    "vllm, a prompt that takes 20 minutes": (
        Engine(lambda at: _prefill(at, 1200) if at < 1200 else replace(WARM, running=1, tokens=at), _never),
        VLLM,
    ),
    "vllm, two prompts of 450,000 tokens for 1,326 s": (Engine(lambda at: _prefill(at, HOUR, 2), _never), VLLM),
    "vllm, 43 tokens a second in blocks of 2,128": (
        Engine(lambda at: replace(WARM, running=1, kv_use=0.01 * int(at / 49)), _never),
        VLLM,
    ),
    "vllm, others wait meanwhile": (Engine(lambda at: replace(_prefill(at, HOUR), waiting=int(at / 60)), _never), VLLM),
    "vllm, one of two prompts is given up": (
        Engine(lambda at: _prefill(at, HOUR, 2) if at < 900 else _prefill(at - 450, HOUR), _never),
        VLLM,
    ),
    "vllm, three steps of 95 s each, then given up": (_given_up(3, 95), VLLM),
    "vllm, five steps of 80 s each, then given up": (_given_up(5, 80), VLLM),
    "vllm, a prompt comes with the canary": (
        Engine(lambda at: replace(WARM, running=at > 31, kv_use=max(0.0, at - 31) / HOUR), _never),
        VLLM,
    ),
    "vllm, silent for four minutes while it reads": (
        Engine(lambda at: None if 100 < at < 340 or 500 < at < 740 else _prefill(at, HOUR), _never),
        VLLM,
    ),
    "vllm, silent for a minute of each two": (
        Engine(lambda at: None if at % 120 < 60 else _prefill(at, HOUR), _never),
        VLLM,
    ),
    "vllm, no metrics any more": (Engine(lambda at: WARM if at < 1000 else None, _at_once, cores=0.0), VLLM),
    "vllm, no metrics any more, ranks spin": (Engine(lambda at: WARM if at < 1000 else None, _at_once), VLLM),
    "vllm, no metrics since it serves requests": (
        Engine(lambda at: replace(WARM, running=1, tokens=at) if at < 1000 else None, _at_once, cores=0.0),
        VLLM,
    ),
    "vllm, refuses metrics": (Engine(lambda at: WARM if at < 1000 else REFUSES, _at_once, cores=0.0), VLLM),
    "vllm, refuses metrics from the start": (Engine(lambda _at: REFUSES, _at_once), VLLM),
    "vllm, idle": (Engine(lambda _at: WARM, _at_once, cores=0.0), VLLM),
    "vllm, saturated": (Engine(lambda at: replace(WARM, running=8, waiting=40, tokens=at, kv_use=0.99), _never), VLLM),
    "sglang before 0.5.9, which counts the prompt nowhere": (Engine(_sglang_before_059, _never), SGLANG),
    "llama.cpp, batches of 100 s": (Engine(_batches, _never), LLAMA_CPP),
    "tensorrt-llm, a prompt of four minutes": (
        Engine(lambda _at: None, lambda at: 240 - at if at < 240 else 0.0),
        TRTLLM,
    ),
}


@pytest.mark.parametrize("what", LIVES)
def test_what_computes_is_left_alone(what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine, probes = LIVES[what]
    assert dead_after(engine, probes, monkeypatch, tmp_path) is None


def _hangs(seen: judge.Metrics, at_s: float = 1000.0) -> Callable[[float], judge.Metrics]:
    return lambda at: replace(WARM, running=1, tokens=at) if at < at_s else seen


HUNG = replace(WARM, running=3, waiting=1, tokens=1000, kv_use=0.41)


def _retries(at: float) -> judge.Metrics:
    """Its scheduler lets in what its ranks never compute, and clients that give up come again with other prompts."""
    return replace(HUNG, kv_use=random.Random(int(at / 70)).uniform(0.05, 0.9)) if at > 1000 else _hangs(HUNG)(at)


DIES: dict[str, tuple[Engine, Probes]] = {
    "vllm, ranks spin": (Engine(_hangs(HUNG), _never), VLLM),
    "vllm, ranks spin beside new requests": (
        Engine(lambda at: replace(_hangs(HUNG)(at), waiting=int(at / 10) % 7), _never),
        VLLM,
    ),
    "vllm, one request": (Engine(_hangs(replace(HUNG, running=1, waiting=0)), _never), VLLM),
    "vllm, clients come again with other prompts": (Engine(_retries, _never), VLLM),
    "vllm, in the middle of a long prompt": (Engine(lambda at: _prefill(min(at, 1000), HOUR), _never), VLLM),
    "vllm, ranks stopped": (Engine(_hangs(HUNG), _never, stops_at=1000), VLLM),
    "vllm, idle and hung": (Engine(lambda _at: WARM, lambda at: 0.0 if at < 1000 else None), VLLM),
    "vllm, no metrics": (Engine(lambda at: WARM if at < 1000 else None, lambda at: 0.0 if at < 1000 else None), VLLM),
    "vllm, no metrics while requests run, ranks spin": (
        Engine(lambda at: _hangs(HUNG)(at) if at < 1000 else None, _never),
        VLLM,
    ),
    "vllm, no metrics while requests run, ranks stopped": (
        Engine(lambda at: _hangs(HUNG)(at) if at < 1000 else None, _never, stops_at=1000),
        VLLM,
    ),
    "vllm, refuses metrics and hangs": (
        Engine(lambda at: WARM if at < 1000 else REFUSES, lambda at: 0.0 if at < 1000 else None),
        VLLM,
    ),
    "vllm, refuses whatever comes": (
        Engine(lambda at: WARM if at < 1000 else REFUSES, lambda at: 0.0 if at < 1000 else -1.0),
        VLLM,
    ),
    "sglang, no metrics, ranks spin": (Engine(lambda at: _hangs(HUNG)(at) if at < 1000 else None, _never), SGLANG),
    "vllm, one stream goes on, new requests fail": (
        Engine(lambda at: replace(WARM, running=1, tokens=at), lambda at: 0.0 if at < 1000 else -1.0),
        VLLM,
    ),
    "sglang, ranks spin": (Engine(_hangs(HUNG), _never), SGLANG),
    "llama.cpp, waits for a lost host": (
        Engine(lambda at: _batches(at) if at < 1000 else None, _never, stops_at=1000),
        LLAMA_CPP,
    ),
    "llama.cpp, spins": (Engine(lambda at: _batches(at) if at < 1000 else None, _never), LLAMA_CPP),
    "tensorrt-llm, ranks spin": (Engine(lambda _at: None, lambda at: 0.0 if at < 1000 else None), TRTLLM),
}


@pytest.mark.parametrize("what", DIES)
def test_what_hangs_is_found_within_six_minutes(what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine, probes = DIES[what]
    found = dead_after(engine, probes, monkeypatch, tmp_path)
    assert found is not None and 1000 < found <= 1000 + SIX_MINUTES


COMES_AND_GOES: dict[str, tuple[Engine, Probes]] = {
    "vllm, metrics come and go while ranks spin": (
        Engine(lambda at: None if at > 1000 and at % 120 < 60 else _hangs(HUNG)(at), _never),
        VLLM,
    ),
    "vllm, idle, metrics come and go while ranks spin": (
        Engine(lambda at: None if at > 1000 and at % 170 < 80 else WARM, lambda at: 0.0 if at < 1000 else None),
        VLLM,
    ),
}


@pytest.mark.parametrize("what", COMES_AND_GOES)
def test_silence_of_the_metrics_is_added(what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It may hide the end of a step. So no judge holds six minutes for a hang and 300 s for a step as well."""
    engine, probes = COMES_AND_GOES[what]
    found = dead_after(engine, probes, monkeypatch, tmp_path)
    assert found is not None
    silent = sum(engine.metrics(second) is None for second in range(1000, int(found)))
    assert 1000 < found <= 1000 + SIX_MINUTES + silent


def test_an_owner_may_let_a_step_take_longer() -> None:
    """By the engine's own setting, which ends the engine else."""
    assert vllm.probes("chat", "tiny", on_ray=False, step_s=900).patience_s == 900
    assert vllm.probes("chat", "tiny", on_ray=False, step_s=10).patience_s == 300
