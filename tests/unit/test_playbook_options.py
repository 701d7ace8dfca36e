# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A playbook that is run without what it needs says so in a sentence of its own, never as a template's error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import jinja2.nodes
import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.sweep import problems
from ansible_collections.gb10.fleet.plugins.module_utils._plan.choice import choose
from test_one_error import NANO, on_titan, planned

SOLO = {"solo": on_titan(NANO, max_model_len=32768, max_num_seqs=8)}
ROOT = Path(__file__).parents[2]
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))
TASKS = sorted((ROOT / "playbooks/tasks").glob("*.yml"))
# What Ansible has in each run, and what the role fleet_plan sets in its first play.
GIVEN = re.compile(
    r"ansible_\w+|inventory_\w+|hostvars|groups|group_names|item|omit|play_hosts|lookup|query|range|dict|playbook_dir|__\w+|none"
)
OF_ROLES = re.compile("|".join(f"{folder.name}_" for folder in (ROOT / "roles").iterdir()) + "|fleet_plan|fleet_slice")
# What a module refuses, before the plays that use it: below.
BY_MODULES = {"tune": {"service"}}
OPTIONAL = {"default", "d", "defined", "undefined"}


def texts(value: Any) -> Iterator[tuple[str, str]]:
    """Each text with the key that it stands below."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from ((name or str(key), text) for name, text in texts(inner))
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield "", value


def made(value: Any) -> Iterator[str]:
    """The names that a playbook gives values itself."""
    if isinstance(value, dict):
        if isinstance(value.get("register"), str):
            yield value["register"]
        if isinstance(value.get("loop_control"), dict):
            yield from (str(name) for name in value["loop_control"].values())
        for key, inner in value.items():
            if key in ("vars", "ansible.builtin.set_fact", "ansible.builtin.add_host") and isinstance(inner, dict):
                yield from inner
            yield from made(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from made(inner)


def plain(text: str) -> Iterator[str]:
    """The names in a text that end it where they have no value: neither a default nor a question stands behind them."""
    tree = jinja2.Environment(extensions=["jinja2.ext.do"]).parse(text)
    has_default = {
        id(node.node)
        for node in tree.find_all((jinja2.nodes.Filter, jinja2.nodes.Test))
        if node.name in OPTIONAL and isinstance(node.node, jinja2.nodes.Name)
    }
    questions = {
        name.node.name
        for test in tree.find_all((jinja2.nodes.CondExpr, jinja2.nodes.If))
        for name in test.test.find_all(jinja2.nodes.Test)
        if name.name in OPTIONAL and isinstance(name.node, jinja2.nodes.Name)
    }
    local = {node.name for node in tree.find_all(jinja2.nodes.Name) if node.ctx != "load"}
    for node in tree.find_all(jinja2.nodes.Name):
        if node.ctx == "load" and id(node) not in has_default and node.name not in questions | local:
            yield node.name


def of_a_person(task: dict[str, Any], own: set[str]) -> set[str]:
    """The variables without which a task, or a play's head, ends in a template's error."""
    asked = " ".join(str(text) for text in (task.get("when") or ()) if not isinstance(task.get("when"), str))
    asked += str(task.get("when") or "")
    found = set()
    for key, text in texts(task):
        expression = key in ("when", "until", "failed_when", "changed_when", "break_when", "that")
        if expression or "{{" in text or "{%" in text:
            found |= {*plain("{{ " + text + " }}" if expression and "{{" not in text else text)}
    return {
        name
        for name in found - own
        if not GIVEN.fullmatch(name) and not OF_ROLES.match(name) and f"{name} is defined" not in asked
    }


def guarded(play: dict[str, Any]) -> dict[str, str]:
    """The variables that a play refuses to go without, with its words."""
    asserts = [
        task["ansible.builtin.assert"]
        for task in [*play.get("pre_tasks", ()), *play.get("tasks", ())]
        if "ansible.builtin.assert" in task
    ]
    return {name: str(one["fail_msg"]) for one in asserts for name in re.findall(r"(\w+) is defined", str(one["that"]))}


@pytest.mark.parametrize("file", PLAYBOOKS, ids=lambda file: file.stem)
def test_what_a_person_may_leave_out_has_a_default_or_words_of_its_own(file: Path) -> None:
    plays = yaml.safe_load(file.read_text())
    own = {*made(plays), *(name for task in TASKS for name in made(yaml.safe_load(task.read_text())))}
    refused: dict[str, str] = {}
    for play in plays:
        refused |= guarded(play)
        parts = [{key: part for key, part in play.items() if key not in ("tasks", "pre_tasks")}]
        parts += [*play.get("pre_tasks", ()), *play.get("tasks", ())]
        for name in set().union(*(of_a_person(part, own) for part in parts)) - BY_MODULES.get(file.stem, set()):
            assert name in refused, f"{file.name}: {name} has neither a default nor words of its own"
    for name, words in refused.items():
        assert "found nothing; expected" in words and re.search(rf"write .*-e {name}=", " ".join(words.split())), name


@pytest.mark.parametrize("file", PLAYBOOKS, ids=lambda file: file.stem)
def test_a_playbook_of_one_service_refuses_a_run_that_names_none(file: Path) -> None:
    text = file.read_text()
    if "fleet_plan_scope: one" not in text:
        return
    assert re.search(r"""fleet_plan_service: "\{\{ service \| default\(''\) \}\}\"""", text)
    chosen, [problem] = choose(planned(SOLO), "one", "")
    assert not chosen and "write -e service=NAME; known are: solo" in problem.sentence()


def test_a_search_refuses_a_run_that_names_no_service() -> None:
    [problem] = problems(planned(SOLO), [""], ["titan"], {})
    assert "-e service=NAME; known are: solo" in problem.sentence()


TYPED = re.compile(r"\bgb10\.fleet\.([a-z_]+)\b((?:[^\S\n]+(?:-[a-zK][^\S\n]+|--\w+[^\S\n]+)?[^\s`;,)]+)*)")
READ_IN_ROLES = re.compile(r"[a-z_]+_(from|folder|file|foreign|host)|become_\w+|ansible_\w+")


def options_typed() -> Iterator[tuple[str, str, str]]:
    """(file, playbook, variable) of each command that a document, a playbook or a sentence of ours has."""
    files = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *PLAYBOOKS, *ROOT.glob("plugins/**/*.py")]
    for file in files:
        for name, rest in TYPED.findall(file.read_text("utf-8")):
            for key in re.findall(r"-e[ '\"]+([a-z_]+)=", rest):
                yield str(file.relative_to(ROOT)), name, key


def test_a_command_that_we_print_gives_its_playbook_what_it_reads() -> None:
    known = {path.stem: path.read_text("utf-8") for path in PLAYBOOKS}
    wrong = [
        f"{file}: {name} -e {key}="
        for file, name, key in options_typed()
        if name in known
        and not READ_IN_ROLES.fullmatch(key)
        and not re.search(rf"(?<!['.\w]){key}(?!['\w:])", known[name])
    ]
    assert wrong == []
