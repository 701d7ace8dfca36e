# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a host answers to a drift check or a doctor, and however large: it is a host without an answer, no more."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.action import drift_info, host_info
from ansible_collections.gb10.fleet.plugins.filter.internal import undeclared_services
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.answer import MOST_BYTES, read_answer
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.questions import host_view
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.reading import read_units
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.state import ALWAYS, UNASKED
from ansible_collections.gb10.fleet.plugins.plugin_utils._bounded import bounded
from drift_fleet import KEY, answer_of, planned
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
PLAN = planned()
GOOD = answer_of(PLAN, "titan")
LIMIT = resource.getrlimit(resource.RLIMIT_DATA)
FILE = next(iter(GOOD["files"]))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def ask(monkeypatch: pytest.MonkeyPatch, answers: Any) -> dict[str, Any]:
    """What the action makes of what `_execute_module` returns, or does when called."""
    action = drift_info.ActionModule.__new__(drift_info.ActionModule)
    options = {"view": host_view(PLAN, "titan"), "folder": "/nonexistent", "deep": False, "salt": ""}
    monkeypatch.setattr(ActionBase, "run", lambda *_given, **_named: {})
    monkeypatch.setattr(action, "validate_argument_spec", lambda _spec: (None, options))
    loader = SimpleNamespace(get_text_file_contents=lambda _path: KEY)
    monkeypatch.setattr(action, "_loader", loader, raising=False)
    given = answers if callable(answers) else lambda *_given, **_named: dict(answers)
    monkeypatch.setattr(action, "_execute_module", given)
    found: dict[str, Any] = action.run(task_vars={"inventory_hostname": "titan"})
    assert {*found} == {"changed", "state", "unknown", "why"}
    assert isinstance(found["state"], dict) == (found["why"] == "")
    return found


def test_an_answer_as_it_should_be_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(monkeypatch, {"state": GOOD, "unknown": {"gpu": "no tool"}})
    assert (found["why"], found["unknown"]) == ("", {"gpu": "no tool"})
    assert found["state"]["platform"] == GOOD["platform"]


ANSWERS: dict[str, Any] = {
    "nothing": {},
    "no state": {"unknown": {}},
    "a state of nothing": {"state": None, "unknown": {}},
    "a state that is a list": {"state": [GOOD], "unknown": {}},
    "a state that is a text": {"state": "{}", "unknown": {}},
    "a state that is a number": {"state": 7, "unknown": {}},
    "no parts": {"state": {}, "unknown": {}},
    "no list of what is unknown": {"state": GOOD},
    "unknown parts of other types": {"state": GOOD, "unknown": {"gpu": {"a": 1}}},
    "unknown parts that are a list": {"state": GOOD, "unknown": ["gpu"]},
    "files that are a list": {"state": GOOD | {"files": [1]}, "unknown": {}},
    "files that are a text": {"state": GOOD | {"files": "x"}, "unknown": {}},
    "files that are none": {"state": GOOD | {"files": {}}, "unknown": {}},
    "a file that is a number": {"state": GOOD | {"files": GOOD["files"] | {FILE: 5}}, "unknown": {}},
    "a file that is nothing": {"state": GOOD | {"files": dict.fromkeys(GOOD["files"])}, "unknown": {}},
    "33 levels": {"state": GOOD | {"gpu": nested(33)}, "unknown": {}},
    "5,000 levels": {"state": GOOD | {"gpu": nested(5000)}, "unknown": {}},
    "a text of 33 MiB": {"state": GOOD | {"gpu": "x" * (33 << 20)}, "unknown": {}},
    "a name of 33 MiB": {"state": GOOD | {"x" * (33 << 20): 1}, "unknown": {}},
    "a reason of 33 MiB": {"state": GOOD, "unknown": {"gpu": "x" * (33 << 20)}},
    "9 million values": {"state": GOOD | {"gpu": [0] * (9 << 20)}, "unknown": {}},
    "a failure": {"failed": True, "msg": "x\x1b[2J" * 10000},
    "a failure of a list": {"failed": True, "msg": ["x"] * 1000},
    "a traceback": {"failed": "yes", "module_stderr": "Traceback" * 100000},
    "facts": {"ansible_facts": {"ansible_connection": "local"}},
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_hostile_answer_is_none(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    found = ask(monkeypatch, answer)
    if found["state"] is None:
        assert 0 < len(found["why"]) <= 4096
        assert "\x1b" not in found["why"]
    else:  # each part of another form is not known, with the reason
        known = {name for name, value in found["state"].items() if value is not None}
        assert known <= answer["state"].keys() | {"asked_between"}
        assert all(0 < len(why) <= 4096 and "\x1b" not in why for why in found["unknown"].values())


def read_first(monkeypatch: pytest.MonkeyPatch, answers: Any) -> dict[str, Any]:
    """As site.yml reads a host before its first change. AnsibleActionFail, of that host alone, with what is wrong."""
    action = host_info.ActionModule.__new__(host_info.ActionModule)
    action._task = SimpleNamespace(args={})
    monkeypatch.setattr(ActionBase, "run", lambda *_given, **_named: {})
    given = answers if callable(answers) else lambda *_given, **_named: dict(answers)
    monkeypatch.setattr(action, "_execute_module", given)
    found: dict[str, Any] = action.run(task_vars={"inventory_hostname": "titan"})
    return found


UNIT = {"unit": layout.unit("old"), "inventory": "mine", "ranks": 1, "unproved": False}
UNITS: dict[str, Any] = {
    "no list": 5,
    "a text": "gb10",
    "a map": {"unit": UNIT},
    "a number": [5],
    "nothing": [None],
    "no name": [{"inventory": "mine", "ranks": 1}],
    "a list for a name": [UNIT | {"unit": []}],
    "a map for an inventory": [UNIT | {"inventory": {}}],
    "a text for ranks": [UNIT | {"ranks": "1"}],
}
# What the preflight asks for without a view of the plan.
BARE = {name: GOOD[name] for name in (*ALWAYS, *UNASKED)} | {"images": {}}
BEFORE_CHANGE = ANSWERS | {
    f"of units {name}": {"state": BARE | {"our_units": value}, "unknown": {}} for name, value in UNITS.items()
}


@pytest.mark.parametrize("answer", BEFORE_CHANGE.values(), ids=BEFORE_CHANGE)
def test_a_hostile_answer_before_the_first_change_fails_that_host_alone(
    monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    try:
        found = read_first(monkeypatch, answer)
    except AnsibleActionFail as refused:
        assert 0 < len(refused.message) <= 4096
        assert "\x1b" not in refused.message
        return
    assert "ansible_facts" not in found
    if found.get("failed"):
        assert sum(map(len, map(str, found.values()))) < 1 << 20
    else:  # what all hosts' answers are judged by together, in one task of the run
        run = {"inventory": "mine", "placed": {}, "hosts": ["titan"], "retire": []}
        undeclared_services({"titan": found["state"]}, run, ["titan"])


def test_a_host_that_is_silent_before_the_first_change_is_not_waited_for() -> None:
    tasks = yaml.safe_load((ROOT / "roles" / "preflight" / "tasks" / "main.yml").read_text("utf-8"))
    assert [task["timeout"] for task in tasks if "gb10.fleet.host_info" in task] == [1500]  # 900: another run's lease


def test_an_honest_answer_before_the_first_change_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With units as a host reads its own: another key of theirs would end each run."""
    (tmp_path / layout.unit("old")).write_text("[X-Gb10Fleet]\nInventory=mine\n")
    units = read_units(tmp_path, tmp_path)
    assert units == [UNIT]
    answer = {"state": BARE | {"our_units": units, "gpu": None}, "unknown": {"gpu": "no tool"}}
    assert read_first(monkeypatch, answer | {"invocation": {}}) == {"changed": False, **answer}
    with pytest.raises(AnsibleActionFail, match="takes more than 536870912 bytes"):
        read_first(monkeypatch, without_end)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(["state", "unknown", "failed", "msg", "module_stderr", "x"]), JSON))
def test_any_answer_is_taken_or_none(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]) -> None:
    ask(monkeypatch, answer)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(GOOD)), JSON)
def test_any_part_is_taken_or_none(monkeypatch: pytest.MonkeyPatch, part: str, value: Any) -> None:
    found = ask(monkeypatch, {"state": GOOD | {part: value}, "unknown": {}})
    assert not found["why"] and {*found["unknown"]} <= {part}
    assert "fault of this collection" not in "".join(found["unknown"].values())


@settings(deadline=None, max_examples=200)
@given(JSON)
def test_what_is_read_fits_its_bounds(value: Any) -> None:
    try:
        found = read_answer(drift_info.FORM, {"state": value, "unknown": {}})
    except ValueError as refused:
        assert "\n" not in str(refused)
    else:
        assert found == {"state": value, "unknown": {}}
        assert len(json.dumps(found)) < MOST_BYTES


def without_end(*_given: Any, **_named: Any) -> dict[str, Any]:
    """As Ansible's connections collect what a host sends (``ssh.py`` ``_bare_run``)."""
    sent, chunk = b"", b"x" * (16 << 20)
    for _ in range(1 << 10):
        sent += chunk
    return {"state": {}, "unknown": {}, "sent": len(sent)}


def test_an_answer_without_end_takes_a_bounded_amount_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert ask(monkeypatch, without_end)["why"] == "its answer takes more than 536870912 bytes of memory"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < (600 << 10)
    assert resource.getrlimit(resource.RLIMIT_DATA) == LIMIT
    assert ask(monkeypatch, {"state": GOOD, "unknown": {}})["why"] == ""


def test_without_figures_of_the_system_there_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ansible_collections.gb10.fleet.plugins.plugin_utils._bounded._STATUS", Path("/nonexistent"))
    with bounded(1):
        assert resource.getrlimit(resource.RLIMIT_DATA) == LIMIT
