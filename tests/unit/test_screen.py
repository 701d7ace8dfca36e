# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on the screen of a run that is refused: each error once, in the owner's file and line, and last."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.action.host_files import brief
from ansible_collections.gb10.fleet.plugins.callback import fleet_table
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import warning
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place, argv
from ansible_collections.gb10.fleet.plugins.module_utils._operations.doctor.judge import silent
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import Reading, compare
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify import tables
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.tables import Status
from ansible_collections.gb10.fleet.plugins.plugin_utils import _screen
from ansible_collections.gb10.fleet.plugins.plugin_utils._origin import Origin, origin
from shell import owners_environment

ROOT = Path(__file__).resolve().parents[2]
SERVICES = """\
fleet_services:
  chat:
    recipe: lab-tny
    hosts: [titan]
    port: 8000
"""
CALLBACK = """\
import json
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = "{name: events, type: stdout, short_description: x, description: x}"


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "events"

    def v2_playbook_on_stats(self, stats):
        self._display.display(json.dumps({"hosts": sorted(stats.processed)}))
"""


def run(
    folder: Path, fleet: str, *arguments: str, hosts: str = "titan:", **environment: str
) -> subprocess.CompletedProcess[str]:
    """A playbook over an inventory of one host that nobody connects to, with the configuration of this repository."""
    (folder / "group_vars").mkdir(parents=True)
    (folder / "hosts.yml").write_text(f"all:\n  hosts:\n    {hosts}\n")
    (folder / "group_vars" / "all.yml").write_text(fleet)
    program = Path(sys.executable).with_name("ansible-playbook")
    environment = owners_environment() | {"ANSIBLE_HOME": str(folder / "home")} | environment
    command = [str(program), "-i", str(folder / "hosts.yml"), *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("playbook", ["plan.yml", "site.yml", "gb10.fleet.stage", "verify.yml"])
def test_a_refusal_comes_once_and_last(tmp_path: Path, playbook: str) -> None:
    done = run(tmp_path, SERVICES, playbook)
    screen = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2
    assert screen.count('no recipe "lab-tny"') == 1
    assert "fleet_services.chat.recipe (group_vars/all.yml:3)" in screen
    lines = done.stdout.splitlines()
    [where] = [number for number, line in enumerate(lines) if "lab-tny" in line]
    assert len(lines) - where < 25


def test_a_warning_comes_once_where_the_playbook_plans_twice(tmp_path: Path) -> None:
    """cluster-tp2.yml: for whom the run is, and what site.yml then does with them."""
    pair = SERVICES.replace("lab-tny", "qwen3-vl-235b-a22b-instruct-awq").replace("[titan]", "[titan, beast]")
    fleet = pair + "    trust: [code]\nfleet_fabric: {cables: [['titan:1', 'beast:1']]}\nansible_port: 1\n"
    done = run(
        tmp_path,
        fleet,
        "cluster-tp2.yml",
        hosts="titan: {ansible_host: 127.0.0.2}\n    beast: {ansible_host: 127.0.0.3}",
    )
    assert done.stdout.count("expected Ray 2.52 or newer") == 1, done.stdout + done.stderr


def test_a_service_name_given_twice_is_an_error(tmp_path: Path) -> None:
    """The first of the two would vanish, and be removed from its host."""
    twice = SERVICES.replace("lab-tny", "nemotron-3-nano-30b-a3b-nvfp4") + "  chat:\n    recipe: x\n"
    done = run(tmp_path, twice, "plan.yml")
    screen = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2
    assert '"chat" is written twice' in screen
    assert "group_vars/all.yml, line 6" in screen


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("fleet_services:\n  chat:\n\trecipe: x\n", 3, "Tabs are usually invalid"),
        ("fleet_services:\n  chat: {recipe: x\n", 3, "YAML parsing failed"),
        ("fleet_services:\n  chat:\n    recipe: a: b\n", 3, "Colons in unquoted values"),
    ],
)
def test_a_yaml_mistake_has_a_file_and_a_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    """Ansible alone says neither."""
    done = run(tmp_path, text, "plan.yml")
    screen = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 4
    assert screen.count("YAML parsing failed") == 1
    assert words in screen
    assert f"Origin: {tmp_path}/group_vars/all.yml:{line}:" in screen


@pytest.mark.parametrize(
    ("action", "word"),
    [
        *((f"gb10.fleet.{name}", "refused") for name in ("rollout", "findings", "unconverged", "lease")),
        ("command", "failed"),
    ],
)
def test_a_rollout_shows_what_it_is_about_and_who_refused_it(action: str, word: str) -> None:
    """Of other services on the same hosts nothing is known: they have not failed."""
    table, host = fleet_table.CallbackModule(), SimpleNamespace(get_name=lambda: "titan")
    table._services = ["chat", "code"]
    task = SimpleNamespace(resolved_action="gb10.fleet.rollout", get_path=lambda: "rollout.yml")
    table.v2_runner_on_ok(SimpleNamespace(result={"services": ["chat"], "changed": True}, task=task, host=host))
    assert table._services == ["chat"]
    task = SimpleNamespace(resolved_action=action, get_path=lambda: "rollout.yml")
    table.v2_runner_on_failed(SimpleNamespace(result={"msg": "no"}, task=task, host=host))
    assert table._stopped["titan"] == (word, "no")


@pytest.mark.parametrize("also", [{}, {"ANSIBLE_CALLBACKS_ENABLED": "gb10.fleet.fleet_table, gb10.fleet.drift_exit"}])
def test_tables_and_exit_codes_need_no_configuration(tmp_path: Path, also: dict[str, str]) -> None:
    """By the collection's name, from elsewhere, with nobody's ansible.cfg."""
    fine = SERVICES.replace("lab-tny", "nemotron-3-nano-30b-a3b-nvfp4\n    trust: [code]")
    away = {"ANSIBLE_SSH_ARGS": "-o ProxyCommand=false", "ANSIBLE_CONFIG": str(tmp_path / "none.cfg")}
    away |= {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")} | also
    done = run(tmp_path / "one", fine, "gb10.fleet.status", **away)
    assert done.returncode == 4, done.stdout + done.stderr
    assert [line.split()[:4] for line in done.stdout.splitlines()].count(["chat", "0", "titan", "unreachable"]) == 1
    done = run(tmp_path / "two", fine, "gb10.fleet.drift", **away)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("drift: unknown") == 1


@pytest.mark.parametrize(
    ("problems", "stopped", "code"),
    [([], False, None), (["chat, rank 0: does not run"], False, 2), (["chat, rank 0: does not run"], True, None)],
)
def test_a_status_with_problems_ends_with_2(
    monkeypatch: pytest.MonkeyPatch, problems: list[str], stopped: bool, code: int | None
) -> None:
    """Ansible's own code stays where a host failed or was out of reach."""
    table = fleet_table.CallbackModule()
    table._plan, table._is_status = {}, True
    monkeypatch.setattr(fleet_table, "status_of", lambda *_: Status([], [], [], [], [], []))
    table._ranks = {("titan", "chat"): {"problems": problems}}
    table._stopped = {"spark-2": ("unreachable", "no route")} if stopped else {}
    try:
        table.v2_playbook_on_stats(None)
    except SystemExit as end:
        assert end.code == code
    else:
        assert code is None


def test_a_slip_of_ours_in_the_table_is_named_and_the_exit_code_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible itself lets a callback that fails pass with a warning, and ends with 0."""

    def fails(*_given: Any) -> str:
        raise KeyError("uptime")

    shown: list[str] = []
    monkeypatch.setattr(fleet_table, "status_of", fails)
    monkeypatch.setattr(fleet_table, "show", shown.append)
    table = fleet_table.CallbackModule()
    table._plan, table._is_status, table._ranks = {}, True, {("titan", "chat"): {"problems": []}}
    with pytest.raises(SystemExit) as end:
        table.v2_playbook_on_stats(None)
    assert end.value.code == 2
    assert "the table: a fault of this collection, not of the host: KeyError: 'uptime'" in shown[0]


@pytest.mark.parametrize(("action", "shows"), [("gb10.fleet.bench", False), ("gb10.fleet.rank_info", True)])
def test_what_stops_a_benchmark_is_no_state_of_its_service(
    monkeypatch: pytest.MonkeyPatch, action: str, shows: bool
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(fleet_table, "end_table", lambda *_: "titan  chat  failed")
    monkeypatch.setattr(fleet_table, "show", shown.append)
    table = fleet_table.CallbackModule()
    table._plan, table._stopped = {}, {"titan": ("failed", "others asked meanwhile")}
    table.v2_playbook_on_task_start(SimpleNamespace(resolved_action=action, get_path=lambda: "bench.yml"), False)
    table.v2_playbook_on_stats(None)
    assert bool(shown) == shows


def test_the_plan_of_a_limit_that_splits_a_service_names_it(tmp_path: Path) -> None:
    """The plan had no error for a limit that site.yml then refused."""
    pair = 'fleet_fabric: {cables: [["titan:1", "other:1"]]}\n' + SERVICES.replace("[titan]", "[titan, other]")
    pair = pair.replace("lab-tny", "qwen3-vl-235b-a22b-instruct-awq\n    trust: [code]")
    done = run(tmp_path, pair, "plan.yml", "-l", "titan", hosts="titan:\n    other:")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "add them: -l other,titan" in " ".join(done.stdout.split())
    assert "site.yml with this limit refuses" in " ".join(done.stdout.split())


def test_a_program_can_read_what_a_run_shows(tmp_path: Path) -> None:
    """Whatever is shown beside it is not in the JSON's way."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "events.py").write_text(CALLBACK)
    own = {"ANSIBLE_CALLBACK_PLUGINS": str(tmp_path / "plugins"), "ANSIBLE_STDOUT_CALLBACK": "events"}
    fine = SERVICES.replace("lab-tny", "nemotron-3-nano-30b-a3b-nvfp4\n    trust: [code]")
    done = run(tmp_path / "inventory", fine, "plan.yml", "-e", "explain=chat", **own)
    assert json.loads(done.stdout) == {"hosts": ["titan"]}
    assert "service chat: nemotron" in done.stderr


def test_a_program_can_read_what_the_doctor_shows(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "events.py").write_text(CALLBACK)
    own = {"ANSIBLE_CALLBACK_PLUGINS": str(tmp_path / "plugins"), "ANSIBLE_STDOUT_CALLBACK": "events"}
    away = "fleet_services: {}\nansible_host: 127.0.0.2\nansible_port: 1\n"
    done = run(tmp_path / "inventory", away, "doctor.yml", **own)
    assert json.loads(done.stdout) == {"hosts": ["titan"]}
    assert "could not look" in done.stderr


def test_one_place_alone_writes_on_the_screen() -> None:
    """Whatever else did would be in the way of a program that reads a run's output."""
    writes = re.compile(r"\.display\(|(?<!worded)\.warning\(|\bprint\(|sys\.stdout")
    found = [
        str(file.relative_to(ROOT))
        for folder in ("action", "callback", "filter", "lookup", "plugin_utils")
        for file in (ROOT / "plugins" / folder).glob("*.py")
        if writes.search(file.read_text())
    ]
    assert found == ["plugins/plugin_utils/_screen.py"]


@pytest.mark.parametrize("evil", ["\x1b]52;c;cm0gLXJm\x07", "\x1b[2J", "\r", "\x9b2J", "\u202e", "\x00", "\udc80"])
def test_nothing_that_a_terminal_obeys_is_shown(capsys: pytest.CaptureFixture[str], evil: str) -> None:
    """Security 18: an engine's last line sets the clipboard of who is about to paste."""
    _screen.show(f"loading: {evil}\n\tGrüße")
    _screen.warn(f"a host says {evil} {evil!a}")  # each warning is shown once
    shown = "".join(capsys.readouterr()) + str(_screen.refusal(f"no {evil}", evil))
    assert "Grüße" in shown and "loading" in shown and "a host says" in shown
    assert not [one for one in shown if not one.isprintable() and one not in "\n\t"]


ANSWER = {
    **{"failed": True, "changed": False, "msg": "broken\x1b]52;c;cm0=\x07 \x9b2J \u202e\x00 x\rOVER"},
    **{"warnings": ["w\x1b]0;evil\x07\x9b"], "deprecations": [{"msg": "d\x1b[2J", "version": "9"}]},
    **{"stdout": "a\x1b[2Jb\nc", "stderr_lines": ["\x1b[31m"], "exception": "Traceback\x1b]52;c;a\x07"},
}


@pytest.mark.parametrize("more", [[], ["-vvv"]])
def test_nothing_that_a_terminal_obeys_comes_of_a_hosts_answer(tmp_path: Path, more: list[str]) -> None:
    """Ansible shows a host's failure, warnings and results by itself (security 18, a second way)."""
    python, play = tmp_path / "python3", tmp_path / "play.yml"
    python.write_text(f"#!/bin/sh\ntimeout 2 cat > /dev/null\ncat <<'END'\n{json.dumps(ANSWER)}\nEND\n")
    python.chmod(0o755)
    play.write_text("- {hosts: all, gather_facts: false, tasks: [{name: Look, ansible.builtin.stat: {path: /x}}]}\n")
    program = Path(sys.executable).with_name("ansible-playbook")
    own = {
        "ANSIBLE_HOME": str(tmp_path / "home"),
        "ANSIBLE_CALLBACKS_ENABLED": "gb10.fleet.fleet_table",
        "ANSIBLE_FORCE_COLOR": "1",
    }
    words = [program, "-i", "titan,", "-c", "local", "-e", f"ansible_python_interpreter={python}", play, *more]
    done = subprocess.run(words, cwd=ROOT, env=owners_environment() | own, capture_output=True, text=True, check=False)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    assert "broken" in shown and "OVER" in shown and done.returncode == 2
    assert shown != done.stdout + done.stderr, "colours stay"
    assert {one for one in shown if not one.isprintable()} <= {"\n", "\t"}


@pytest.mark.skipif(Origin is None, reason="this core keeps no origins where we look for them")
@pytest.mark.parametrize(
    ("place", "line"),
    [
        (Place(service="chat", option="recipe"), 3),
        (Place(service="chat", option="flags.x"), 2),
        (argv("--x").within(Place(service="chat")), 2),
        (Place(host="titan", variable="fleet_host", option="memory_kib"), 9),
        (Place(host="titan", more=3, variable="fleet_host"), 8),
        (Place(variable="fleet_services").below("Chat"), 1),
        (Place(variable="fleet_services").of_key("chat"), 2),
        (Place(variable="fleet_fabric"), None),
        (Place(recipe="nano", thing="recipes/nano.yml", option="model"), None),
        (Place(service="chat", thing="chat, rank 0"), None),
        (Place(thing="--limit"), None),
    ],
)
def test_a_finding_has_the_line_of_its_place(place: Place, line: int | None) -> None:
    def at(value: Any, number: int) -> Any:
        return Origin(path="/inventory/all.yml", line_num=number, col_num=1).tag(value)

    chat = at({"recipe": at("x", 3)}, 2)
    variables = {"fleet_services": at({"chat": chat}, 1), "fleet_host": at({"memory_kib": at(5, 9)}, 8)}
    found = origin(warning("r", place, found="x").as_dict(), {"titan": variables})
    assert found == (("/inventory/all.yml", line) if line else None)


def test_the_diff_of_our_own_program_is_a_line() -> None:
    shown = brief({"before": "", "after": "import os\n" * 300, "after_header": "/usr/local/lib/x.py"})
    assert shown["before"] == ""
    assert shown["after"].startswith("300 lines, sha256 ")
    assert brief({"before": {"mode": "0600"}, "after": {"mode": "0644"}}) == {
        "before": {"mode": "0600"},
        "after": {"mode": "0644"},
    }


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Missing sudo password", "Missing sudo password; -K asks for it"),
        (
            "Task failed: Incorrect sudo password",
            "Task failed: Incorrect sudo password; type it again with -K, or correct ansible_become_password",
        ),
        ("no space left", "no space left"),
    ],
)
def test_a_failed_password_is_shown_with_the_way_to_another(message: str, shown: str) -> None:
    """Where it fails in preflight, in a loop of verify, in drift and in doctor."""
    task = SimpleNamespace(resolved_action="gb10.fleet.host_info", get_path=lambda: "/roles/verify/tasks/main.yml:14")
    looped = {"msg": "One or more items failed", "results": [{"failed": False}, {"failed": True, "msg": message}]}
    for result in ({"msg": message}, looped):
        table = fleet_table.CallbackModule()
        host = SimpleNamespace(get_name=lambda: "titan")
        table.v2_runner_on_failed(SimpleNamespace(result=result, task=task, host=host))
        word, why = table._stopped["titan"]
        assert word == ("failed" if message == shown else "not read")
        assert [*tables._reasons(word, why)] == [shown if word == "failed" else f"not read: {shown}"]
    plan = {"drift": {"accept": []}, "hosts": {}, "services": {}}
    assert [one.why for one in compare(plan, {"titan": Reading(None, {}, message)}, "2026-11-23").unknown] == [shown]
    remedy = shown.removeprefix(f"{message}; ")
    assert message == shown or silent("titan", message).findings[0].remedy == remedy
