# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that is slower than it should be is found, though it was never faster; a healthy fleet is left alone."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.canary import ROUNDS, night, night_points
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.expected import (
    Measured,
    below_forecast,
    judged,
    share_lines,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.form import BETTER, run

POOL = {"context": 4096, "max_concurrency": 8.0}
CONDITIONS = {
    **{"driver": "580.1", "engine": "vllm", "flags": ["--a b"], "hosts": 1, "image": "sha256:1", "kernel": "6.17"},
    **{"model": "m", "release": "0.28.0", "variables": {}},
}
# A published machine in the low-power state, and the same one after its AC power was taken away.
SICK, WELL = 42.7, 73.9
SPEED: Any = {"alone": {"decode": 74.0, "low": 48.1, "high": 99.9, "limit": 96.0}, "together": None}


def measured(name: str, rate: float, seed: int, noise: float = 0.01, **under: Any) -> dict[str, Any]:
    """A run whose single stream has that rate. noise: of each round, as a share."""
    chance = random.Random(f"{name} {seed}")
    results = [
        {"point": point, "round": number, "shown": {}, "raw": {}}
        | {
            "figures": {
                figure: (1000 / rate if not more else rate)
                * (1 + 0.4 * (point.at_once - 1))
                * math.exp(chance.gauss(0, noise))
                for figure, more in BETTER.items()
            }
        }
        for number in range(ROUNDS + 1)
        for point in night_points(POOL)
    ]
    return run(
        name, f"2026-11-{seed % 28 + 1:02}T03:00:00Z", {"name": name, "definition": "d"}, CONDITIONS | under, results
    )


def fleet(day: int, slow: dict[str, float], rate: float = WELL) -> dict[str, Measured]:
    """A night of eight like machines; each is a little faster or slower than the others, always alike."""
    nights = {}
    for number in range(8):
        own = 1 + 0.02 * math.sin(number)
        nights[f"s{number}"] = Measured(f"h{number}", measured(f"s{number}", slow.get(f"s{number}", own * rate), day))
    return nights


def test_a_machine_that_was_always_slow_is_found_without_any_other() -> None:
    sick = measured("chat", SICK, 1)
    assert night("titan", "chat", sick, measured("chat", SICK, 2), 5).findings == ()  # it is its own measure
    (one,) = judged({"chat": Measured("titan", sick)}, {"chat": SPEED})
    assert one.severity == "warning" and "44 % of the memory's limit" in one.sentence()
    assert "AC power" in one.remedy and "48.1 to 99.9" in one.expected
    assert judged({"chat": Measured("titan", measured("chat", WELL, 1))}, {"chat": SPEED}) == []
    assert [*below_forecast("chat", None, Measured("titan", sick))] == []


def test_a_noisy_minute_is_no_slow_machine() -> None:
    noisy = measured("chat", 50.0, 1)
    point = next(one["name"] for one in noisy["points"] if one["at_once"] == 1)
    noisy["values"][point]["next token ms"][0:2] = [40.0, 45.0]
    assert judged({"chat": Measured("titan", noisy)}, {"chat": SPEED}) == []


def test_one_of_eight_is_named_by_its_twins() -> None:
    for factor in (0.58, 0.85):
        found = judged(fleet(1, {"s3": factor * WELL}), dict.fromkeys((f"s{n}" for n in range(8)), SPEED))
        assert ["s3" in one.sentence() for one in found] == [True]
        assert "7 that serve the same" in found[0].expected


def test_a_service_that_is_slow_everywhere_names_no_machine() -> None:
    nights = fleet(1, {}, rate=SICK)
    assert judged(nights, dict.fromkeys(nights, SPEED)) == []


def test_another_image_or_host_is_no_twin() -> None:
    other = measured("b", WELL, 1, image="sha256:2")
    nights = {"a": Measured("h1", measured("a", 0.8 * WELL, 1)), "b": Measured("h2", other)}
    nights["c"] = Measured("h1", measured("c", WELL, 1))
    assert judged(nights, {}) == []


def test_a_healthy_fleet_is_left_alone_for_a_hundred_days() -> None:
    for day in range(100):
        nights = fleet(day, {})
        assert judged(nights, dict.fromkeys(nights, SPEED)) == [], day


def test_a_benchmark_shows_the_share_of_the_limit() -> None:
    (line,) = share_lines(SPEED, Measured("", measured("chat", WELL, 1)))
    assert "77 % of the memory's limit of 96; expected 74, 48.1 to 99.9" in line
    assert share_lines(None, Measured("", measured("chat", WELL, 1))) == []


@pytest.mark.parametrize("at_once", [[4], []])
def test_a_run_without_a_single_request_shows_none(at_once: list[int]) -> None:
    found = measured("chat", SICK, 1)
    found["points"] = [point for point in found["points"] if point["at_once"] in at_once]
    assert (
        share_lines(SPEED, Measured("titan", found)) == []
        and judged({"chat": Measured("titan", found)}, {"chat": SPEED}) == []
    )
