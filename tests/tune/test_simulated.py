# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hundreds of searches without any host: how often the best is found, as docs/how-to/tune.md says."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "unit"))

from tune_truths import STARTS, drawn, of_stand_in, searched

NOISE, EFFECT, WITHIN = 0.02, 0.15, 0.05


@pytest.mark.parametrize(("together", "least"), [(0.03, 0.95), (0.07, 0.9)])
def test_services_drawn_at_random(together: float, least: float, request: pytest.FixtureRequest) -> None:
    count = int(request.config.getoption("--searches"))
    losses = []
    for seed in range(count):
        chance = random.Random(seed)
        truth = drawn(chance, EFFECT, together)
        losses.append(searched(truth, chance, NOISE, tuple(chance.randrange(one.values) for one in truth.space)))
    good = sum(loss <= WITHIN for loss in losses)
    print(f"{good} of {count} within 5 %, the worst {max(losses):.1%}, where pairs do {together}")
    assert good >= least * count


def test_the_stand_in(request: pytest.FixtureRequest) -> None:
    count = int(request.config.getoption("--searches"))
    losses = []
    for seed in range(count):
        truth = of_stand_in(STARTS[seed % len(STARTS)])
        losses.append(searched(truth, random.Random(seed), NOISE, (0,) * len(truth.space)))
    good = sum(loss <= WITHIN for loss in losses)
    print(f"{good} of {count} within 5 %, the worst {max(losses):.1%}, of the stand-in from five starts")
    assert good >= 0.99 * count
