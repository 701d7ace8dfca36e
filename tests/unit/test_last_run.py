# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host knows who changed it last, and a run that would undo that is refused with what it lacks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.gb10.fleet.plugins.action import unconverged as action
from ansible_collections.gb10.fleet.plugins.filter.internal import run_record
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._plan.preflight.earlier import goes_back, upgrade
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.reading import read_last_run
from ansible_collections.gb10.fleet.plugins.plugin_utils import _who
from ansible_collections.gb10.fleet.plugins.plugin_utils._who import lag, this_run
from drift_fleet import planned, state_of

RUN = {
    "form": "1",
    "release": "0.2.0",
    "commit": "a" * 40,
    "inventory_commit": "b" * 40,
    "person": "me@here",
    "at": "now",
}
LAST = RUN | {"person": "anna@laptop", "at": "2026-11-27 11:54 UTC", "inventory_commit": "c" * 40}
FINE = {"commit": "has it", "inventory_commit": "has it"}


@pytest.mark.parametrize(
    ("last", "lags", "words"),
    [
        ({}, {}, []),
        ({}, {"inventory_commit": "lacks it"}, ["git pull beside the inventory, after anna@laptop has pushed"]),
        ({}, {"inventory_commit": "behind"}, ["commit cccccccccccc of the inventory, which this clone lacks"]),
        ({}, {"inventory_commit": "another way"}, ["git pull beside the inventory"]),
        ({"person": "me@here"}, {"inventory_commit": "another way"}, []),  # a commit of one's own, amended
        ({"person": "me@here"}, {"inventory_commit": "behind"}, ["git pull beside the inventory"]),
        ({}, {"commit": "behind"}, ["git pull in this clone of gb10.fleet"]),
        ({"release": "0.1.0"}, {"commit": "lacks it"}, []),  # an earlier release had a repository of its own
        (
            {"release": "0.3.0"},
            {},
            ["release 0.3.0 converged it, by anna@laptop at 2026-11-27 11:54 UTC; this controller has 0.2.0"],
        ),
        ({"release": "0.10.0"}, {}, ["install release 0.10.0"]),
        ({"form": "2"}, {}, ["this controller has 0.2.0"]),
        ({"release": "?"}, {}, []),
        ({"release": "0.3.0", "person": "x\n\x1b[31m"}, {}, ["release 0.3.0"]),
    ],
)
def test_a_run_that_would_go_back_is_refused(last: dict[str, str], lags: dict[str, Any], words: list[str]) -> None:
    found = [one.sentence() for one in goes_back("titan", RUN, LAST | last, FINE | lags)]
    assert len(found) == len(words)
    assert all(
        word in one and "-e go_back=true" in one and "\x1b" not in one for word, one in zip(words, found, strict=True)
    )


def test_a_host_that_nobody_changed_yet_is_nobodys() -> None:
    assert not [*goes_back("titan", RUN, {}, FINE)]


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clones(tmp_path: Path) -> dict[str, Any]:
    """A repository with three commits, a clone that lacks the last one, and a branch that went another way."""
    folder = tmp_path / "first"
    git(tmp_path, "init", "-q", "first")
    commits = []
    for name in "ab":
        git(folder, "commit", "-q", "--allow-empty", "-m", name)
        commits.append(git(folder, "rev-parse", "HEAD"))
    git(tmp_path, "clone", "-q", "first", "late")
    git(folder, "commit", "-q", "--allow-empty", "-m", "c")
    commits.append(git(folder, "rev-parse", "HEAD"))
    return {"first": folder, "late": tmp_path / "late", "commits": commits}


def test_a_clone_knows_which_commits_it_lacks(clones: dict[str, Any]) -> None:
    first, late, commits = clones["first"], clones["late"], clones["commits"]
    assert [lag(first, commit) for commit in commits] == ["has it"] * 3
    assert [lag(late, commit) for commit in commits] == ["has it", "has it", "lacks it"]
    git(late, "fetch", "-q")
    assert lag(late, commits[2]) == "behind"
    git(late, "commit", "-q", "--allow-empty", "-m", "mine")
    assert lag(late, commits[2]) == "another way"
    assert this_run(late)["inventory_commit"] == git(late, "rev-parse", "HEAD")


@pytest.mark.parametrize("commit", ["", "HEAD", "--help", "c" * 39, "c" * 40 + "\n"])
def test_what_is_no_commit_is_not_asked_for(clones: dict[str, Any], commit: str) -> None:
    assert lag(clones["late"], commit) == "has it"


def test_without_git_or_its_history_nothing_is_refused(clones: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{clones['first']}", "shallow")
    assert lag(tmp_path / "plain", "c" * 40) == lag(tmp_path / "shallow", clones["commits"][0]) == "has it"
    assert this_run(tmp_path / "plain")["inventory_commit"] == ""


def test_what_a_run_writes_is_what_the_next_one_reads(tmp_path: Path) -> None:
    [(path, file)] = run_record(RUN).items()
    assert path == layout.LAST_RUN
    (tmp_path / "x").write_text(file["content"])
    assert read_last_run(tmp_path / "x") == RUN
    for text in ("", "[]", "{"):
        (tmp_path / "x").write_text(text)
        assert read_last_run(tmp_path / "x") == {}


def test_it_is_refused_before_anything_is_compared(clones: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(_who, "refusal", lambda text, why: shown.append(text) or AnsibleActionFail(why))
    last = {**LAST, "commit": "", "inventory_commit": clones["commits"][2]}
    options = {
        "plan": {}, "interfaces": {}, "hosts": ["titan", "spark-2"], "staging": True, "run": RUN, "go_back": False,
        "readings": {"titan": {"state": {"last_run": last}, "unknown": {}}},
    }  # fmt: skip
    module = action.ActionModule.__new__(action.ActionModule)
    module._task = SimpleNamespace(check_mode=True)
    monkeypatch.setattr(action, "unstaged", lambda *_given: {})
    variables = {"inventory_dir": str(clones["late"])}
    with pytest.raises(AnsibleActionFail, match="nothing was changed"):
        action.ActionModule.act(module, options, variables)
    assert "titan: anna@laptop converged it at 2026-11-27 11:54 UTC from commit" in shown[0]
    assert action.ActionModule.act(module, options | {"go_back": True}, variables)["reasons"] == {}
    assert json.loads(json.dumps(run_record(RUN)))


def test_what_a_release_does_is_shown_before(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(fleet_services={"pair": {"recipe": "lab-tiny", "hosts": ["spark-2", "spark-3"], "port": 8000}})
    states = {host: state_of(plan, host) for host in plan["hosts"]}
    states["titan"]["last_run"] = LAST | {"release": "0.1.0"}
    states["spark-2"]["starts"] = states["spark-3"]["starts"] = {}
    text = upgrade(plan, "0.2.0", states, {"titan": [], "spark-2": ["x", "y"]})
    assert "titan: converged by release 0.1.0, this one is 0.2.0; it is as declared" in text
    assert "spark-2: converged by release unknown, this one is 0.2.0; site.yml brings 2 differences" in text
    assert text.endswith("no service restarts")
    start = {"runs": True, "newer": "/etc/systemd/system/x.service", "other_image": False, "took_s": 240.0}
    for host in ("spark-2", "spark-3"):
        states[host]["starts"] = {"pair": start}
    text = upgrade(plan, "0.2.0", states, {})
    (line,) = (one for one in text.splitlines() if "service-restarts" in one)
    assert "x.service; its last start took 4 min" in line and "gb10.fleet.rollout -e service=pair" in line
