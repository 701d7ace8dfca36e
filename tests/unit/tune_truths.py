# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services whose speed is known, to be searched without any: by the stand-in's options, or drawn at random."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.speed.forecast import Load, Setup, Shape, forecast
from ansible_collections.gb10.fleet.plugins.module_utils._operations.tune.search import (
    Candidate,
    Goal,
    Run,
    Setting,
    best_of,
    following,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.tune.state import AGAIN

sys.path.append(str(Path(__file__).parents[1] / "lab/vllm/stand_in/lib"))

from vllm_stand_in.speed import slowness

USERS, RUNS = 4, 25
GOAL = Goal("tokens/s", True)
RECIPE = {"block-size": 128, "enforce-eager": True, "max-num-batched-tokens": 2048, "max-num-seqs": 2}
# What five owners have declared.
STARTS: Sequence[Mapping[str, Any]] = (
    {},
    {"max-num-batched-tokens": 16384, "attention-backend": "TRITON_ATTN"},
    {"kv-cache-dtype": "fp8", "attention-backend": "FLASH_ATTN"},
    {"max-num-batched-tokens": 4096, "attention-backend": "FLASHINFER", "kv-cache-dtype": "fp8"},
    {"max-num-batched-tokens": 1024, "attention-backend": "FLASH_ATTN"},
)
# Of a service drawn at random: values of each setting, and whether they are those of a number.
_DRAWN = ((4, True), (3, True), (3, False), (2, False), (3, False), (2, False))
_PAIRS = 2


@dataclass(frozen=True)
class Truth:
    """cost: of a candidate, as a logarithm; 0.05 is 5 % slower."""

    space: Sequence[Setting]
    cost: Callable[[Candidate], float]

    @property
    def best(self) -> float:
        return min(self.cost(one) for one in product(*(range(one.values) for one in self.space)))


def of_stand_in(flags: Mapping[str, Any]) -> Truth:
    """By what vLLM's options are there, with a service of these beside the lab's recipe."""
    now = {**RECIPE, **flags}
    choices = ENGINES["vllm"].choices(now, "0.32.0", USERS, False)

    def cost(candidate: Candidate) -> float:
        given = dict(now)
        for one, place in zip(choices, candidate, strict=True):
            given |= one.values[place].get("flags", {}) | one.values[place].get("workload", {})
        return math.log(slowness({key.replace("-", "_"): value for key, value in given.items()}, USERS))

    return Truth([Setting(len(one.values), one.places) for one in choices], cost)


def drawn(chance: random.Random, effect: float, together: float) -> Truth:
    """Each setting has an effect of its own, of a number one with a peak, and some pairs one together."""
    effects = []
    for values, number in _DRAWN:
        if number:
            peak, width = chance.uniform(-0.5, values - 0.5), abs(chance.gauss(0, effect))
            effects.append([2 * width * (1.5 * (place - peak) / (values - 1)) ** 2 for place in range(values)])
        else:
            effects.append([chance.gauss(0, effect) for _ in range(values)])
    pairs = chance.sample([(one, other) for one in range(len(_DRAWN)) for other in range(one)], _PAIRS)
    tables = {
        pair: [[chance.gauss(0, together) for _ in range(_DRAWN[pair[1]][0])] for _ in range(_DRAWN[pair[0]][0])]
        for pair in pairs
    }

    def cost(candidate: Candidate) -> float:
        alone = sum(row[place] for row, place in zip(effects, candidate, strict=True))
        return alone + sum(table[candidate[one]][candidate[other]] for (one, other), table in tables.items())

    return Truth([Setting(values, range(values) if number else None) for values, number in _DRAWN], cost)


def with_forecast(truth: Truth, flags: Mapping[str, Any], model: Shape) -> Truth:
    """The same truth, searched by who has the forecast of a model: it knows nothing of what the stand-in costs."""
    choices = ENGINES["vllm"].choices({**RECIPE, **flags}, "0.32.0", USERS, False)

    def total(value: Mapping[str, Any]) -> float:
        given = {**RECIPE, **flags, **value.get("flags", {})}
        slots = value.get("workload", {}).get("max_num_seqs", given["max-num-seqs"])
        element = 1.0 if str(given.get("kv-cache-dtype")).startswith("fp8") else 2.0
        setup = Setup("vllm", eager=given.get("enforce-eager") is True, element=element)
        return forecast(model, setup, Load(min(USERS, slots), 512, 128))["total"]

    spaces = [
        replace(one, gains=[math.log(total(value) / total({})) for value in choice.values])
        for one, choice in zip(truth.space, choices, strict=True)
    ]
    return replace(truth, space=spaces)


def searched(truth: Truth, chance: random.Random, noise: float, start: Candidate, runs: int = RUNS) -> float:
    """How much slower than the best what a search finds is, as a share. noise: of each start, as a share."""
    return history(truth, chance, noise, start, runs)[0]


def history(
    truth: Truth, chance: random.Random, noise: float, start: Candidate, runs: int = RUNS, most: float | None = None
) -> tuple[float, int, int]:
    """As `searched`, with how many starts it took to come within 5 % of the best, and how many in all."""
    found: list[Run] = []
    goal = replace(GOAL, most=most)
    candidate: Candidate | None = start
    while candidate is not None and len(found) < runs:
        found.append(Run(candidate, {"tokens/s": math.exp(chance.gauss(0, noise) - truth.cost(candidate))}))
        candidate = following(truth.space, found, goal, runs - len(found), AGAIN)
    best = best_of(found, GOAL)
    assert best is not None
    near = next((n for n, run in enumerate(found, 1) if truth.cost(run.candidate) - truth.best <= 0.05), len(found))
    return math.exp(truth.cost(best) - truth.best) - 1, near, len(found)
