# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides each step of a search: what may be searched for, what is tried next, and what becomes of what was tried."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, FleetError, error
from ..._base.place import Place
from ..._base.plan import Plan
from ..._base.ranks import head_of, rank_of
from ..._engines.interface import Choice
from ..._engines.registry import ENGINES
from ..._engines.speed.served import expected_total
from ..._plan.sources import Sources
from ..bench.sweep import points, problems
from .goal import THROUGHPUT, SearchGoal, read_goal
from .search import Candidate, Goal
from .state import Budget, Next, RefusedCandidate, SearchRun, SearchState, begun, upcoming
from .verdict import patched, verdict, words

_FINDINGS = ("error", "warning")
_FIRST_S, _SPARE_S, _TIMES = 1800, 120, 3
_MOST_LETTERS = 4000
# Settings that the forecast of speed knows; of drafts it does not know the acceptance.
_FORECAST = {"enforce-eager", "kv-cache-dtype", "max_num_seqs"}


class EndedError(Exception):
    """A search can't go on, with the reason."""


@dataclass(frozen=True)
class Search:
    """plan: of what serves now. space: the settings that may be tried."""

    name: str
    sources: Sources
    plan: Plan
    asked: SearchGoal
    space: Sequence[Choice]
    budget: Budget
    rounds: int

    @property
    def service(self) -> dict[str, Any]:
        """As it is declared."""
        return dict(self.sources.services[self.name])

    def new_state(self, at: str, seen: Mapping[str, object]) -> SearchState:
        """A search without a run. seen: what the service's host says of image, driver and kernel."""
        return begun(self.asked, self.name, head_of(self.plan, self.name)["definition"], at, seen, self.space)

    def words(self, candidate: Sequence[int]) -> str:
        return words(self.space, tuple(candidate))


@dataclass(frozen=True)
class Trial:
    """One start. plan: with the candidate. limit_s: for its start; round_s: for each of its rounds."""

    next: Next
    number: int
    plan: Plan
    limit_s: int
    round_s: int


def begin(sources: Sources, options: Mapping[str, Any]) -> Search:
    """options: as `gb10.fleet.tune` is asked. FleetError for what no search is for."""
    plan, name = sources.planned(), str(options["service"])
    tools = {engine: one.spec.load for engine, one in ENGINES.items()}
    _refuse([*problems(plan, [name], options["hosts"], tools), *_wrong_options(options)])
    service = plan["services"][name]
    engine = ENGINES[service["engine"]]
    asked = read_goal(options["goal"], [*engine.spec.load_goals])
    release = service["image"]["release"]
    space = engine.choices(service["flags"], release, asked.point.at_once, bool(asked.point.depth))
    _refuse(_too_long(plan, name, asked))
    asked = replace(asked, goal=replace(asked.goal, most=_limit(plan, name, asked.goal, asked.point.at_once)))
    budget = Budget(options["runs"], options["pairs"], options["hours"] * 3600)
    return Search(name, sources, plan, asked, space, budget, options["rounds"])


def announced(search: Search) -> str:
    """What a search will do, for a person."""
    budget, point = search.budget, search.asked.point
    lines = [f"{setting.name}: {', '.join(setting.words)}" for setting in search.space if len(setting.values) > 1]
    return "\n".join(
        [
            f"{search.name}: {search.asked.text} ({point.requests} requests of {point.depth + point.prompt} tokens, "
            f"{point.answer} answered, {search.rounds} rounds each start)",
            *lines,
            f"at most {budget.runs} starts, and {budget.pairs} pairs to prove the best, in {budget.seconds / 3600:g} "
            f"hours; {search.name} is not for others meanwhile, and serves as now afterwards",
        ]
    )


def not_as_planned(name: str, ranks: Mapping[str, Sequence[Mapping[str, object]]]) -> Iterator[Finding]:
    """A search is about what serves now, which a plan that changes it would not put back. ranks: by host."""
    for host, of_host in ranks.items():
        for rank in of_host:
            if rank["service"] == name and (rank["definition"] != rank["wanted"] or rank["health"] != "serving"):
                state = "goes by another definition than planned" if rank["health"] == "serving" else rank["health"]
                yield worded.error("tune-service", Place(host=host, thing=name), found=state)


def following(search: Search, state: SearchState) -> tuple[Trial | None, SearchState]:
    """The next start, None where the search is over; and the state with what the plan refused before it."""
    state, gains = {**state, "refused": list(state["refused"])}, _gains(search)
    while (upcoming_run := upcoming(state, search.space, search.asked, search.budget, gains)) is not None:
        candidate = upcoming_run.candidate
        service = patched(search.service, search.space, candidate)
        plan = search.sources.with_service(search.name, service).planned()
        why = _objections(search, plan, candidate)
        if not why:
            number = len(state["runs"]) + sum(refusal["tried"] for refusal in state["refused"]) + 1
            limit_s = int(plan["services"][search.name]["costs"]["start_limit_s"])
            return Trial(upcoming_run, number, plan, limit_s, _round_s(state)), state
        state["refused"].append({"candidate": list(candidate), "why": why, "tried": False, "seconds": 0})
    return None, state


def recorded(
    search: Search, state: SearchState, tried: Mapping[str, Any], now: float, at: str
) -> tuple[SearchState, str]:
    """The state with what became of a start, and a sentence for one that failed.

    tried: ``{run, figures}``, or with ``why`` in place of figures. now: seconds since 1970; at: the same in words.
    EndedError where what serves now could not be measured: there is nothing to compare with.
    """
    candidate = [int(place) for place in tried["run"]["candidate"]]
    seconds = max(0.0, now - float(tried["run"]["began"]))
    if not tried.get("why"):
        kind, figures = tried["run"]["kind"], tried["figures"]
        run: SearchRun = {"kind": kind, "candidate": candidate, "at": at, "seconds": seconds, "figures": figures}
        return {**state, "runs": [*state["runs"], run]}, ""
    if not any(candidate):
        raise EndedError(f"what serves now could not be measured: {tried['why']}")
    why = str(tried["why"])[:_MOST_LETTERS]
    failed: RefusedCandidate = {"candidate": candidate, "why": why, "tried": True, "seconds": seconds}
    return {**state, "refused": [*state["refused"], failed]}, f"{search.words(candidate)}: {why}"


def ended(search: Search, state: SearchState) -> tuple[dict[str, Any], bool]:
    """The verdict, and whether the search is over however many hours it had."""
    endless = replace(search.budget, seconds=math.inf)
    found = verdict(state, search.space, search.asked, search.service)
    return found, upcoming(state, search.space, search.asked, endless, _gains(search)) is None


def _gains(search: Search) -> list[list[float]]:
    """What the forecast expects of each value of each setting, as a logarithm; 0 where it knows nothing of it."""
    users = search.asked.point.at_once

    def total(value: Mapping[str, Mapping[str, object]]) -> float | None:
        candidate = patched(search.service, [Choice("", [{}, value], ["", ""])], (1,))
        plan = search.sources.with_service(search.name, candidate).planned()
        return expected_total(plan["services"][search.name]["speed"], users)

    now = expected_total(search.plan["services"][search.name]["speed"], users)
    return [
        [
            math.log(of_value / now) if now and _FORECAST & _keys(value) and (of_value := total(value)) else 0.0
            for value in choice.values
        ]
        for choice in search.space
    ]


def _keys(value: Mapping[str, Mapping[str, object]]) -> set[str]:
    return {name for part in value.values() for name in part}


def _limit(plan: Plan, name: str, goal: Goal, users: int) -> float | None:
    """What nobody passes of the figure that is wanted, by the memory. With drafts it hangs on what they come to."""
    speed = plan["services"][name]["speed"]
    if speed is None or speed["pays"]:
        return None
    is_full = speed["together"] is not None and users >= speed["together"]["requests"]
    limit = (speed["together"] if is_full and speed["together"] else speed["alone"])["limit"]
    if goal.figure == THROUGHPUT:
        return users * limit
    return 1000 / speed["alone"]["limit"] if goal.figure.startswith("tpot") else None


def slices(search: Search, trial: Trial) -> dict[str, dict[str, Any]]:
    """By host the slice of a start, with the rank of the searched service alone."""
    return {
        host: {**trial.plan["hosts"][host], "services": [rank_of(trial.plan, search.name, host)]}
        for host in trial.plan["services"][search.name]["hosts"]
    }


def as_run(trial: Trial, began: float) -> dict[str, Any]:
    return {**asdict(trial.next), "began": began}


def _wrong_options(options: Mapping[str, Any]) -> Iterator[Finding]:
    for key, least in (("runs", 2), ("pairs", 2), ("rounds", 1), ("hours", 0.01)):
        if options[key] < least:
            remedy = "leave it out"
            yield error("tune-options", key, found=f"{options[key]}", expected=f"at least {least}", remedy=remedy)


def _too_long(plan: Plan, name: str, asked: SearchGoal) -> Iterator[Finding]:
    context, point = plan["services"][name]["kv"]["context"], asked.point
    if not points(context, None, [point.depth + point.prompt], [], point.answer):
        yield worded.error(
            "tune-goal/too-long", "goal", depth=point.depth + point.prompt + point.answer, context=context, name=name
        )


def _objections(search: Search, plan: Plan, candidate: Candidate) -> str:
    """Why the plan does not let a candidate be tried; empty where it does. What it warns of already is no reason."""
    if not any(candidate):
        return ""
    known = {_key(finding) for finding in search.plan["findings"]}
    new = [finding for finding in plan["findings"] if finding["severity"] in _FINDINGS and not finding.get("silenced")]
    new = [item for item in new if _key(item) not in known]
    if new:
        first = min(new, key=lambda item: _FINDINGS.index(item["severity"]))
        return f"{first['place']}: {first['found']}; expected {first['expected']} [{first['rule']}]"
    for host, slice_ in search.plan["hosts"].items():
        for service in slice_["services"]:
            if service["name"] == search.name:
                continue
            if rank_of(plan, service["name"], host)["definition"] != service["definition"]:
                return f"it would change {service['name']} on {host}, which shares that host's memory"
    return ""


def _round_s(state: SearchState) -> int:
    """How long a round may take: the load generator ends by itself after 1500 s; no round took longer than its start
    and all of its rounds together."""
    longest = max((run["seconds"] for run in state["runs"]), default=None)
    return _FIRST_S if longest is None else min(_FIRST_S, int(_SPARE_S + _TIMES * longest))


def _key(finding: Mapping[str, Any]) -> tuple[str, str]:
    return finding["rule"], finding["place"]


def _refuse(found: Iterable[Finding]) -> None:
    findings = list(found)
    if findings:
        raise FleetError(*findings)
