# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run at a time changes a host: the second waits and names who is at work, and a lease outlives no run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleAction
from ansible_collections.gb10.fleet.plugins.action import host_info
from ansible_collections.gb10.fleet.plugins.action import lease as action
from ansible_collections.gb10.fleet.plugins.modules.lease import take
from ansible_collections.gb10.fleet.plugins.plugin_utils import _lease, _who

ROOT = Path(__file__).parents[2]
NOW = datetime.now(UTC)
TODAY = {"playbook": "site", "at": NOW.strftime("%Y-%m-%d %H:%M UTC")}
MINE = TODAY | {"token": "mine", "person": "me@here", "machine": "here 1", "pid": str(os.getpid())}
ANNA = TODAY | {"token": "hers", "person": "anna@laptop", "machine": "laptop 2", "pid": "1"}


def ended() -> str:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return str(process.pid)


def test_the_first_run_has_the_host_and_the_second_gets_its_name(tmp_path: Path) -> None:
    file = tmp_path / "run" / "lease.json"
    assert take(MINE, path=file) == {}
    assert take(MINE, path=file) == {}  # a later play of the same run
    assert take(ANNA, path=file) == MINE
    assert take(ANNA, "somebody else's", file) == MINE
    assert json.loads(file.read_text()) == MINE
    assert take(ANNA, "mine", file) == {}
    assert json.loads(file.read_text()) == ANNA


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "\udcff"])
def test_what_is_no_lease_keeps_nobody_out(tmp_path: Path, text: str) -> None:
    file = tmp_path / "lease.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert take(MINE, path=file) == {}
    assert json.loads(file.read_text()) == MINE


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lease.json").symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="symbolic"):
        take(MINE, path=tmp_path / "lease.json")


def later(hours: float) -> dict[str, str]:
    return {"at": (NOW - timedelta(hours=hours)).strftime("%Y-%m-%d %H:%M UTC")}


@pytest.mark.parametrize(
    ("holder", "over"),
    [
        (ANNA, False),
        (ANNA | later(25), False),
        (ANNA | later(27), True),  # no task lasts so long
        (ANNA | {"at": "yesterday"}, True),
        ({"person": "anna"}, True),
        (MINE | {"pid": ended()}, True),
        (MINE | {"pid": str(os.getpid())}, False),
        (MINE | {"pid": "x"}, True),
        (MINE | {"pid": "99999999999999999999"}, True),
        (MINE | {"pid": ended(), "machine": "here 2"} | later(0), False),  # another machine's processes are not seen
    ],
)
def test_a_run_is_over_when_that_is_known(holder: dict[str, str], over: bool) -> None:
    assert _lease.is_over(holder, MINE) is over


def test_a_process_of_another_account_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(_lease.os, "kill", refuse)
    assert not _lease.is_over(MINE, MINE)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is shown, and the seconds of each wait."""
    seen: dict[str, Any] = {"shown": [], "pauses": []}
    monkeypatch.setattr(_lease, "this_work", lambda: MINE)
    monkeypatch.setattr(_lease, "show", seen["shown"].append)
    monkeypatch.setattr(_lease, "is_first", lambda _step: not seen["shown"])
    return seen


def test_the_second_run_waits_and_names_in_a_line_who_is_at_work(waiting: dict[str, Any]) -> None:
    answers = [ANNA, ANNA, {}]
    assert _lease.wait("titan", ANNA, lambda: answers.pop(0), pause=waiting["pauses"].append) == {}
    assert waiting["shown"] == [f"titan: waits, at most 15 minutes: anna@laptop runs site, since {ANNA['at']}"]
    assert len(waiting["pauses"]) == 3


@pytest.mark.parametrize("holder", [{}, MINE, MINE | {"token": "old", "pid": ended()}, ANNA | later(30)])
def test_a_run_waits_for_nobody_whose_run_is_over(waiting: dict[str, Any], holder: dict[str, str]) -> None:
    assert _lease.wait("titan", holder, dict, pause=waiting["pauses"].append) == holder
    assert waiting["pauses"] == waiting["shown"] == []


def test_a_run_that_names_whom_it_follows_waits_for_nobody(waiting: dict[str, Any]) -> None:
    assert _lease.wait("titan", ANNA, dict, "anna@laptop", waiting["pauses"].append) == ANNA


def test_after_a_quarter_of_an_hour_it_is_refused_with_the_way_out(waiting: dict[str, Any]) -> None:
    with pytest.raises(AnsibleAction) as refused:
        _lease.wait("titan", ANNA, lambda: ANNA, pause=waiting["pauses"].append)
    assert sum(waiting["pauses"]) == 900
    assert "anna@laptop runs site" in str(refused.value)
    assert "-e take_over=anna@laptop [host-busy]" in str(refused.value)


def test_a_name_from_a_host_is_no_command(waiting: dict[str, Any]) -> None:
    holder = ANNA | {"person": "x\n\x1b[2J; rm -rf /"}
    words = str(_lease.busy("titan", holder))
    assert "\x1b" not in words
    assert "\n" not in words
    assert "-e take_over='" in words


class Connection(SimpleNamespace):
    def get_option(self, _name: str) -> str:
        return "ssh"

    def _build_command(self, program: str, _kind: str, *words: str) -> list[bytes]:
        return [word.encode() for word in ("sshpass", "-d7", program, "-o", "ControlPath=x", *words)]


def test_the_command_that_gives_it_back_needs_neither_root_nor_a_password(tmp_path: Path) -> None:
    words = _lease.release(Connection(transport="ssh", host="titan"), "mine")
    assert words[:6] == ["ssh", "-o", "ControlPath=x", "-o", "BatchMode=yes", "titan"]


def test_it_is_given_back_if_it_is_still_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lease.json"
    monkeypatch.setattr(_lease.layout, "LEASE", str(file))
    take(ANNA, path=file)
    subprocess.run(_lease.release(Connection(transport="local"), "mine"), check=False)
    assert json.loads(file.read_text()) == ANNA
    subprocess.run(_lease.release(Connection(transport="local"), "hers"), check=True)
    assert file.read_text() == ""


def taken(
    monkeypatch: pytest.MonkeyPatch, holders: list[Any], check: bool = False, way: str = "local", **variables: Any
) -> Any:
    """What the action returns, and how it asked. holders: what the host answers, one after the other."""
    asked = []

    def ask(_self: object, _name: str, arguments: dict[str, Any], *_more: object) -> dict[str, Any]:
        asked.append(arguments.get("instead_of", ""))
        return {"holder": holders.pop(0), "last_run": {"release": "9.0.0", "form": "1", "person": "anna@laptop"}}

    monkeypatch.setattr(action, "this_work", lambda: MINE)
    monkeypatch.setattr(action.ActionModule, "ask", ask)
    monkeypatch.setattr(action.Asking, "run", lambda *_: {})
    one = action.ActionModule.__new__(action.ActionModule)
    args = {"run": {"release": "0.2.0", "form": "1", "person": "me@here"}} if "inventory_dir" in variables else {}
    one._task, one._connection = SimpleNamespace(check_mode=check, args=args), Connection(transport=way)
    hosts = {"inventory_hostname": "titan", "ansible_play_hosts": ["spark-2", "titan"]}
    return one.run(None, hosts | variables), asked


def test_a_check_takes_no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    assert taken(monkeypatch, [], check=True) == ({"changed": False, "release": []}, [])
    assert taken(monkeypatch, [], way="docker")[0]["release"] == []  # nobody could give it back


LEFT = MINE | {"token": "alone", "pid": ended()}  # below "mine": nobody waits for it


def test_a_run_takes_over_what_its_own_machine_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = taken(monkeypatch, [LEFT, {}])
    assert asked == ["", "alone"]
    assert result["release"]


FIRST = ANNA | {"token": "first"}  # below "mine"
LAST = ANNA | {"token": "zero"}


def test_a_run_takes_over_from_a_person_whom_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert taken(monkeypatch, [FIRST, {}], take_over="anna@laptop")[1] == ["", "first"]
    with pytest.raises(AnsibleAction, match="anna@laptop runs site"):
        taken(monkeypatch, [FIRST], take_over="bob@laptop")


def test_two_that_find_it_left_behind_have_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnsibleAction, match="anna@laptop runs site"):
        taken(monkeypatch, [LEFT, FIRST])


def test_of_two_that_began_together_with_several_hosts_one_waits(
    monkeypatch: pytest.MonkeyPatch, waiting: dict[str, Any]
) -> None:
    monkeypatch.setattr(_lease.time, "sleep", waiting["pauses"].append)
    monkeypatch.setattr(action, "wait", lambda *given: _lease.wait(*given, pause=waiting["pauses"].append))
    assert taken(monkeypatch, [LAST, LAST, {}, {}])[0]["release"]
    assert len(waiting["shown"]) == 1
    with pytest.raises(AnsibleAction, match="host-busy"):
        taken(monkeypatch, [FIRST])
    assert taken(monkeypatch, [FIRST, {}, {}], ansible_play_hosts=["titan"])[0]["release"]  # it holds nothing else


def test_after_the_wait_it_does_not_undo_what_the_other_run_did(
    monkeypatch: pytest.MonkeyPatch, waiting: dict[str, Any], tmp_path: Path
) -> None:
    monkeypatch.setattr(action, "wait", lambda *given: _lease.wait(*given, pause=waiting["pauses"].append))
    answers = [LAST, {}, {}]
    with pytest.raises(AnsibleAction, match=r"install release 9\.0\.0"):
        taken(monkeypatch, answers, inventory_dir=str(tmp_path))
    assert not answers  # it did not take the lease that nobody would give back


CHANGES = ["remove", "restart", "rollout", "site", "stop", "try", "tune", "tasks/update_hosts"]


@pytest.mark.parametrize("name", CHANGES)
def test_a_playbook_takes_it_before_what_it_changes(name: str) -> None:
    text = (ROOT / "playbooks" / f"{name}.yml").read_text("utf-8")
    changing = ("service_unit", "host_files", "host_removal", "host_update", "gb10.fleet.services\n")
    first = min(text.index(word) for word in changing if word in text)
    assert text.index("gb10.fleet.lease:") < first
    assert yaml.safe_load(text)


def test_an_account_without_a_name_has_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setattr("getpass.getuser", nameless)
    assert _who.person().startswith(f"{os.getuid()}@")


def test_the_reading_waits_only_where_the_run_changes_what_it_reads() -> None:
    assert host_info.wait is _lease.wait
