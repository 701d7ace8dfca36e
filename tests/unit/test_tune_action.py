# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action of a search for faster settings, in plays that reach no host."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._operations.tune.state import read_state
from shell import owners_environment

ROOT = Path(__file__).parents[2]
FLEET = {
    "fleet_fabric": None,
    "fleet_services": {
        "chat": {
            "recipe": "lab-tiny",
            "hosts": ["titan"],
            "port": 8000,
            "workload": {"max_model_len": 2048, "max_num_seqs": 2},
        }
    },
}
OWN = {"service": "chat", "hosts": ["titan"], "runs": 4}


def played(folder: Path, goal: str, *steps: dict[str, Any]) -> str:
    """What the steps show, one after the other; no host is reached. ``run``: of the step V(next) before."""
    inventory = folder / "inventory"
    if not inventory.exists():
        shutil.copytree(ROOT / "inventories/lab", inventory, ignore=shutil.ignore_patterns(".fleet"))
        (inventory / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"titan": None}}}))
    asked = OWN | {"goal": goal, "folder": str(folder / "kept")}
    tasks = [
        {"gb10.fleet.tune": {"asked": asked, "seen": {"image": "sha256:1"}, **step}, "register": f"step_{number}"}
        for number, step in enumerate(steps)
    ]
    (folder / "play.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    program = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [str(program), "-i", str(inventory), str(folder / "play.yml"), "-e", json.dumps(FLEET)],
        cwd=ROOT,
        env=owners_environment() | {"ANSIBLE_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def after(number: int, **became: Any) -> dict[str, Any]:
    """A step that keeps what became of the run of that step."""
    return {"step": "record", "tried": {"run": f"{{{{ step_{number}.run }}}}", **became}}


def test_what_the_plan_refuses_is_never_tried_and_a_search_goes_on(tmp_path: Path) -> None:
    goal = "4 users, prompt 64, answer 8"
    shown = played(tmp_path, goal, {"step": "next"}, after(0, figures={"tokens/s": [30.0, 31.0]}), {"step": "next"})
    assert "1. search: as it is" in shown and "2. search: " in shown, shown
    (file,) = (tmp_path / "kept").iterdir()
    state = read_state(file.read_bytes(), file.name)
    assert [run["candidate"] for run in state["runs"]] == [[0] * len(state["settings"])]
    # a small host: memory for few of them
    assert state["refused"]
    assert all(one["why"].endswith("]") and not one["tried"] for one in state["refused"])
    second = next(line for line in shown.splitlines() if line.startswith("2. search: "))
    again = played(
        tmp_path, goal, {"step": "begin", "ranks": {}}, {"step": "next"}, after(1, why="it died"), {"step": "end"}
    )
    assert f"goes on with {file}" in again and second in again, again
    assert ": it died" in again and "not over: run it again" in again
    other = played(tmp_path, "8 users, prompt 64, answer 8", {"step": "next"})
    assert "is a search that was ended, of another goal" in other and "-e anew=true" in other


def test_what_can_not_be_searched_is_refused_with_a_sentence(tmp_path: Path) -> None:
    for goal, rule in (("4 users, prompt 4096", "[tune-goal]"), ("fast", "[tune-goal]")):
        shown = played(tmp_path, goal, {"step": "begin"})
        assert rule in shown and "nothing was tried" in shown, shown
    moved = {"service": "chat", "definition": "x", "wanted": "y", "health": "serving"}
    shown = played(tmp_path, "1 user, prompt 64, answer 8", {"step": "begin", "ranks": {"titan": [moved]}})
    assert "goes by another definition than planned" in shown and "[tune-service]" in shown
    assert not (tmp_path / "kept").exists()
