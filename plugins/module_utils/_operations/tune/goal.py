# SPDX-License-Identifier: GPL-3.0-or-later
"""A goal as a person writes it: ``64 users, ttft_p95 < 2 s``."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._base import worded
from ..._base.findings import FleetError, did_you_mean
from ..bench.sweep import Point
from . import search

THROUGHPUT = "tokens/s"
_USERS = re.compile(r"(\d{1,5}) users?")
_LENGTH = re.compile(r"(prompt|answer|shared) (\d{1,7})")
_LIMIT = re.compile(r"([a-z]\w*) ?<=? ?(\d+(?:\.\d+)?) ?(ms|s)")
_WANTED = re.compile(r"(most|least) (\S+)")
# Of a length: tokens. Enough of each that a run is more than its start, and ends in minutes.
_PROMPT, _ANSWER = 512, 128
_MOST_USERS, _MOST_TOKENS = 4096, 1_000_000
# Each user asks that often in a run, so that a percentile is one of several requests.
_REQUESTS_EACH = 4
_EXAMPLE = "64 users, ttft_p95 < 2 s"


@dataclass(frozen=True)
class SearchGoal:
    """text: as it was written. point: what is sent. goal: what is wanted of the figures, in ms and tokens/s."""

    text: str
    point: Point
    goal: search.Goal

    @property
    def figures(self) -> list[str]:
        """Those that have to be measured."""
        return [self.goal.figure, *(limit.figure for limit in self.goal.limits)]


def read_goal(text: str, known: Sequence[str]) -> SearchGoal:
    """known: the figures in ms that can be measured. FleetError with every part that can't be read."""
    parts = [" ".join(part.split()) for part in text.split(",") if part.strip()]
    found = [_part(part, known) for part in parts]
    problems = [item for item in found if isinstance(item, str)]
    terms: dict[str, Any] = {}
    limits: dict[str, float] = {}
    for part, one in zip(parts, found, strict=True):
        if isinstance(one, str):
            continue
        key, value = one
        into = limits if key in known else terms
        if key in into:
            problems.append(f'"{part}": the second of its kind')
        into[key] = value
    if "users" not in terms and not any("user" in part for part in parts):
        problems.append("no number of users: how many requests come at a time")
    if problems:
        raise FleetError(*_errors(problems, known))
    figure, more = terms.get("wanted", (THROUGHPUT, True))
    users, shared = int(terms["users"]), int(terms.get("shared", 0))
    prompt, answer = int(terms.get("prompt", _PROMPT)), int(terms.get("answer", _ANSWER))
    after = f" after {shared}" if shared else ""
    point = Point(f"{prompt} tokens{after} x {users}", prompt, answer, users, _REQUESTS_EACH * users, depth=shared)
    return SearchGoal(
        ", ".join(parts),
        point,
        search.Goal(figure, more, tuple(search.Limit(name, most) for name, most in limits.items())),
    )


def _part(part: str, known: Sequence[str]) -> tuple[str, Any] | str:
    """What a part says, by its kind or figure; or why it can't be read."""
    if match := _USERS.fullmatch(part):
        count = int(match[1])
        return ("users", count) if 1 <= count <= _MOST_USERS else f'"{part}": expected 1 to {_MOST_USERS}'
    if match := _LENGTH.fullmatch(part):
        tokens = int(match[2])
        return (match[1], tokens) if 1 <= tokens <= _MOST_TOKENS else f'"{part}": expected 1 to {_MOST_TOKENS} tokens'
    if match := _WANTED.fullmatch(part):
        return _wanted(part, match[1] == "most", match[2], known)
    if match := _LIMIT.fullmatch(part):
        if match[1] not in known:
            return f'"{part}": no figure "{match[1]}", {did_you_mean(match[1], known)}'
        most = float(match[2]) * (1000 if match[3] == "s" else 1)
        return (match[1], most) if most > 0 else f'"{part}": expected more than 0'
    word = part.partition(" ")[0]
    return f'"{part}": expected {word} < NUMBER s, or ms' if word in known else f'"{part}" is none of these'


def _wanted(part: str, more: bool, figure: str, known: Sequence[str]) -> tuple[str, Any] | str:
    if more and figure == THROUGHPUT:
        return "wanted", (figure, True)
    if not more and figure in known:
        return "wanted", (figure, False)
    return f'"{part}": expected most {THROUGHPUT}, or least and one of {", ".join(known)}'


def _errors(problems: Sequence[str], known: Sequence[str]) -> Iterator[Any]:
    for problem in problems:
        yield worded.error(
            "tune-goal/errors", "goal", found=problem, known=", ".join(known), throughput=THROUGHPUT, example=_EXAMPLE
        )


def figures_of(
    raw: Mapping[str, Any], figures: Mapping[str, float], asked: SearchGoal, keys: Mapping[str, str]
) -> dict[str, float]:
    """What the goal speaks of, of one run. raw: the load generator's result; figures: of
    `_operations.bench.form.measured`; keys: of `EngineSpec.load_goals`. ValueError where one was not measured."""
    found = {name: figures[name] if name == THROUGHPUT else raw.get(keys[name]) for name in asked.figures}
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
            raise ValueError(f"the load generator measured no {name}")
    return {name: float(value) for name, value in found.items() if value is not None}
