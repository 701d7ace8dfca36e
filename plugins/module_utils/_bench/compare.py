# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Whether one benchmark is faster than another: per figure a ratio with its interval, or no difference shown.

A measurement is positive and its disturbances are factors, so that logarithms are compared. What is repeated is the
whole run of a point: requests of one run share its moment and would make an interval that is too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, variance
from typing import Literal

Verdict = Literal["faster", "slower", "no difference shown"]

# Of all figures of a comparison together: one in a thousand comparisons of two equal services may name a difference.
WRONG = 0.001
# Repetitions of each side. Fewer than that have no spread to speak of.
LEAST = 4
_STEPS = 200
_MOST_T = 1e6


@dataclass(frozen=True)
class Difference:
    """One figure of one point. ratio: of the second to the first, by their geometric means; low, high: its interval.
    better: whether more of it is better."""

    point: str
    figure: str
    before: float
    after: float
    ratio: float
    low: float
    high: float
    verdict: Verdict


def differences(
    before: Mapping[str, Mapping[str, Sequence[float]]],
    after: Mapping[str, Mapping[str, Sequence[float]]],
    better: Mapping[str, bool],
    paired: bool,
) -> list[Difference]:
    """All figures of all points that both have.

    before, after: by point, then by figure, the values of its repetitions in their order, all above 0. better: by
    figure whether more is better. paired: whether the n-th of both were measured one after the other. ValueError for
    fewer repetitions than `LEAST`.
    """
    asked = [(point, figure) for point in before if point in after for figure in better]
    return [
        _difference(point, figure, before[point][figure], after[point][figure], better[figure], paired, len(asked))
        for point, figure in asked
    ]


def _difference(
    point: str, figure: str, before: Sequence[float], after: Sequence[float], more: bool, paired: bool, asked: int
) -> Difference:
    if min(len(before), len(after)) < LEAST:
        raise ValueError(f"{point} was measured {min(len(before), len(after))} times, expected at least {LEAST}")
    first, second = [math.log(value) for value in before], [math.log(value) for value in after]
    wrong = WRONG / asked
    middle, half = _paired(first, second, wrong) if paired else _apart(first, second, wrong)
    low, high = math.exp(middle - half), math.exp(middle + half)
    verdict: Verdict = "no difference shown"
    if low > 1 or high < 1:
        verdict = "faster" if (low > 1) is more else "slower"
    return Difference(
        point, figure, math.exp(fmean(first)), math.exp(fmean(second)), math.exp(middle), low, high, verdict
    )


def _paired(first: Sequence[float], second: Sequence[float], wrong: float) -> tuple[float, float]:
    """Student's interval of the mean of the pairs' differences: its middle, and half its width."""
    found = [after - before for before, after in zip(first, second, strict=True)]
    return fmean(found), student(len(found) - 1, wrong) * math.sqrt(variance(found) / len(found))


def _apart(first: Sequence[float], second: Sequence[float], wrong: float) -> tuple[float, float]:
    """Welch's interval of the difference of the means; its degrees of freedom rounded down, which widens it."""
    parts = [variance(values) / len(values) for values in (first, second)]
    below = sum(part**2 / (len(values) - 1) for part, values in zip(parts, (first, second), strict=True))
    freedom = math.floor(sum(parts) ** 2 / below) if below else len(first) + len(second) - 2
    return fmean(second) - fmean(first), student(max(1, freedom), wrong) * math.sqrt(sum(parts))


@cache
def student(freedom: int, wrong: float) -> float:
    """The t beyond which, on either side, lies this share of Student's distribution."""
    low, high = 0.0, _MOST_T
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - _within(middle, freedom) > wrong else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """The share between -t and t (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    for step in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine**2 * (step - 1) / step
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if freedom > 1 else 0))
