# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A long module that is watched: what is shown of it, and what becomes of one that was killed."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.action import service_ready
from ansible_collections.gb10.fleet.plugins.plugin_utils import _screen, _watched


def status(done: int) -> str:
    return json.dumps({"what": "image x", "done": done, "total": 4_000_000, "seconds": 2.0, "pid": 7})


class Watched(_watched.WatchedAction):
    """An action whose host answers each look with the next of ``looks``, and is done after ``polls``."""

    def __init__(self, looks: list[str], polls: int) -> None:
        self.shown: list[str] = []
        self.looks = iter(looks)
        self.polls = polls

    def _show(self, line: str) -> None:
        self.shown.append(line)

    def _start(self, more: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        return {"ansible_job_id": "1"}

    def _poll(self, job: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        self.polls -= 1
        return job if self.polls else {"finished": 1, "changed": True}

    def _shell(self, command: str) -> str:
        return next(self.looks) if command.startswith("touch") else ""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_watched, "_LOOK_SECONDS", 0)


def test_a_line_is_shown_now_and_then_when_something_arrived() -> None:
    looks = [status(0), status(0), status(0), status(0), status(1_000_000), status(2_000_000), status(3_000_000)]
    action = Watched(["\n", *(look + "\n" for look in looks)], len(looks) + 1)
    assert action._watch("titan", None) == {"finished": 1, "changed": True}
    assert action.shown == [
        "titan: image x, 0 B of 3.8 MiB",
        "titan: image x, 976.6 KiB of 3.8 MiB, 488.3 KiB/s, 6 s left",
    ]


def test_a_new_step_is_shown_at_once() -> None:
    progress = _watched.ProgressLines()
    steps = ({"what": what, "done": 0, "total": 0, "seconds": 1} for what in ("reading", "reading", "loading"))
    assert [line for step in steps for line in progress.lines(step)] == ["reading, begun, 1 s", "loading, begun, 1 s"]


def test_the_short_screen_has_one_line_for_a_step_of_several_hosts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_screen.C, "DEFAULT_STDOUT_CALLBACK", "gb10.fleet.brief")
    monkeypatch.setattr(_screen.C, "DEFAULT_LOCAL_TMP", str(tmp_path))
    monkeypatch.setattr(_screen.Display(), "columns", 40)
    shown: list[str] = []
    for host in ("spark-2", "spark-3"):
        # half an hour of looks
        looks = [f"{status(done * 1000)}\n" for done in range(600)]
        action = Watched(looks, len(looks))
        action._watch(host, None)
        assert all(len(line) <= 40 for line in action.shown)
        shown += action.shown
    assert shown[0] == "spark-2: image x, 0 B of 3.8 MiB"
    assert len(shown) <= 10
    assert [line for line in shown if "image x, 0 B" in line] == shown[:1]


@pytest.mark.parametrize(("callback", "most"), [("gb10.fleet.brief", 8), ("default", 40)])
def test_half_an_hour_of_loading_is_few_lines_of_the_short_screen(
    monkeypatch: pytest.MonkeyPatch, callback: str, most: int
) -> None:
    clock = itertools.count(0.0, 3.0)
    shown: list[str] = []
    action = service_ready.ActionModule.__new__(service_ready.ActionModule)
    action._host = "titan"
    words = iter(
        [service_ready.Verdict("waiting", "loading\n" + "x" * 300)] * 600 + [service_ready.Verdict("ready", "")]
    )
    monkeypatch.setattr(_screen.C, "DEFAULT_STDOUT_CALLBACK", callback)
    monkeypatch.setattr(_screen.Display(), "columns", 80)
    monkeypatch.setattr(service_ready, "show", shown.append)
    monkeypatch.setattr(service_ready, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _s: None))
    monkeypatch.setattr(action, "_read", lambda *_given: ({"unit": {"restarts": 0}}, next(words)))
    action._wait({"name": "chat", "unit": "x", "proof": {"startup_limit_s": 9000}}, {})
    assert 3 <= len(shown) <= most
    assert all("\n" not in line for line in shown)
    assert callback == "default" or max(map(len, shown)) <= 80


def test_what_is_not_as_it_should_be_is_shown_at_once_and_once() -> None:
    progress = _watched.ProgressLines()
    steps = [
        {"what": "x", "done": 0, "total": 0, "seconds": 1, "notes": notes} for notes in ([], ["b: gone"], ["b: gone"])
    ]
    assert [line for step in steps for line in progress.lines(step)] == ["x, begun, 1 s", "b: gone"]


def test_a_job_that_was_killed_with_its_wrapper_is_not_waited_for() -> None:
    lost = status(0) + "\n\ngone\n"
    result = Watched([status(0) + "\n", lost, lost], 99)._watch("titan", None)
    assert result["failed"]
    assert "titan: image x: its process ended without a result" in result["msg"]


def test_a_job_that_has_just_ended_may_still_give_its_result() -> None:
    lost = status(0) + "\n\ngone\n"
    assert Watched([status(0) + "\n", lost, lost], 3)._watch("titan", None) == {"finished": 1, "changed": True}
    assert Watched([status(0) + "\n", lost], 2)._watch("titan", None) == {"finished": 1, "changed": True}
