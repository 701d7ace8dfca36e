# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether one benchmark is faster than another: per figure a ratio with its interval, or no difference shown.

A measurement is positive and its disturbances are factors, so that logarithms are compared. What is repeated is the
whole run of a point: requests of one run share its moment and would make an interval that is too narrow.

Two kinds of disturbance meet. What lasts (a warm room, a job beside it) disturbs both sides of a round alike: Student's
interval of the pairs' differences leaves it out. What hits one run alone makes it a tenth to twice as long, never
shorter: one such run of eight makes Student's interval several times as wide, and hardly moves an interval by ranks
(Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3rd edition, 4.3). So both are made, each with half of
the wrong findings that are allowed, and what lies in both is the interval.
"""

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
# Where no difference is shown: how many rounds would show one of this size, in nine of ten comparisons.
ASKED_PERCENT = 10
MOST_ROUNDS = 200
_ASKED, _NINE_OF_TEN = math.log1p(ASKED_PERCENT / 100), 1.2816
_USUAL = 0.05
_STEPS = 200
_MOST_T = 1e6


@dataclass(frozen=True)
class Difference:
    """One figure of one point. before, after: geometric means. ratio: of the second to the first, or the nearest end of
    its interval, where single runs have moved the means out of it. low, high: the interval. rounds: how many would show
    a difference of `ASKED_PERCENT`, by the spread of these; 0 where the interval leaves no room for it, or shows one.
    None for more than `MOST_ROUNDS`."""

    point: str
    figure: str
    before: float
    after: float
    ratio: float
    low: float
    high: float
    verdict: Verdict
    rounds: int | None


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
    low, high = _interval(first, second, wrong, paired)
    ratio = min(max(fmean(second) - fmean(first), low), high)
    verdict: Verdict = "no difference shown"
    if low > 0 or high < 0:
        verdict = "faster" if (low > 0) is more else "slower"
    shown = low > 0 or high < 0 or (low > -_ASKED and high < _ASKED)
    return Difference(
        point,
        figure,
        math.exp(fmean(first)),
        math.exp(fmean(second)),
        math.exp(ratio),
        math.exp(low),
        math.exp(high),
        verdict,
        0 if shown else _rounds(first, second, wrong, paired),
    )


def _interval(first: Sequence[float], second: Sequence[float], wrong: float, paired: bool) -> tuple[float, float]:
    """Of the difference of the second to the first."""
    students = _paired if paired else _apart
    if not beyond(len(first), len(second), wrong / 2):
        return students(first, second, wrong)
    parts = (students(first, second, wrong / 2), _by_ranks(first, second, wrong / 2))
    # without any noise both are one point, each rounded in its own way
    low, high = sorted((max(low for low, _high in parts), min(high for _low, high in parts)))
    return low, high


def _paired(first: Sequence[float], second: Sequence[float], wrong: float) -> tuple[float, float]:
    """Student's interval of the mean of the pairs' differences."""
    found = [after - before for before, after in zip(first, second, strict=True)]
    middle, half = fmean(found), student(len(found) - 1, wrong) * math.sqrt(variance(found) / len(found))
    return middle - half, middle + half


def _apart(first: Sequence[float], second: Sequence[float], wrong: float) -> tuple[float, float]:
    """Welch's interval of the difference of the means; its degrees of freedom rounded down, which widens it."""
    parts = [variance(values) / len(values) for values in (first, second)]
    below = sum(part**2 / (len(values) - 1) for part, values in zip(parts, (first, second), strict=True))
    freedom = math.floor(sum(parts) ** 2 / below) if below else len(first) + len(second) - 2
    middle, half = fmean(second) - fmean(first), student(max(1, freedom), wrong) * math.sqrt(sum(parts))
    return middle - half, middle + half


def _by_ranks(first: Sequence[float], second: Sequence[float], wrong: float) -> tuple[float, float]:
    """Of all differences between a value of either side the middle ones: the interval of Wilcoxon's rank sum, whatever
    the values are distributed like. What disturbs the rounds of both sides alike makes it wider than it had to be."""
    every = sorted(after - before for before in first for after in second)
    count = beyond(len(first), len(second), wrong)
    return every[count - 1], every[-count]


@cache
def beyond(first: int, second: int, wrong: float) -> int:
    """With how many of all differences the interval by ranks begins, counted from either end; 0 where so few values
    allow none. first, second: how many values. Of the orders in which equal sides fall, as many have each count of
    differences below 0 as the Gaussian binomial coefficient says."""
    counts = [1] + [0] * (first * second)
    for place in range(1, first + 1):
        for below in range(len(counts) - 1, second + place - 1, -1):
            counts[below] -= counts[below - second - place]
        for below in range(place, len(counts)):
            counts[below] += counts[below - place]
    allowed = wrong / 2 * math.comb(first + second, first)
    found = 0
    while (allowed := allowed - counts[found]) >= 0:
        found += 1
    return found


def _rounds(first: Sequence[float], second: Sequence[float], wrong: float, paired: bool) -> int | None:
    """How many would show a difference of `ASKED_PERCENT`. The spread is that of the narrower of the two usual
    intervals."""
    have = min(len(first), len(second))
    students = _paired if paired else _apart
    widths = [high - low for low, high in (judge(first, second, _USUAL) for judge in (students, _by_ranks))]
    spread = min(widths) / 2 / student(have - 1, _USUAL) * math.sqrt(have)
    for rounds in range(have + 1, MOST_ROUNDS + 1):
        if (student(rounds - 1, wrong / 2) + _NINE_OF_TEN) * spread / math.sqrt(rounds) <= _ASKED:
            return rounds
    return None


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
