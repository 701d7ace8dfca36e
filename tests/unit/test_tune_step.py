# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each step of a search, decided without a host: what is refused, what is tried next, what is kept of it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._operations.tune import step
from ansible_collections.gb10.fleet.plugins.module_utils._plan.sources import Sources, read_sources

ROOT = Path(__file__).resolve().parents[2]
CHAT = {"recipe": "lab-tiny", "hosts": ["titan"], "port": 8000, "workload": {"max_model_len": 2048, "max_num_seqs": 2}}
OPTIONS = {"service": "chat", "hosts": ["titan"], "goal": "4 users, prompt 64, answer 8"}
OPTIONS |= {"runs": 4, "pairs": 2, "rounds": 3, "hours": 1.0}
AT = "2026-11-26T12:00:00Z"


@pytest.fixture(scope="module")
def sources() -> Sources:
    variables = {"fleet_services": {"chat": CHAT}, "fleet_fabric": None, "fleet_host": {"memory_kib": 15728640}}
    host: Any = {"address": "10.0.0.1", "port": 22, "variables": variables}
    return read_sources({"hosts": {"titan": host}, "folder": str(ROOT / "inventories/lab")})


@pytest.fixture(scope="module")
def search(sources: Sources) -> step.Search:
    return step.begin(sources, OPTIONS)


def state_of(search: step.Search, **parts: Any) -> dict[str, Any]:
    return {**search.new_state(AT, {}), **parts}


def tried(search: step.Search, place: int = 0, **became: Any) -> dict[str, Any]:
    candidate = [place, *[0] * (len(search.space) - 1)]
    return {"run": {"kind": "search", "candidate": candidate, "began": 1000.0}, **became}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"runs": 1}, "tune-options"),
        ({"hours": 0.0}, "tune-options"),
        ({"goal": "4 users, prompt 4096"}, "tune-goal"),
        ({"goal": "fast"}, "tune-goal"),
        ({"service": "nobody"}, "service-unknown"),
    ],
)
def test_what_no_search_is_for_is_refused(sources: Sources, change: dict[str, Any], rule: str) -> None:
    with pytest.raises(FleetError) as refused:
        step.begin(sources, {**OPTIONS, **change})
    assert rule in {finding.rule for finding in refused.value.findings}


def test_the_settings_that_are_tried_begin_with_what_the_plan_has(search: step.Search) -> None:
    """By `services.chat.flags`, whose reasons are in `explain`."""
    service = search.plan["services"]["chat"]
    rows = [(row["name"], row["value"]) for row in service["explain"] if row["kind"] == "flag"]
    assert rows and rows == [*service["flags"].items()]


def test_what_serves_now_comes_first_and_what_the_plan_refuses_is_kept(search: step.Search) -> None:
    first, state = step.following(search, state_of(search))
    assert first is not None and state["refused"] == []
    assert (first.number, [*first.next.candidate], first.round_s) == (1, [0] * len(search.space), 1800)
    state, why = step.recorded(search, state, tried(search, figures={"tokens/s": [30.0, 31.0]}), 1100.0, AT)
    assert (why, state["runs"][0]["seconds"]) == ("", 100.0)
    before = copy.deepcopy(state)
    second, after = step.following(search, state)
    assert state == before
    assert second is not None and (second.number, second.round_s) == (2, 420)
    # a small host: memory for few of them
    assert after["refused"] and all(one["why"].endswith("]") and not one["tried"] for one in after["refused"])


def test_a_candidate_that_fails_counts_and_what_serves_now_must_not(search: step.Search) -> None:
    state, why = step.recorded(search, state_of(search), tried(search, 1, why="it died" * 1000), 990.0, AT)
    [failed] = state["refused"]
    assert failed["tried"] and failed["seconds"] == 0.0 and len(failed["why"]) == 4000
    assert why.startswith(f"{search.space[0].name} ")
    with pytest.raises(step.EndedError, match="what serves now could not be measured: it died"):
        step.recorded(search, state_of(search), tried(search, why="it died"), 1100.0, AT)


def test_only_a_search_that_could_not_go_on_is_over(search: step.Search) -> None:
    runs = step.recorded(search, state_of(search), tried(search, figures={"tokens/s": [30.0]}), 1100.0, AT)[0]["runs"]
    found, is_over = step.ended(search, state_of(search, runs=runs))
    assert not is_over and not found["better"]
    short = step.Search(**{**vars(search), "budget": type(search.budget)(1, 2, 1.0)})
    assert step.ended(short, state_of(search, runs=runs))[1]


@pytest.mark.parametrize(
    ("definition", "health", "found"),
    [("x", "serving", None), ("y", "serving", "another definition"), ("x", "loading", "loading")],
)
def test_a_search_is_about_what_serves_as_planned(definition: str, health: str, found: str | None) -> None:
    rank = {"service": "chat", "definition": definition, "wanted": "x", "health": health}
    problems = [*step.not_as_planned("chat", {"titan": [rank, {**rank, "service": "other", "health": "stopped"}]})]
    assert (len(problems) == 1 and found in problems[0].found) if found else problems == []
