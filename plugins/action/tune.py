# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.tune: plans each candidate before it is tried, and keeps the search beside the inventory."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import Finding, FleetError, error
from ansible_collections.gb10.fleet.plugins.module_utils._base.own_files import replace_file
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._base.ranks import head_of, rank_of
from ansible_collections.gb10.fleet.plugins.module_utils._engines.interface import Choice
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.sweep import points, problems
from ansible_collections.gb10.fleet.plugins.module_utils._operations.rollout.guard import guard
from ansible_collections.gb10.fleet.plugins.module_utils._operations.tune.goal import Asked, read_goal
from ansible_collections.gb10.fleet.plugins.module_utils._operations.tune.search import Candidate
from ansible_collections.gb10.fleet.plugins.module_utils._operations.tune.state import (
    MOST_BYTES,
    Budget,
    begun,
    changed,
    read_state,
    upcoming,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.tune.verdict import patched, verdict, words
from ansible_collections.gb10.fleet.plugins.module_utils._plan.sources import Sources
from ansible_collections.gb10.fleet.plugins.modules.tune import DOCUMENTATION
from ansible_collections.gb10.fleet.plugins.plugin_utils._argument_spec import documented
from ansible_collections.gb10.fleet.plugins.plugin_utils._benchmarking import load_of
from ansible_collections.gb10.fleet.plugins.plugin_utils._planning import Planning
from ansible_collections.gb10.fleet.plugins.plugin_utils._screen import refusal, show

_FINDINGS = ("error", "warning")
_FIRST_S, _SPARE_S, _TIMES = 1800, 120, 3
_FORM = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class _Search:
    """What one step looks at. plan: of what serves now."""

    options: Mapping[str, Any]
    declared: Sources
    plan: Mapping[str, Any]
    asked: Asked
    space: Sequence[Choice]

    @property
    def name(self) -> str:
        return str(self.options["service"])

    @property
    def file(self) -> Path:
        return Path(self.options["folder"]) / f"{self.name}.json"

    @property
    def service(self) -> dict[str, Any]:
        return dict(self.declared.services[self.name])

    @property
    def budget(self) -> Budget:
        return Budget(self.options["runs"], self.options["pairs"], self.options["hours"] * 3600)


class ActionModule(Planning):
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables)
        _checked, options = self.validate_argument_spec(documented(DOCUMENTATION))
        search = _looked_at({**options, **options["asked"]}, self.declaration(variables))
        step = {"begin": self._begin, "next": self._next, "record": self._record, "end": self._end}[options["step"]]
        return result | {"changed": False} | step(search)

    def _begin(self, search: _Search) -> dict[str, Any]:
        plan, name = search.plan, search.name
        hosts = list(plan["services"][name]["hosts"])
        if search.options["ranks"] is None:
            budget = search.budget
            show(_announced(search))
            return {
                "hosts": hosts,
                "guard": guard(name, plan["inventory"]),
                "load": load_of(plan, name),
                "point": asdict(search.asked.point),
                "most": 0 if self._task.check_mode else budget.runs + 2 * budget.pairs,
            }
        _refuse(_not_as_planned(search))
        if search.options["anew"] and not self._task.check_mode:
            search.file.unlink(missing_ok=True)
        state = self._state(search) if search.options["seen"] else {}
        if state.get("runs"):
            show(f"goes on with {search.file}: {len(state['runs'])} starts were measured")
        return {}

    def _next(self, search: _Search) -> dict[str, Any]:
        state = self._state(search)
        while (following := upcoming(state, search.space, search.asked, search.budget)) is not None:
            plan = search.declared.with_service(
                search.name, patched(search.service, search.space, following.candidate)
            ).planned()
            why = _objections(search, plan, following.candidate)
            if not why:
                break
            state["refused"].append({"candidate": list(following.candidate), "why": why, "tried": False, "seconds": 0})
            self._keep(search, state)
        if following is None:
            return {"over": True}
        count = len(state["runs"]) + sum(one["tried"] for one in state["refused"]) + 1
        show(f"{count}. {following.kind}: {words(search.space, following.candidate)}")
        return {
            "over": False,
            "run": {**asdict(following), "began": time.time()},
            "slices": {
                host: {**plan["hosts"][host], "services": [rank_of(plan, search.name, host)]}
                for host in plan["services"][search.name]["hosts"]
            },
            "load": load_of(plan, search.name),
            "round_s": _round_s(state),
            "limit_s": int(plan["services"][search.name]["costs"]["start_limit_s"]),
        }

    def _record(self, search: _Search) -> dict[str, Any]:
        state, tried = self._state(search), search.options["tried"]
        candidate = [int(place) for place in tried["run"]["candidate"]]
        seconds = max(0.0, time.time() - float(tried["run"]["began"]))
        if tried.get("why"):
            if not any(candidate):
                raise AnsibleActionFail(f"what serves now could not be measured: {tried['why']}")
            why = str(tried["why"])[:4000]
            state["refused"].append({"candidate": candidate, "why": why, "tried": True, "seconds": seconds})
            show(f"{words(search.space, tuple(candidate))}: {why}")
        else:
            now = datetime.now(UTC)
            state["runs"].append(
                {
                    "kind": tried["run"]["kind"],
                    "candidate": candidate,
                    "at": f"{now:{_FORM}}",
                    "seconds": seconds,
                    "figures": tried["figures"],
                }
            )
        self._keep(search, state)
        return {"changed": True}

    def _end(self, search: _Search) -> dict[str, Any]:
        if self._task.check_mode:
            return {}
        state = self._state(search)
        found = verdict(state, search.space, search.asked, search.service)
        show(found["text"])
        endless = replace(search.budget, seconds=math.inf)
        if upcoming(state, search.space, search.asked, endless) is None:
            kept = search.file.with_name(f"{search.name}-{state['begun'].replace(':', '')}.json")
            search.file.replace(kept)
            show(f"kept: {kept}")
        else:
            show(f"not over: run it again to go on, where time was over with more hours; {search.file} has its runs")
        return {"better": found["better"]}

    def _state(self, search: _Search) -> dict[str, Any]:
        """The search that goes on, or a new one."""
        slice_ = head_of(search.plan, search.name)
        seen = search.options["seen"] or {}
        now = f"{datetime.now(UTC):{_FORM}}"
        new = begun(search.asked, search.name, slice_["definition"], now, seen, search.space)
        try:
            with search.file.open("rb") as stream:
                state = read_state(stream.read(MOST_BYTES + 1), str(search.file))
        except FileNotFoundError:
            return new
        except (OSError, ValueError) as problem:
            raise AnsibleActionFail(f"{problem}; remove {search.file}, and the search begins anew") from None
        different = changed(state, new)
        if different:
            raise AnsibleActionFail(
                f"{search.file} is a search that was ended, of another {' and '.join(different)}: go on with that "
                f'(its goal was "{state["goal"]}"), or write -e anew=true'
            )
        return state

    def _keep(self, search: _Search, state: Mapping[str, Any]) -> None:
        if not self._task.check_mode:
            replace_file(search.file, (json.dumps(state, indent=1) + "\n").encode())


def _looked_at(options: Mapping[str, Any], declared: Sources) -> _Search:
    plan, name = declared.planned(), options["service"]
    tools = {engine: one.spec.load for engine, one in ENGINES.items()}
    _refuse([*problems(plan, [name], options["hosts"], tools), *_wrong_options(options)])
    service = plan["services"][name]
    engine = ENGINES[service["engine"]]
    try:
        asked = read_goal(options["goal"], [*engine.spec.load_goals])
    except FleetError as problem:
        _refuse(problem.findings)
        raise
    flags = {row["key"][5:]: row["value"] for row in service["explain"] if row["key"].startswith("flag ")}
    release = service["image"]["release"]
    space = engine.choices(flags, release, asked.point.at_once, bool(asked.point.depth))
    _refuse(_too_long(plan, name, asked))
    return _Search(options, declared, plan, asked, space)


def _wrong_options(options: Mapping[str, Any]) -> Iterator[Finding]:
    for key, least in (("runs", 2), ("pairs", 2), ("rounds", 1), ("hours", 0.01)):
        if options[key] < least:
            remedy = "leave it out"
            yield error("tune-options", key, found=f"{options[key]}", expected=f"at least {least}", remedy=remedy)


def _too_long(plan: Mapping[str, Any], name: str, asked: Asked) -> Iterator[Finding]:
    context, point = plan["services"][name]["kv"]["context"], asked.point
    if not points(context, None, [point.depth + point.prompt], [], point.answer):
        yield error(
            "tune-goal",
            "goal",
            found=f"requests of {point.depth + point.prompt + point.answer} tokens",
            expected=f"some that fit into the {context} which {name} takes",
            remedy="write a shorter prompt or answer into it",
        )


def _announced(search: _Search) -> str:
    budget, point = search.budget, search.asked.point
    lines = [f"{one.name}: {', '.join(one.words)}" for one in search.space if len(one.values) > 1]
    return "\n".join(
        [
            f"{search.name}: {search.asked.text} ({point.requests} requests of {point.depth + point.prompt} tokens, "
            f"{point.answer} answered, {search.options['rounds']} rounds each start)",
            *lines,
            f"at most {budget.runs} starts, and {budget.pairs} pairs to prove the best, in {search.options['hours']:g} "
            f"hours; {search.name} is not for others meanwhile, and serves as now afterwards",
        ]
    )


def _not_as_planned(search: _Search) -> Iterator[Finding]:
    """A search is about what serves now, which a plan that changes it would not put back."""
    for host, ranks in search.options["ranks"].items():
        for rank in ranks:
            if rank["service"] == search.name and (rank["definition"] != rank["wanted"] or rank["health"] != "serving"):
                state = "goes by another definition than planned" if rank["health"] == "serving" else rank["health"]
                yield error(
                    "tune-service",
                    Place(host=host, thing=search.name),
                    found=state,
                    expected="a service that serves as it is declared",
                    remedy="run site.yml or rollout.yml first; status.yml says how it does",
                )


def _objections(search: _Search, plan: Mapping[str, Any], candidate: Candidate) -> str:
    """Why the plan does not let a candidate be tried; empty where it does. What it warns of already is no reason."""
    if not any(candidate):
        return ""
    known = {_key(one) for one in search.plan["findings"]}
    new = [one for one in plan["findings"] if one["severity"] in _FINDINGS and not one.get("silenced")]
    new = [one for one in new if _key(one) not in known]
    if new:
        first = min(new, key=lambda one: _FINDINGS.index(one["severity"]))
        return f"{first['place']}: {first['found']}; expected {first['expected']} [{first['rule']}]"
    for host, slice_ in search.plan["hosts"].items():
        for one in slice_["services"]:
            if one["name"] == search.name:
                continue
            if rank_of(plan, one["name"], host)["definition"] != one["definition"]:
                return f"it would change {one['name']} on {host}, which shares that host's memory"
    return ""


def _round_s(state: Mapping[str, Any]) -> int:
    """How long a round may take: the load generator ends by itself after 1500 s; no round took longer than its start
    and all of its rounds together."""
    longest = max((run["seconds"] for run in state["runs"]), default=None)
    return _FIRST_S if longest is None else min(_FIRST_S, int(_SPARE_S + _TIMES * longest))


def _key(finding: Mapping[str, Any]) -> tuple[str, str]:
    return finding["rule"], finding["place"]


def _refuse(found: Iterable[Finding]) -> None:
    sentences = [one.sentence() for one in found]
    if sentences:
        raise refusal("\n".join(sentences), "refused, as named above: nothing was tried")
