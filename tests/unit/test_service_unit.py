# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A unit's state is read, compared, then written; a unit that is not there yet is foreseen in check mode alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gb10.fleet.plugins.module_utils._host.settings.units import State, Unit, decide, refusal
from ansible_collections.gb10.fleet.plugins.modules import service_unit

ROOT = Path(__file__).resolve().parents[2]
STATES = (None, *get_args(State))
LOADS = ("loaded", "masked", "not-found", "bad-setting")
ACTIVE = ("active", "activating", "reloading", "inactive", "failed", "deactivating")
FILES = ("enabled", "enabled-runtime", "disabled", "static", "indirect", "generated", "masked", "linked", "")


def unit(load: str = "loaded", active: str = "inactive", enabled: str = "disabled") -> dict[str, Any]:
    return {"load": load, "active": active, "enabled": enabled}


ABSENT = unit("not-found", "inactive", "")


@pytest.mark.parametrize(
    ("found", "state", "enabled", "verbs"),
    [
        (unit(), "started", True, ("enable", "start")),
        (unit(active="active", enabled="enabled"), "started", True, ()),
        (unit(active="activating", enabled="enabled"), "started", True, ()),
        (unit(active="failed", enabled="enabled"), "started", True, ("start",)),
        (unit(active="deactivating", enabled="enabled"), "started", None, ("start",)),
        (unit(active="active", enabled="enabled"), "stopped", False, ("disable", "stop")),
        # it waits to start again by itself
        (unit(active="activating", enabled="disabled"), "stopped", False, ("stop",)),
        (unit(active="deactivating", enabled="disabled"), "stopped", False, ("stop",)),
        (unit(active="failed"), "stopped", False, ()),
        (unit(active="active"), "restarted", None, ("restart",)),
        (unit(), "restarted", None, ("restart",)),
        (unit(active="active"), "reloaded", None, ("reload",)),
        (unit(), "reloaded", None, ("start",)),
        (unit(active="active"), None, False, ()),
        (unit(enabled="static"), "started", True, ("start",)),
        (unit(active="active", enabled="static"), "stopped", False, ("stop",)),
        (unit(enabled="generated"), None, False, ()),
        (unit("masked", "active", "masked"), "stopped", False, ("stop",)),
        (ABSENT, "stopped", False, ()),
        (ABSENT, "started", True, ("enable", "start")),
        # its file was removed while it ran
        (unit("not-found", "active", ""), "stopped", False, ("stop",)),
    ],
)
def test_systemd_is_asked_for_what_differs(found: Any, state: Any, enabled: Any, verbs: tuple[str, ...]) -> None:
    assert decide(found, state, enabled).verbs == verbs


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("enabled", [None, True, False])
def test_a_second_run_changes_nothing(state: Any, enabled: Any) -> None:
    for load, active, file in product(LOADS, ACTIVE, FILES):
        change = decide(unit(load, active, file), state, enabled)
        after = change.after or Unit(enabled=False, active=False)
        becomes = unit(
            load if change.after is None or load != "not-found" else "loaded",
            "active" if after.active else "inactive" if state == "stopped" else active,
            file
            if after.enabled == (file in ("enabled", "enabled-runtime"))
            else ("disabled", "enabled")[after.enabled],
        )
        again = decide(becomes, state, enabled).verbs
        assert again == {"restarted": ("restart",), "reloaded": ("reload",)}.get(state or "", ())


def test_a_unit_that_is_not_there_is_foreseen_in_check_mode_alone() -> None:
    start = decide(ABSENT, "started", True)
    assert start.diff("a.service")["before"] == {"state": "absent"}
    assert start.diff("a.service")["after"] == {"enabled": True, "active": True}
    assert refusal("a.service", ABSENT, start, may_come=True) is None
    problem = refusal("a.service", ABSENT, start, may_come=False)
    assert problem is not None and "there is no such unit" in problem.sentence()
    stop = decide(ABSENT, "stopped", False)
    assert (stop.after, refusal("a.service", ABSENT, stop, may_come=False)) == (None, None)


@pytest.mark.parametrize("may_come", [True, False])
def test_a_masked_unit_is_refused_also_where_the_run_is_only_tried(may_come: bool) -> None:
    masked = unit("masked", "inactive", "masked")
    problem = refusal("docker.service", masked, decide(masked, "started", True), may_come)
    assert problem is not None and "systemctl unmask docker.service" in problem.sentence()
    assert refusal("docker.service", masked, decide(masked, "stopped", False), may_come) is None


# The module ---------------------------------------------------------------------------------------------------------

SYSTEMCTL = """#!/bin/sh
echo "$*" >> "{calls}"
case "$1" in
  show) shift
    for word; do case "$word" in --*) ;; *) cat "{folder}/$word"; echo ;; esac; done ;;
  start) test "$2" != broken.service || {{ echo "Job failed." >&2; exit 1; }} ;;
esac
"""


class Host:
    """One with a systemctl that answers as its files say, and notes what it is asked for."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.calls, self._capsys = folder, folder / "calls", capsys
        program = folder / "bin" / "systemctl"
        program.parent.mkdir()
        program.write_text(SYSTEMCTL.format(calls=self.calls, folder=folder))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")

    def has(self, name: str, found: dict[str, Any]) -> None:
        words = {"LoadState": found["load"], "ActiveState": found["active"], "UnitFileState": found["enabled"]}
        words |= {"SubState": "", "NeedDaemonReload": "no"}
        (self.folder / name).write_text("".join(f"{key}={value}\n" for key, value in words.items()))

    def run(self, check: bool = False, **options: Any) -> dict[str, Any]:
        with (
            patch_module_args({**options, "_ansible_check_mode": check, "_ansible_diff": True}),
            pytest.raises(SystemExit),
        ):
            service_unit.main()
        result: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        return result

    def asked(self) -> list[str]:
        calls = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [call for call in calls if not call.startswith("show")]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Host:
    return Host(tmp_path, monkeypatch, capsys)


def test_units_change_in_the_order_that_is_asked_for(host: Host) -> None:
    host.has("b.service", unit())
    host.has("a.service", unit(active="active", enabled="enabled"))
    host.has("c.service", unit())
    names = ["c.service", "a.service", "b.service"]
    tried = host.run(check=True, name=names, state="started", enabled=True)
    assert (tried["changed"], tried["changed_units"], host.asked()) == (True, ["c.service", "b.service"], [])
    done = host.run(name=names, state="started", enabled=True)
    assert {key: done[key] for key in ("changed_units", "diff")} == {
        key: tried[key] for key in ("changed_units", "diff")
    }
    assert host.asked() == ["enable c.service", "start c.service", "enable b.service", "start b.service"]


def test_no_unit_changes_where_another_is_not_there(host: Host) -> None:
    host.has("a.service", unit())
    host.has("gone.service", ABSENT)
    names = ["a.service", "gone.service"]
    assert host.run(check=True, name=names, state="started")["changed_units"] == names
    failed = host.run(name=names, state="started")
    assert failed["failed"] and failed["msg"].startswith("gone.service: there is no such unit on the host")
    assert host.asked() == []


def test_of_no_units_nothing_is_asked(host: Host) -> None:
    assert host.run(name=[], state="restarted")["changed"] is False
    assert not host.calls.exists()


def test_the_reason_of_a_failure_is_systemds_own(host: Host) -> None:
    host.has("broken.service", unit())
    failed = host.run(name=["broken.service"], state="started")
    assert failed["msg"] == "systemctl start broken.service: Job failed.; journalctl -u broken.service -n 50 says more"


# The rules that the module is for -----------------------------------------------------------------------------------

FILES_OF_TASKS = [
    *sorted((ROOT / "roles").glob("*/[ht]a[ns]*/*.yml")),
    *sorted((ROOT / "playbooks").glob("*.yml")),
    *sorted((ROOT / "playbooks" / "tasks").glob("*.yml")),
]
LEFT_OUT = ("when", "failed_when", "changed_when", "until", "break_when")
CONDITIONS = (*LEFT_OUT, "that")
# A message is another program's prose: it changes with a release or a language. `failed_when` with a number or a key of
# the result holds.
OF_A_MESSAGE = re.compile(r"\b(msg|message|stderr|stdout|exception)\b")


def conditions(node: Any, keys: tuple[str, ...] = CONDITIONS) -> Iterator[str]:
    if isinstance(node, list):
        for item in node:
            yield from conditions(item, keys)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in keys:
                yield from map(str, value if isinstance(value, list) else [value])
            yield from conditions(value, keys)


@pytest.mark.parametrize("path", FILES_OF_TASKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_task_is_left_out_because_the_run_is_only_tried(path: Path) -> None:
    """The module itself says what it would do. Whatever a check leaves out is a change that it does not show."""
    tasks = yaml.safe_load(path.read_text("utf-8"))
    # a task of check mode alone leaves nothing out; a burn-in changes nothing, and measures nothing in check mode
    found = [
        text for text in conditions(tasks, LEFT_OUT) if "ansible_check_mode" in text.removeprefix("ansible_check_mode")
    ]
    assert found == [] or path.name == "burn_in.yml"


@pytest.mark.parametrize("path", FILES_OF_TASKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_task_decides_by_the_words_of_a_message(path: Path) -> None:
    found = [text for text in conditions(yaml.safe_load(path.read_text("utf-8"))) if OF_A_MESSAGE.search(text)]
    assert found == []


@pytest.mark.parametrize("path", FILES_OF_TASKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_units_state_is_a_matter_of_one_module(path: Path) -> None:
    def calls(node: Any) -> Iterator[dict[str, Any]]:
        if isinstance(node, list):
            for item in node:
                yield from calls(item)
        elif isinstance(node, dict):
            yield from (node[name] for name in OTHERS if isinstance(node.get(name), dict))
            for value in node.values():
                yield from calls(value)

    assert [call for call in calls(yaml.safe_load(path.read_text("utf-8"))) if "name" in call] == []


OTHERS = ("ansible.builtin.systemd_service", "ansible.builtin.systemd", "ansible.builtin.service")
