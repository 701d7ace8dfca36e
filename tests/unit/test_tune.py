# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Searches for faster settings: the goal, what is tried, what is kept of it, the verdict, and the way back."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.speed.forecast import Cache, Part, Shape
from ansible_collections.gb10.fleet.plugins.module_utils._on_host import trial
from ansible_collections.gb10.fleet.plugins.module_utils._operations.rollout.guard import guard
from ansible_collections.gb10.fleet.plugins.module_utils._operations.tune.goal import figures_of, read_goal
from ansible_collections.gb10.fleet.plugins.module_utils._operations.tune.search import (
    Goal,
    Limit,
    Run,
    Setting,
    best_of,
    following,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.tune.state import (
    AGAIN,
    Budget,
    Next,
    begun,
    changed,
    read_state,
    upcoming,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.tune.verdict import (
    compared,
    patched,
    verdict,
    words,
)
from hypothesis import given
from hypothesis import strategies as st
from tune_truths import STARTS, drawn, history, of_stand_in, searched, with_forecast

ROOT = Path(__file__).parents[2]
KNOWN = [*ENGINES["vllm"].spec.load_goals]
ASKED = read_goal("64 users, ttft_p95 < 2 s", KNOWN)
SPACE = ENGINES["vllm"].choices({"max-num-seqs": 4}, "0.32.0", 64, False)
START = (0,) * len(SPACE)
SERVICE = {"recipe": "nano", "workload": {"max_num_seqs": 4}, "flags": {"seed": 7}}
PLENTY = Budget(25, 3, 1e9)


# The goal ---------------------------------------------------------------------------------------------------------


def test_a_goal_is_read() -> None:
    assert (ASKED.point.at_once, ASKED.point.requests, ASKED.point.prompt, ASKED.point.answer) == (64, 256, 512, 128)
    assert ASKED.goal == Goal("tokens/s", True, (Limit("ttft_p95", 2000.0),))
    other = read_goal("1 user,  tpot_p50 <= 50ms, prompt 2048, answer 256, shared 8192, least ttft_p50", KNOWN)
    assert other.goal == Goal("ttft_p50", False, (Limit("tpot_p50", 50.0),))
    assert (other.point.prompt, other.point.answer, other.point.depth) == (2048, 256, 8192)
    assert other.figures == ["ttft_p50", "tpot_p50"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no number of users"),
        ("64", '"64" is none of these'),
        ("ttft_p95 < 2 s", "no number of users"),
        ("0 users", "expected 1 to 4096"),
        ("64 users, tftt_p95 < 2 s", 'no figure "tftt_p95", write "ttft_p95"'),
        ("64 users, ttft_p95 < 2", "expected ttft_p95 < NUMBER s, or ms"),
        ("64 users, ttft_p95 > 2 s", "expected ttft_p95 < NUMBER s, or ms"),
        ("64 users, ttft_p95 < 0 s", "expected more than 0"),
        ("64 users, 8 users", "the second of its kind"),
        ("64 users, most ttft_p95", "expected most tokens/s, or least and one of"),
        ("64 users, prompt 0", "expected 1 to 1000000 tokens"),
    ],
)
def test_a_goal_that_can_not_be_read_names_its_part(text: str, sentence: str) -> None:
    with pytest.raises(FleetError, match="goal: ") as problem:
        read_goal(text, KNOWN)
    assert sentence in str(problem.value)
    assert '-e goal="64 users, ttft_p95 < 2 s"' in str(problem.value)


@given(st.text(max_size=60))
def test_any_text_is_a_goal_or_a_sentence(text: str) -> None:
    try:
        read_goal(text, KNOWN)
    except FleetError as problem:
        assert problem.findings


def test_what_was_not_measured_is_refused() -> None:
    keys = ENGINES["vllm"].spec.load_goals
    raw = {"p95_ttft_ms": 1200.0}
    assert figures_of(raw, {"tokens/s": 9.0}, ASKED, keys) == {"tokens/s": 9.0, "ttft_p95": 1200.0}
    for wrong in ({}, {"p95_ttft_ms": "1"}, {"p95_ttft_ms": 0}, {"p95_ttft_ms": True}):
        with pytest.raises(ValueError, match="measured no ttft_p95"):
            figures_of(wrong, {"tokens/s": 9.0}, ASKED, keys)


# What may be tried ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "flags",
    [{}, {"enforce-eager": True, "kv-cache-dtype": "fp8"}, {"speculative-config": {"num_speculative_tokens": 1}}],
)
def test_the_first_value_of_each_setting_is_what_is_there(flags: dict[str, Any]) -> None:
    for choice in ENGINES["vllm"].choices(flags, None, 8, True):
        assert choice.values[0] == {}
        assert len(choice.values) == len(choice.words) == len(set(choice.words))
        assert choice.places is None or len(choice.places) == len(choice.values)
        assert {part for value in choice.values for part in value} <= {"flags", "workload"}


def test_beginnings_of_prompts_matter_only_where_they_are_shared() -> None:
    names = [{one.name for one in ENGINES["vllm"].choices({}, None, 8, shared)} for shared in (False, True)]
    assert names[1] - names[0] == {"beginnings of prompts"}


def test_a_candidate_changes_what_it_names_alone() -> None:
    candidate = tuple(len(one.values) - 1 for one in SPACE)
    after = patched(SERVICE, SPACE, candidate)
    assert SERVICE["flags"] == {"seed": 7}
    assert (after["recipe"], after["flags"]["seed"], after["workload"]) == ("nano", 7, {"max_num_seqs": 64})
    assert patched(SERVICE, SPACE, START) == SERVICE
    assert words(SPACE, START) == "as it is"


# The search -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(STARTS)))
def test_the_stand_ins_best_is_found_from_five_starts(number: int) -> None:
    truth = of_stand_in(STARTS[number])
    for seed in range(2):
        assert searched(truth, random.Random(seed), 0.02, (0,) * len(truth.space)) <= 0.05


MODEL = Shape(
    32, 4096, Part(1.34e9, 1), Part(5.6e9, 1), Part(), Part(0.5e9, 2), caches=(Cache(32, 2048),), queries=4096
)


def test_a_forecast_saves_starts_and_finds_the_same() -> None:
    """The truths are the stand-in's, of which the forecast knows nothing."""
    before, after = [], []
    for flags in STARTS:
        truth = of_stand_in(flags)
        start = (0,) * len(truth.space)
        before.append(history(truth, random.Random(1), 0.02, start))
        after.append(history(with_forecast(truth, flags, MODEL), random.Random(1), 0.02, start))
    assert all(loss <= 0.05 for loss, _, _ in after)
    for figure, share in ((1, 0.8), (2, 0.85)):  # starts to come near the best, and in all
        assert sum(one[figure] for one in after) <= share * sum(one[figure] for one in before)


def test_nothing_is_tried_near_the_limit() -> None:
    truth = of_stand_in(STARTS[0])
    best = math.exp(-truth.best)
    start = min(product(*(range(one.values) for one in truth.space)), key=truth.cost)
    _, _, starts = history(truth, random.Random(1), 0.0, start, most=best / 0.9)
    assert starts == 1 + AGAIN
    assert history(truth, random.Random(1), 0.0, start, most=best / 0.7)[2] > starts
    goal = Goal("tpot_p50", False, most=10.0)
    assert following([Setting(2)], [Run((0,), {"tpot_p50": 11.0})], goal, 9, 0) is None
    assert following([Setting(2)], [Run((0,), {"tpot_p50": 13.0})], goal, 9, 0) == (1,)


def test_what_a_forecast_is_sure_of_is_tried_first_and_what_it_rules_out_never() -> None:
    space = [Setting(3, gains=[0.0, -0.5, 0.3]), Setting(2), Setting(2, gains=[0.0, 0.05])]
    runs = [Run((0, 0, 0), {"tokens/s": 100.0})]
    goal = Goal("tokens/s", True)
    assert following(space, runs, goal, 9, 0) == (2, 0, 0)
    assert following(space, runs, goal, 9, 0, [(2, 0, 0)]) == (0, 1, 0)
    seen: list[Any] = []
    while (candidate := following(space, runs, goal, 99, 0)) is not None:
        seen.append(candidate)
        runs.append(Run(candidate, {"tokens/s": 100.0 + candidate[0]}))
    assert seen and not any(candidate[0] == 1 for candidate in seen)


def test_of_services_drawn_at_random_nearly_all_are_searched_well() -> None:
    """Hundreds of them: tests/tune/test_simulated.py."""
    found = []
    for seed in range(20):
        chance = random.Random(seed)
        truth = drawn(chance, 0.15, 0.03)
        found.append(searched(truth, chance, 0.02, tuple(chance.randrange(one.values) for one in truth.space)))
    assert sum(loss <= 0.05 for loss in found) >= 18
    assert max(found) < 0.2


def test_what_does_not_hold_the_limit_is_not_the_best() -> None:
    goal = Goal("tokens/s", True, [Limit("ttft_p95", 2000.0)])
    slow, late = {"tokens/s": 90.0, "ttft_p95": 900.0}, {"tokens/s": 200.0, "ttft_p95": 9000.0}
    runs = [Run((0,), slow), Run((1,), late)]
    assert best_of(runs, goal) == (0,)
    assert best_of(runs[1:], goal) is None
    assert best_of(runs, goal, {(0,)}) is None


def test_what_will_not_hold_the_limit_is_not_tried_next() -> None:
    """Of two that promise the same speed, one is near to what broke the limit."""
    space = [Setting(2), Setting(2)]
    runs = [Run((0, 0), {"tokens/s": 100.0, "ttft_p95": 500.0}), Run((1, 0), {"tokens/s": 150.0, "ttft_p95": 90_000.0})]
    limit = Limit("ttft_p95", 2000.0)
    assert following(space, runs, Goal("tokens/s", True), 9, 2) == (1, 1)
    assert following(space, runs, Goal("tokens/s", True, [limit]), 9, 2) == (0, 1)


def test_nothing_is_tried_twice_or_after_it_was_refused() -> None:
    space = [Setting(2), Setting(2)]
    runs = [Run((0, 0), {"tokens/s": 9.0})]
    goal = Goal("tokens/s", True)
    seen = {following(space, runs, goal, 9, 0, refused) for refused in ([(0, 1), (1, 1)], [(1, 0), (1, 1)])}
    assert seen == {(1, 0), (0, 1)}
    assert following(space, runs, goal, 9, 0, [(0, 1), (1, 0), (1, 1)]) is None


def test_what_may_be_the_best_starts_again_at_the_end_and_where_nothing_else_is_left() -> None:
    space, goal = [Setting(3)], Goal("tokens/s", True)
    runs = [Run((0,), {"tokens/s": 100.0}), Run((1,), {"tokens/s": 102.0})]
    assert following(space, runs, goal, 3, 2) == (2,)
    assert following(space, runs, goal, 2, 2) == (1,)
    assert following(space, runs, goal, 9, 2, {(2,)}) == (1,)
    twice = [*runs, Run((1,), {"tokens/s": 98.0})]
    assert following(space, twice, goal, 9, 2, {(2,)}) == (0,)
    assert following(space, [*twice, Run((0,), {"tokens/s": 100.0})], goal, 9, 2, {(2,)}) is None


def test_numbers_are_tried_from_what_is_near_and_each_setting_once_before_any_again() -> None:
    space, goal = [Setting(4, (0.0, 1.0, 2.0, 3.0)), Setting(2)], Goal("tokens/s", True)
    runs = [Run((1, 0), {"tokens/s": 100.0})]
    order = []
    while (candidate := following(space, runs, goal, 99, 0)) is not None:
        order.append(candidate)
        runs.append(Run(candidate, {"tokens/s": 200.0 if candidate == (1, 1) else 50.0}))
    assert order == [(0, 0), (2, 0), (3, 0), (1, 1), (0, 1), (2, 1), (3, 1)]


# What is kept -----------------------------------------------------------------------------------------------------


def kept(runs: Sequence[tuple[str, tuple[int, ...], float]] = ()) -> dict[str, Any]:
    state = begun(ASKED, "chat", "d" * 64, "2026-11-24T20:00:00Z", {"image": "sha256:1"}, SPACE)
    state["runs"] = [
        {
            "kind": kind,
            "candidate": list(candidate),
            "at": "2026-11-24T20:10:00Z",
            "seconds": 100.0,
            "figures": {"tokens/s": [speed, speed * 1.01], "ttft_p95": [1000.0, 1100.0]},
        }
        for kind, candidate, speed in runs
    ]
    return state


OTHER = (1, *START[1:])
FOUND = [("search", START, 100.0), ("search", OTHER, 150.0)]
# A B, B A, A B
PROOF = [
    ("proof", START, 100.0),
    ("proof", OTHER, 151.0),
    ("proof", OTHER, 149.0),
    ("proof", START, 101.0),
    ("proof", START, 99.0),
    ("proof", OTHER, 150.0),
]
UNSURE = [("proof", START, 100.0), ("proof", OTHER, 120.0), ("proof", OTHER, 100.0), ("proof", START, 115.0)]


def test_a_search_goes_on_where_it_was_ended() -> None:
    """The same runs give the same next one, through the file."""
    for count in range(len(FOUND) + 1):
        state = kept(FOUND[:count])
        again = read_state(json.dumps(state).encode(), "chat.json")
        assert again == state
        assert upcoming(again, SPACE, ASKED, PLENTY) == upcoming(state, SPACE, ASKED, PLENTY) is not None
    assert upcoming(kept(), SPACE, ASKED, PLENTY) == Next("search", START)


def test_the_best_is_proved_in_turns() -> None:
    few = Budget(2, 3, 1e9)
    for count in range(len(PROOF)):
        kind, candidate, _speed = PROOF[count]
        assert upcoming(kept(FOUND + PROOF[:count]), SPACE, ASKED, few) == Next(kind, candidate)  # type: ignore[arg-type]
    assert upcoming(kept(FOUND + PROOF), SPACE, ASKED, few) is None


def test_a_budget_of_time_leaves_some_for_the_proof() -> None:
    assert upcoming(kept(FOUND), SPACE, ASKED, Budget(25, 3, 200 + 650)) == Next("proof", START)
    assert upcoming(kept(FOUND), SPACE, ASKED, Budget(25, 3, 200 + 750)).kind == "search"  # type: ignore[union-attr]
    assert upcoming(kept(FOUND), SPACE, ASKED, Budget(25, 3, 250)) is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"runs": 7}, "runs"),
        ({"refused": [{"candidate": [99, *START[1:]], "why": "", "tried": False}]}, "99"),
        ({"refused": [{"candidate": [5, *START[1:]], "why": "", "tried": False}]}, "is none of its candidates"),
        ({"refused": [{"candidate": [0], "why": "", "tried": False}]}, "is none of its candidates"),
        ({"goal": None}, "goal"),
        ({"more": 1}, "unknown key"),
    ],
)
def test_a_damaged_file_is_refused_with_a_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=r"chat\.json") as problem:
        read_state(json.dumps(kept() | change).encode(), "chat.json")
    assert sentence in str(problem.value)


def test_another_search_is_not_gone_on_with() -> None:
    now = kept()
    assert changed(kept(FOUND), now) == []
    assert changed(kept(FOUND), now | {"goal": "1 user", "conditions": {}}) == ["goal", "conditions"]


# The verdict ------------------------------------------------------------------------------------------------------


def test_something_better_ends_in_a_diff_that_plans_alike() -> None:
    found = verdict(kept(FOUND + PROOF), SPACE, ASKED, SERVICE)
    assert found["better"] and found["candidate"] == list(OTHER)
    assert "95 % of 3 pairs of starts" in found["text"]
    added = [line[1:] for line in found["text"].splitlines() if line.startswith("+ ")]
    assert yaml.safe_load("\n".join(line.strip() for line in added)) == SPACE[0].values[1]["flags"]
    assert "-    " not in found["text"].replace("--- ", "")


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        ([], "nothing was measured"),
        (FOUND[:1], "what serves now is the best: leave it"),
        (FOUND, "not proved"),
        ([*FOUND, *UNSURE], "no difference shown, leave it as it is"),
    ],
)
def test_what_was_not_shown_is_not_proposed(runs: list[Any], sentence: str) -> None:
    found = verdict(kept(runs), SPACE, ASKED, SERVICE)
    assert not found["better"]
    assert sentence in found["text"]
    assert "+++" not in found["text"]


def test_a_note_of_a_choice_is_in_the_verdict() -> None:
    place = next(number for number, one in enumerate(SPACE) if one.name == "KV type")
    other = tuple(int(number == place) for number in range(len(SPACE)))
    found = verdict(kept([FOUND[0], ("search", other, 200.0)]), SPACE, ASKED, SERVICE)
    assert f"before you keep it: {SPACE[place].note}" in found["text"]


def test_an_interval_of_equal_services_holds_one_in_nineteen_of_twenty() -> None:
    chance = random.Random(1)
    wrong = 0
    for _ in range(400):
        sides = [[Run((0,), {"f": math.exp(chance.gauss(0, 0.02))}) for _ in range(3)] for _ in range(2)]
        ratio = compared(*sides, "f")
        assert ratio is not None
        wrong += not ratio.low <= 1 <= ratio.high
    assert wrong <= 400 * 0.05 + 3 * math.sqrt(400 * 0.05)


# The way back -----------------------------------------------------------------------------------------------------


class Host:
    """A service of which a candidate runs, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.file, self.brought = folder / "chat.json", folder / "brought"
        self.timer, self.unit = folder / "gb10-trial-chat.timer", folder / "gb10-trial-chat.service"
        self.back, self.deadline = folder / "back", folder / "gb10-trial-chat"
        for path in (self.file, self.brought, self.timer, self.unit):
            path.write_text("new")
        self.back.mkdir()
        (self.back / "0").write_text("old")
        index = {
            "files": {str(self.file): "0", str(self.brought): None},
            "modes": {str(self.file): 0o640},
            "image": "sha256:1",
            "name": "vllm",
        }
        (self.back / "index.json").write_text(json.dumps(index))
        self.ran: list[str] = []

    def put_back(self) -> bool:
        own = [self.timer, self.unit]
        return trial.put_back(self.back, "chat.service", own, self.deadline, lambda one: self.ran.append(" ".join(one)))


def test_a_host_that_is_left_alone_puts_back_what_served(tmp_path: Path) -> None:
    host = Host(tmp_path)
    with trial.alone(host.deadline):
        trial.move(host.deadline, 60)
    assert not host.put_back()
    assert host.ran == [] and host.file.read_text() == "new"
    with trial.alone(host.deadline):
        trial.move(host.deadline, -1)
    assert host.put_back()
    assert host.file.read_text() == "old" and host.file.stat().st_mode & 0o777 == 0o640
    assert not any(path.exists() for path in (host.brought, host.timer, host.unit, host.back, host.deadline))
    assert host.ran == [
        "systemctl stop chat.service",
        "docker tag sha256:1 vllm",
        "systemctl disable gb10-trial-chat.timer",
        "systemctl daemon-reload",
        "systemctl reset-failed chat.service",
        "systemctl enable --now chat.service",
        "systemctl stop gb10-trial-chat.timer",
    ]


def test_a_boot_is_the_end_of_a_trial(tmp_path: Path) -> None:
    """/run is empty then."""
    host = Host(tmp_path)
    assert host.put_back()
    assert host.file.read_text() == "old"


def test_where_nothing_is_kept_whole_nothing_is_put_back(tmp_path: Path) -> None:
    host = Host(tmp_path)
    (host.back / "index.json").write_text("{")
    assert host.put_back()
    assert host.file.read_text() == "new"
    assert "systemctl stop chat.service" not in host.ran


def test_the_timers_words_are_the_programs() -> None:
    files = guard("chat", "site")["files"]
    unit = files[f"{layout.UNITS}/gb10-trial-chat.service"]["content"]
    line = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    given = line.split(layout.trial_program("chat"))[1].split()
    assert given[:2] == ["--folder", layout.way_back("chat")]
    assert given[-3] == "--own" and given[-2].endswith(".timer")
    assert {path for path, one in files.items() if one.get("content")} == {*given[-2:]}
    # the end of this trial leaves another one of the host alone
    assert not guard("chat", "site")["gone"].keys() & guard("code", "site")["files"].keys()
