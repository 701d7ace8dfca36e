# SPDX-License-Identifier: GPL-3.0-or-later
"""What is tried next, by all runs so far: one setting after the other, each from the best so far.

A start costs minutes. A candidate that differs from the best in one setting says what that setting does, and with ten
to twenty starts no model of all of them finds more (docs/how-to/tune.md). The same runs give the same answer: nothing
is drawn at random, so that a search goes on where it was ended.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

# Of one setting each, the place of the value that is taken; all 0 is what serves now.
Candidate = tuple[int, ...]

# What two starts of the same differ by, as a logarithm: 0.02 is 2 %. A guess, as few runs say little of it.
_NOISE = 0.02
# By less, a forecast says nothing of a setting; by more, it spares the start of a slower one.
_CERTAIN = 0.1
# From this share of the memory's limit on, nothing more is worth a start: one service in ten reaches 0.82.
_NEAR = 0.85
# A candidate may be better than its starts say by that many standard deviations.
_AT_BEST = 1.5


@dataclass(frozen=True)
class Setting:
    """values: how many there are. places: of each on a scale, for a number whose neighbours act alike; None where each
    is something of its own. gains: of each what a forecast expects of it against the first, as a logarithm; none where
    it says nothing."""

    values: int
    places: Sequence[float] | None = None
    gains: Sequence[float] = ()

    def gain(self, before: int, after: int) -> float:
        return self.gains[after] - self.gains[before] if self.gains else 0.0


@dataclass(frozen=True)
class Limit:
    """A figure that has to stay below ``most``."""

    figure: str
    most: float


@dataclass(frozen=True)
class Goal:
    """The figure that is wanted; more: whether more of it is better. limits: what has to hold. most: the figure
    that nobody passes; None where it is not known."""

    figure: str
    more: bool
    limits: Sequence[Limit] = ()
    most: float | None = None


@dataclass(frozen=True)
class Run:
    """One start of a candidate with its figures, all above 0."""

    candidate: Candidate
    figures: Mapping[str, float]


def following(
    space: Sequence[Setting],
    runs: Sequence[Run],
    goal: Goal,
    rest: int,
    again: int,
    refused: Collection[Candidate] = (),
) -> Candidate | None:
    """The candidate for the next run; None where none is worth it.

    runs: the first one is of what serves now. rest: how many there may still be, of which some start again what may be
    the best, ``again`` in all. refused: those that must not be tried.
    """
    repeated = len(runs) - len({run.candidate for run in runs})
    ends = rest <= again - repeated or _is_near(runs, goal)
    candidate = None if ends else _pointed(space, runs, refused) or _changed(space, runs, goal, refused)
    if candidate is None and repeated < again:
        return _most(runs, goal, refused, _AT_BEST)
    return candidate


def _pointed(space: Sequence[Setting], runs: Sequence[Run], refused: Collection[Candidate]) -> Candidate | None:
    """Where the forecast points: after what serves now, each setting at the value that it is sure of."""
    if len(runs) > 1:
        return None
    best = (max(range(one.values), key=lambda place: one.gain(0, place)) for one in space)
    found = tuple(place if one.gain(0, place) > _CERTAIN else 0 for one, place in zip(space, best, strict=True))
    return found if any(found) and found not in refused else None


def _is_near(runs: Sequence[Run], goal: Goal) -> bool:
    """Whether the best leaves too little to be gained."""
    best = max((tried.score for tried in _tried(runs, goal).values() if not tried.over), default=-math.inf)
    return goal.most is not None and best >= math.log(_NEAR) + (1 if goal.more else -1) * math.log(goal.most)


def _changed(
    space: Sequence[Setting], runs: Sequence[Run], goal: Goal, refused: Collection[Candidate]
) -> Candidate | None:
    """The best so far with another value of one setting. Values come first that no run had, settings in their order,
    and of a number what is near. None where all of these were tried: no single change of the best is better."""
    tried = _tried(runs, goal)
    base = max(tried, key=lambda candidate: (-tried[candidate].over, tried[candidate].score))

    def setting_of(candidate: Candidate) -> int:
        return next(number for number, place in enumerate(candidate) if place != base[number])

    def is_worth(candidate: Candidate) -> bool:
        number = setting_of(candidate)
        return space[number].gain(base[number], candidate[number]) > -_CERTAIN

    def rank(candidate: Candidate) -> tuple[int, int, float]:
        setting = setting_of(candidate)
        had = sum(other[setting] == candidate[setting] for other in tried)
        places = space[setting].places
        return had, setting, abs(places[candidate[setting]] - places[base[setting]]) if places else 0.0

    return min(filter(is_worth, _untried(space, base, {*tried, *refused})), key=rank, default=None)


def best_of(runs: Sequence[Run], goal: Goal, refused: Collection[Candidate] = ()) -> Candidate | None:
    """Of what was tried, the best that holds the limits; None where none does. refused: those that failed later."""
    return _most(runs, goal, refused, 0.0)


def untried(
    space: Sequence[Setting], runs: Sequence[Run], best: Candidate, refused: Collection[Candidate]
) -> list[Candidate]:
    """Those that differ from the best in one setting, and that no run had."""
    return [*_untried(space, best, {*(run.candidate for run in runs), *refused})]


def _untried(space: Sequence[Setting], base: Candidate, known: Collection[Candidate]) -> Iterator[Candidate]:
    for number, setting in enumerate(space):
        for place in range(setting.values):
            candidate = (*base[:number], place, *base[number + 1 :])
            if candidate != base and candidate not in known:
                yield candidate


@dataclass(frozen=True)
class _Tried:
    """score: the mean of the goal's figure in all starts, as a logarithm, turned so that more is better. over: by how
    much the limits are broken, 0 where they hold."""

    score: float
    over: float
    starts: int


def _tried(runs: Sequence[Run], goal: Goal) -> dict[Candidate, _Tried]:
    """By candidate, in the order of their first starts."""
    found: dict[Candidate, list[Run]] = {}
    for run in runs:
        found.setdefault(run.candidate, []).append(run)
    return {candidate: _of_starts(starts, goal) for candidate, starts in found.items()}


def _of_starts(runs: Sequence[Run], goal: Goal) -> _Tried:
    def mean(figure: str) -> float:
        return fmean(math.log(run.figures[figure]) for run in runs)

    over = sum(max(0.0, mean(limit.figure) - math.log(limit.most)) for limit in goal.limits)
    return _Tried(mean(goal.figure) if goal.more else -mean(goal.figure), over, len(runs))


def _most(runs: Sequence[Run], goal: Goal, refused: Collection[Candidate], hope: float) -> Candidate | None:
    """Of what was tried and holds the limits, the best. hope: by how many standard deviations its starts may say too
    little, since one start of each can't tell those apart that differ by little more than two of the same."""
    held = {one: tried for one, tried in _tried(runs, goal).items() if not tried.over and one not in refused}
    return max(held, key=lambda item: held[item].score + hope * _NOISE / math.sqrt(held[item].starts), default=None)
