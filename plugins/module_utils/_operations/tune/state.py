# SPDX-License-Identifier: GPL-3.0-or-later
"""A search as it is kept beside the inventory, taken only in its form; what comes next of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any, Literal, TypedDict

from ..._base.forms import forms
from ..._base.received import checked, parsed
from ..._engines.interface import Choice
from .goal import SearchGoal
from .search import Candidate, Run, Setting, best_of, following

MOST_BYTES = 8 << 20
# Of a search's starts, so many at most tell the best of those that were tried apart.
AGAIN = 5
STATE = forms("search")["search"]


class SearchRun(TypedDict):
    kind: str
    candidate: list[int]
    at: str
    seconds: float
    figures: dict[str, list[float]]


class RefusedCandidate(TypedDict):
    """tried: whether it was started."""

    candidate: list[int]
    why: str
    tried: bool
    seconds: float


class SearchSetting(TypedDict):
    name: str
    words: list[str]


class SearchState(TypedDict):
    """`STATE` as a type. conditions: what the service's host says of image, driver and kernel."""

    service: str
    goal: str
    begun: str
    definition: str
    conditions: dict[str, Any]
    settings: list[SearchSetting]
    runs: list[SearchRun]
    refused: list[RefusedCandidate]


@dataclass(frozen=True)
class Budget:
    """runs: of the search, what serves now among them; candidates that did not start or answer count. pairs: of the
    proof, each a start of what serves now and one of the best. seconds: of all of it."""

    runs: int
    pairs: int
    seconds: float


@dataclass(frozen=True)
class Next:
    """kind: what a run is for. candidate: what runs."""

    kind: Literal["search", "proof"]
    candidate: Candidate


def read_state(content: bytes, what: str) -> SearchState:
    """A kept search; ValueError with a sentence for what is none."""
    found: SearchState = checked(STATE, parsed(content, MOST_BYTES, what), what)
    sizes = [len(setting["words"]) for setting in found["settings"]]
    for candidate in [trial["candidate"] for trial in (*found["runs"], *found["refused"])]:
        if len(candidate) != len(sizes) or any(a >= b for a, b in zip(candidate, sizes, strict=True)):
            raise ValueError(f"{what}: {candidate} is none of its candidates")
    return found


def begun(
    asked: SearchGoal, service: str, definition: str, at: str, under: Mapping[str, object], space: Sequence[Choice]
) -> SearchState:
    """A search without a run. under: what the service's host says of image, driver and kernel."""
    return {
        "service": service,
        "goal": asked.text,
        "begun": at,
        "definition": definition,
        "conditions": dict(under),
        "settings": [{"name": setting.name, "words": list(setting.words)} for setting in space],
        "runs": [],
        "refused": [],
    }


def changed(state: SearchState, now: SearchState) -> list[str]:
    """In what a kept search is of something else than one that would begin now."""
    kept: Mapping[str, object] = state
    new: Mapping[str, object] = now
    return [key for key in ("goal", "definition", "conditions", "settings") if kept[key] != new[key]]


def settings(space: Sequence[Choice], gains: Sequence[Sequence[float]] = ()) -> list[Setting]:
    of_each = gains or [()] * len(space)
    return [Setting(len(one.values), one.places, of_one) for one, of_one in zip(space, of_each, strict=True)]


def means(run: SearchRun) -> Run:
    """Of its rounds the geometric mean of each figure."""
    return Run(tuple(run["candidate"]), {name: geometric_mean(values) for name, values in run["figures"].items()})


def searched(state: SearchState) -> list[Run]:
    return [means(run) for run in state["runs"] if run["kind"] == "search"]


def proved(state: SearchState, candidate: Candidate) -> list[Run]:
    return [means(run) for run in state["runs"] if run["kind"] == "proof" and tuple(run["candidate"]) == candidate]


def refused(state: SearchState) -> set[Candidate]:
    return {tuple(refusal["candidate"]) for refusal in state["refused"]}


def spent(state: SearchState) -> float:
    return sum(run["seconds"] for run in (*state["runs"], *state["refused"]))


def upcoming(
    state: SearchState,
    space: Sequence[Choice],
    asked: SearchGoal,
    budget: Budget,
    gains: Sequence[Sequence[float]] = (),
) -> Next | None:
    """The next run; None where all is done, or the time is over. The plan may still refuse it. gains: of each setting,
    `search.Setting.gains`."""
    runs, sizes = searched(state), settings(space, gains)
    start: Candidate = (0,) * len(space)
    if not runs:
        return Next("search", start)
    best = best_of(runs, asked.goal, refused(state))
    proving = any(run["kind"] == "proof" for run in state["runs"])
    tried = len(runs) + sum(refusal["tried"] for refusal in state["refused"])
    each = spent(state) / (len(state["runs"]) + sum(refusal["tried"] for refusal in state["refused"]))
    left = budget.seconds - spent(state)
    if left < each:
        return None
    # the proof has to fit into what is left after one more
    if not proving and tried < budget.runs and left >= each * (1 + 2 * budget.pairs):
        rest = budget.runs - tried
        candidate = following(sizes, runs, asked.goal, rest, min(AGAIN, budget.runs // 5), refused(state))
        if candidate is not None:
            return Next("search", candidate)
    if best in (None, start):
        return None
    assert best is not None
    before, after = (len(proved(state, one)) for one in (start, best))
    if min(before, after) >= budget.pairs:
        return None
    # A B, B A, A B: neither is always the one that follows
    first = start if before % 2 == 0 else best
    return Next("proof", first if before == after else min((before, start), (after, best))[1])
