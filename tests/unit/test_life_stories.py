# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random stories of an engine that computes step by step, as vLLM's scheduler does: prompts of any length in steps of
up to five minutes, clients that come and give up, metrics that come and go, and a hang at any moment.

Before the judge of this form it killed half of the healthy ones with steps above 160 s, and found some hangs after
390 s.
"""

from __future__ import annotations

import bisect
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import judge
from test_life import HOUR, SIX_MINUTES, VLLM, WARM, Engine, dead_after

NEVER = 1e9
CANARY_S = 30.0


@dataclass(eq=False)
class AskedPrompt:
    """prompt: in whole steps. answer: tokens. until: when its client gives up."""

    at: float
    prompt: float
    answer: int
    until: float = NEVER
    read: float = 0.0
    made: int = 0
    first: float | None = None


@dataclass
class Scheduler:
    """What runs and waits, and what it published after each step, as vLLM does after a step alone."""

    step_s: float
    token_s: float
    hangs_at: float
    coming: list[AskedPrompt]
    at: float = 0.0
    hung: float | None = None
    waiting: list[AskedPrompt] = field(default_factory=list)
    running: list[AskedPrompt] = field(default_factory=list)
    parts: dict[AskedPrompt, float] = field(default_factory=dict)
    ends: float = 0.0
    times: list[float] = field(default_factory=lambda: [-1.0])
    published: list[judge.Metrics] = field(default_factory=lambda: [WARM])
    tokens: float = WARM.tokens

    def metrics(self, at: float) -> judge.Metrics:
        self._advance(at)
        return self.published[bisect.bisect_right(self.times, at) - 1]

    def canary(self, at: float) -> float | None:
        self._advance(at)
        asked = AskedPrompt(at, 0.001, 1, at + CANARY_S)
        bisect.insort(self.coming, asked, key=lambda other: other.at)
        if not self.parts:
            self.at = max(self.at, at)
        for second in range(round(CANARY_S) * 10):
            self._advance(at + second / 10)
            if asked.first is not None:
                return max(0.0, asked.first - at)
        return None

    def _advance(self, at: float) -> None:
        while self.hung is None:
            if self.parts:
                if self.ends > at:
                    return
                self._end()
            elif not self._begin():
                self.at = min(at, self.coming[0].at if self.coming else NEVER) if self.at < at else self.at
                if not self.coming or self.coming[0].at > at:
                    return
                self.at = max(self.at, self.coming[0].at)

    def _begin(self) -> bool:
        while self.coming and self.coming[0].at <= self.at:
            self.waiting.append(self.coming.pop(0))
        self.waiting = [asked for asked in self.waiting if asked.until > self.at]
        self.running = [asked for asked in self.running if asked.until > self.at and asked.made < asked.answer]
        room, self.parts = 1.0, {}
        for asked in self.running:
            self.parts[asked] = part = min(room, asked.prompt - asked.read)
            room -= part
        while self.waiting and room > 1e-9 and len(self.running) < 8:
            self.running.append(self.waiting.pop(0))
            self.parts[self.running[-1]] = part = min(room, self.running[-1].prompt)
            room -= part
        self.ends = self.at + max(self.token_s, self.step_s * sum(self.parts.values()))
        if self.parts and self.at >= self.hangs_at:
            self.hung = self.at
        return bool(self.parts)

    def _end(self) -> None:
        self.at = self.ends
        for asked, part in self.parts.items():
            asked.read += part
            if asked.read >= asked.prompt - 1e-9:
                asked.read = asked.prompt
                self.tokens += 1 + (asked.prompt * 1000 if asked.first is None else 0)
                asked.first = self.at if asked.first is None else asked.first
                asked.made += 1
        self._begin()
        use = sum(asked.read + asked.made / 1000 for asked in self.running) / 500
        self.times.append(self.at)
        self.published.append(judge.Metrics(self.tokens, self.tokens, len(self.running), len(self.waiting), use))


def _prompts(chance: random.Random, step_s: float) -> list[AskedPrompt]:
    kind, began = chance.randrange(4), chance.uniform(0, 300)
    long = AskedPrompt(began, chance.uniform(2, max(5, HOUR / step_s)), chance.randint(1, 200))
    if kind == 0:
        return [long]
    if kind == 1:
        several = range(chance.randint(2, 6))
        return [AskedPrompt(chance.uniform(0, 3000), chance.uniform(0.5, 12), chance.randint(1, 400)) for _ in several]
    if kind == 2:
        many = range(chance.randint(10, 120))
        return [AskedPrompt(chance.uniform(0, 3500), chance.uniform(0.001, 2), chance.randint(1, 50)) for _ in many]
    # one that gives up after an hour at the latest, and others that give up after a minute and come again
    long.until = chance.uniform(600, HOUR)
    times = [began + 40 * number + chance.uniform(0, 30) for number in range(80)]
    return [long, *(AskedPrompt(at, chance.uniform(0.001, 0.4), 8, at + 60) for at in times)]


def _silences(chance: random.Random, how: str) -> list[tuple[float, float]]:
    found, at = [], chance.uniform(0, 300)
    longest = {"none": 0.0, "short": 40.0, "long": 280.0}[how]
    while longest and at < HOUR:
        found.append((at, at + chance.uniform(1, longest)))
        at = found[-1][1] + chance.uniform(1, 200)
    return found


def _story(seed: int, silent: str, hangs: bool) -> tuple[Engine, Scheduler, list[tuple[float, float]]]:
    chance = random.Random(seed)
    step_s = chance.choice([chance.uniform(0.2, 5), chance.uniform(5, 60), chance.uniform(60, 299), 280, 299])
    coming = _prompts(chance, step_s)
    hangs_at = chance.uniform(300, 2000) if hangs else NEVER
    if hangs:
        coming.append(AskedPrompt(hangs_at, 0.5, 50))
    token_s = chance.uniform(0.02, 0.3)
    scheduler = Scheduler(step_s, token_s, hangs_at, sorted(coming, key=lambda asked: asked.at))
    silences = _silences(chance, silent)

    def metrics(at: float) -> judge.Metrics | None:
        return None if any(begin <= at < end for begin, end in silences) else scheduler.metrics(at)

    return Engine(metrics, scheduler.canary, stops_at=2 * HOUR), scheduler, silences


@pytest.mark.parametrize("silent", ["none", "short", "long"])
@pytest.mark.parametrize("seed", range(40))
def test_a_healthy_engine_is_never_killed(
    seed: int, silent: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine, scheduler, _silent = _story(seed, silent, hangs=False)
    assert dead_after(engine, VLLM, monkeypatch, tmp_path) is None, scheduler.step_s


@pytest.mark.parametrize("silent", ["none", "short", "long"])
@pytest.mark.parametrize("seed", range(40))
def test_a_hang_is_found_in_time(seed: int, silent: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The time in which the metrics were silent is added: it may have hidden the end of a step."""
    engine, scheduler, silences = _story(seed, silent, hangs=True)
    found = dead_after(engine, VLLM, monkeypatch, tmp_path)
    assert found is not None and scheduler.hung is not None
    added = sum(max(0.0, min(end, found) - max(begin, scheduler.hung)) for begin, end in silences)
    assert scheduler.hung < found <= scheduler.hung + SIX_MINUTES + added
