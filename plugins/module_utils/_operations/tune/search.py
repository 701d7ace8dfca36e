# SPDX-License-Identifier: GPL-3.0-or-later
"""What is tried next, by all runs so far: Bayesian optimization over a few settings with a few values each.

A start costs minutes, so that each run has to tell as much as it can. The model of a figure's logarithm is a Gaussian
process whose kernel says what is known of such settings: each has an effect of its own, every two of them a smaller one
together, and neighbours of a number (2048, 4096 batched tokens) act alike (Duvenaud et al., Additive Gaussian
Processes, 2011). What is tried is where most is expected to be gained over the best so far, times the chance that it
meets the limits (Gardner et al., Bayesian Optimization with Inequality Constraints, 2014). The same runs give the same
answer: nothing is drawn at random, so that a search goes on where it was ended.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

# Of one setting each, the place of the value that is taken; all 0 is what serves now.
Candidate = tuple[int, ...]

# Of logarithms, 0.02 is 2 %: what a setting does; what two do together, in parts of that; what two starts of the same
# differ by. Guesses, as few runs say little of them: of those that were simulated (tests/tune/test_simulated.py) these
# found the best more often than larger ones, and than ones that follow the spread of the runs.
_EFFECT, _TOGETHER, _NOISE = 0.15, 0.8, 0.02
# How far neighbours of a number reach, in steps of its values.
_REACH = 0.8
_UNKNOWN_LEVEL = 1.0
# More candidates than that are not looked at all: those near what was measured stand for them.
_MOST = 3000
# Candidates whose spread is looked at, those with the highest mean first.
_LOOKED_AT = 250
# So many standard deviations above what is believed.
_AT_BEST = 1.5
# A further run has to promise that much, or nothing more is tried.
WORTH = 0.0005


@dataclass(frozen=True)
class Setting:
    """values: how many there are. places: of each on a scale, for a number whose neighbours act alike; None where each
    is something of its own."""

    values: int
    places: Sequence[float] | None = None


@dataclass(frozen=True)
class Limit:
    """A figure that has to stay below ``most``."""

    figure: str
    most: float


@dataclass(frozen=True)
class Goal:
    """The figure that is wanted; more: whether more of it is better. limits: what has to hold."""

    figure: str
    more: bool
    limits: Sequence[Limit] = ()


@dataclass(frozen=True)
class Run:
    """One start of a candidate with its figures, all above 0."""

    candidate: Candidate
    figures: Mapping[str, float]


@dataclass(frozen=True)
class Belief:
    """What is believed of a figure's logarithm, in parts of its own: mean and standard deviation."""

    mean: float
    deviation: float


def following(
    space: Sequence[Setting], runs: Sequence[Run], goal: Goal, refused: Collection[Candidate] = ()
) -> Candidate | None:
    """The candidate that is worth the next run; None where none is. runs: the first one is of what serves now. refused:
    those that must not be tried."""
    best, rated = _promises(space, runs, goal, refused)
    if not rated or (best is not None and rated[0][0] < WORTH):
        return None
    return rated[0][1]


def contending(
    space: Sequence[Setting], runs: Sequence[Run], goal: Goal, refused: Collection[Candidate] = ()
) -> Candidate | None:
    """Of what was tried, the one that may be the best and is known least: one start of each can't tell those apart that
    differ by little more than two starts of the same. None where none holds the limits."""
    models = _models(space, runs, goal)
    return max(_held(models, runs, refused), key=models.at_best, default=None)


def best_of(
    space: Sequence[Setting], runs: Sequence[Run], goal: Goal, refused: Collection[Candidate] = ()
) -> Candidate | None:
    """Of what was tried, what is believed to be the best that holds the limits; None where none does. refused: those
    that failed later."""
    models = _models(space, runs, goal)
    return max(_held(models, runs, refused), key=models.score, default=None)


def left(space: Sequence[Setting], runs: Sequence[Run], goal: Goal, refused: Collection[Candidate]) -> float:
    """What an untried candidate is expected to gain at most over the best, as a share: how much may be left."""
    _best, rated = _promises(space, runs, goal, refused)
    return rated[0][0] if rated else 0.0


def _promises(
    space: Sequence[Setting], runs: Sequence[Run], goal: Goal, refused: Collection[Candidate]
) -> tuple[float | None, list[tuple[float, Candidate]]]:
    """The best score so far, None where nothing holds the limits; what each untried candidate promises, most first."""
    known = {run.candidate for run in runs}
    models = _models(space, runs, goal)
    best = max((models.score(one) for one in known if models.holds(one)), default=None)
    open_ = [one for one in _near(space, known) if one not in known and one not in refused]
    return best, sorted(((models.promise(one, best), one) for one in models.promising(open_)), reverse=True)


def _held(models: _Models, runs: Sequence[Run], refused: Collection[Candidate]) -> list[Candidate]:
    """What was tried and holds the limits, in the order of its first starts."""
    tried = dict.fromkeys(run.candidate for run in runs)
    return [one for one in tried if one not in refused and models.holds(one)]


def _near(space: Sequence[Setting], known: Collection[Candidate]) -> Iterator[Candidate]:
    """All candidates, or where they are too many those that differ in two settings at most from one that was tried."""
    if math.prod(one.values for one in space) <= _MOST:
        yield from product(*(range(one.values) for one in space))
        return
    seen = set()
    for base in known:
        for first in range(len(space)):
            for second in range(first, len(space)):
                for one, other in product(range(space[first].values), range(space[second].values)):
                    changed = list(base)
                    changed[first], changed[second] = one, (one if first == second else other)
                    seen.add(tuple(changed))
    yield from sorted(seen)


@dataclass(frozen=True)
class _Models:
    """wanted: of the goal's figure, turned so that more is better; limits: each figure's with the logarithm of its
    limit."""

    wanted: _Model
    limits: Sequence[tuple[_Model, float]]

    def score(self, candidate: Candidate) -> float:
        return self.wanted.mean(candidate)

    def at_best(self, candidate: Candidate) -> float:
        belief = self.wanted.belief(candidate)
        return belief.mean + _AT_BEST * belief.deviation

    def holds(self, candidate: Candidate) -> bool:
        return all(model.mean(candidate) <= most for model, most in self.limits)

    def promising(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those whose spread is looked at."""

        def rank(one: Candidate) -> float:
            over = sum(max(0.0, model.mean(one) - most) for model, most in self.limits)
            return self.wanted.mean(one) - 3 * over

        return sorted(candidates, key=rank, reverse=True)[:_LOOKED_AT]

    def promise(self, candidate: Candidate, best: float | None) -> float:
        """Expected gain over the best, times the chance that the limits hold; without a best that chance alone."""
        chance = 1.0
        for model, most in self.limits:
            belief = model.belief(candidate)
            chance *= _below((most - belief.mean) / belief.deviation)
        if best is None:
            return chance
        belief = self.wanted.belief(candidate)
        far = (belief.mean - best) / belief.deviation
        density = math.exp(-far * far / 2) / math.sqrt(2 * math.pi)
        return chance * belief.deviation * (far * _below(far) + density)


def _models(space: Sequence[Setting], runs: Sequence[Run], goal: Goal) -> _Models:
    sign = 1 if goal.more else -1
    tried = [run.candidate for run in runs]
    wanted = _Model(space, tried, [sign * math.log(run.figures[goal.figure]) for run in runs])
    limits = [
        (_Model(space, tried, [math.log(run.figures[limit.figure]) for run in runs]), math.log(limit.most))
        for limit in goal.limits
    ]
    return _Models(wanted, limits)


class _Model:
    """A Gaussian process after its runs."""

    def __init__(self, space: Sequence[Setting], tried: Sequence[Candidate], values: Sequence[float]) -> None:
        self._tried, self._first = tried, values[0]
        self._alike = [_table(one) for one in space]
        rows = [
            [self._kernel(one, other) + (_NOISE**2 if place == column else 0.0) for column, other in enumerate(tried)]
            for place, one in enumerate(tried)
        ]
        self._lower = _lower(rows)
        self._weights = _backward(self._lower, _forward(self._lower, [value - self._first for value in values]))

    def _kernel(self, one: Candidate, other: Candidate) -> float:
        """What two candidates have in common."""
        total = squares = 0.0
        for table, left, right in zip(self._alike, one, other, strict=True):
            alike = table[left][right]
            total += alike
            squares += alike * alike
        pairs = (total * total - squares) / 2
        return _UNKNOWN_LEVEL + _EFFECT**2 * (total + _TOGETHER**2 * pairs)

    def mean(self, candidate: Candidate) -> float:
        row = (self._kernel(candidate, one) for one in self._tried)
        return self._first + sum(weight * alike for weight, alike in zip(self._weights, row, strict=True))

    def belief(self, candidate: Candidate) -> Belief:
        row = [self._kernel(candidate, one) for one in self._tried]
        mean = self._first + sum(weight * alike for weight, alike in zip(self._weights, row, strict=True))
        half = _forward(self._lower, row)
        left = self._kernel(candidate, candidate) - sum(one * one for one in half)
        return Belief(mean, math.sqrt(max(left, 1e-9)))


@cache
def _table_of(values: int, places: tuple[float, ...] | None) -> tuple[tuple[float, ...], ...]:
    if places is None:
        return tuple(tuple(float(one == other) for other in range(values)) for one in range(values))
    return tuple(tuple(math.exp(-(((one - other) / _REACH) ** 2) / 2) for other in places) for one in places)


def _table(setting: Setting) -> tuple[tuple[float, ...], ...]:
    """How much two of its values have in common, 0 to 1."""
    return _table_of(setting.values, None if setting.places is None else tuple(setting.places))


def _lower(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Cholesky's decomposition."""
    found: list[list[float]] = []
    for place, row in enumerate(rows):
        line: list[float] = []
        for column in range(place + 1):
            other = found[column] if column < place else line
            rest = row[column] - sum(a * b for a, b in zip(line, other, strict=False))
            line.append(math.sqrt(rest) if column == place else rest / other[column])
        found.append(line)
    return found


def _forward(lower: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    found: list[float] = []
    for line, value in zip(lower, values, strict=True):
        found.append((value - sum(a * b for a, b in zip(line, found, strict=False))) / line[len(found)])
    return found


def _backward(lower: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    count = len(values)
    found = [0.0] * count
    for place in reversed(range(count)):
        rest = values[place] - sum(lower[row][place] * found[row] for row in range(place + 1, count))
        found[place] = rest / lower[place][place]
    return found


def _below(far: float) -> float:
    """The share of a normal distribution below that many standard deviations."""
    return math.erfc(-far / math.sqrt(2)) / 2
