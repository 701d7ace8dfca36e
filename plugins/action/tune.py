# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.tune: plans each candidate before it is tried, and keeps the search beside the inventory."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError

from ..module_utils._base.findings import Finding, FleetError
from ..module_utils._base.own_files import replace_file
from ..module_utils._operations.bench.of_plan import load_of
from ..module_utils._operations.rollout.guard import guard
from ..module_utils._operations.tune import step
from ..module_utils._operations.tune.state import MOST_BYTES, SearchState, changed, read_state
from ..plugin_utils._documented import OnController
from ..plugin_utils._planning import Planning
from ..plugin_utils._screen import refusal, show

Options = Mapping[str, Any]


class ActionModule(OnController, Planning):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        options |= options["asked"]
        steps = {"begin": self._begin, "next": self._next, "record": self._record, "end": self._end}
        try:
            search = step.begin(self.declaration(variables), options)
            return {"changed": False} | steps[options["step"]](search, options)
        except FleetError as problem:
            raise _refusal(problem.findings) from None

    def _begin(self, search: step.Search, options: Options) -> dict[str, Any]:
        plan, name, budget = search.plan, search.name, search.budget
        if options["ranks"] is None:
            show(step.announced(search))
            return {
                "hosts": list(plan["services"][name]["hosts"]),
                "guard": guard(name, plan["inventory"]),
                "load": load_of(plan, name),
                "point": asdict(search.asked.point),
                "most": 0 if self._task.check_mode else budget.runs + 2 * budget.pairs,
            }
        if findings := tuple(step.not_as_planned(name, options["ranks"])):
            raise _refusal(findings)
        file = _file(options)
        if options["anew"] and not self._task.check_mode:
            file.unlink(missing_ok=True)
        state = _state(search, options) if options["seen"] else None
        if state and state["runs"]:
            show(f"goes on with {file}: {len(state['runs'])} starts were measured")
        return {}

    def _next(self, search: step.Search, options: Options) -> dict[str, Any]:
        before = _state(search, options)
        trial, state = step.following(search, before)
        if state != before:
            self._keep(options, state)
        if trial is None:
            return {"over": True}
        show(f"{trial.number}. {trial.next.kind}: {search.words(trial.next.candidate)}")
        return {
            "over": False,
            "run": step.as_run(trial, time.time()),
            "slices": step.slices(search, trial),
            "load": load_of(trial.plan, search.name),
            "round_s": trial.round_s,
            "limit_s": trial.limit_s,
        }

    def _record(self, search: step.Search, options: Options) -> dict[str, Any]:
        try:
            state, why = step.recorded(search, _state(search, options), options["tried"], time.time(), _now())
        except step.EndedError as problem:
            raise AnsibleActionFail(str(problem)) from None
        if why:
            show(why)
        self._keep(options, state)
        return {"changed": True}

    def _end(self, search: step.Search, options: Options) -> dict[str, Any]:
        if self._task.check_mode:
            return {}
        state, file = _state(search, options), _file(options)
        found, is_over = step.ended(search, state)
        show(found["text"])
        if is_over:
            kept = file.with_name(f"{search.name}-{state['begun'].replace(':', '')}.json")
            file.replace(kept)
            show(f"kept: {kept}")
        else:
            show(f"not over: run it again to go on, where time was over with more hours; {file} has its runs")
        return {"better": found["better"]}

    def _keep(self, options: Options, state: SearchState) -> None:
        if not self._task.check_mode:
            replace_file(_file(options), (json.dumps(state, indent=1) + "\n").encode())


def _file(options: Options) -> Path:
    return Path(options["folder"]) / f"{options['service']}.json"


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _state(search: step.Search, options: Options) -> SearchState:
    """The search that goes on, or a new one."""
    file, new = _file(options), search.new_state(_now(), options["seen"] or {})
    try:
        with file.open("rb") as stream:
            state = read_state(stream.read(MOST_BYTES + 1), str(file))
    except FileNotFoundError:
        return new
    except (OSError, ValueError) as problem:
        raise AnsibleActionFail(f"{problem}; remove {file}, and the search begins again") from None
    if different := changed(state, new):
        raise AnsibleActionFail(
            f"{file} is a search that was ended, of another {' and '.join(different)}: go on with that "
            f'(its goal was "{state["goal"]}"), or write -e anew=true'
        )
    return state


def _refusal(findings: tuple[Finding, ...]) -> AnsibleError:
    sentences = "\n".join(finding.sentence() for finding in findings)
    return refusal(sentences, "refused, as named above: nothing was tried")
