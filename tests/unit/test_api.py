# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The public face: its examples run, its signatures stay, and the modules and filters answer the same."""

from __future__ import annotations

import doctest
import inspect
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gb10.fleet.plugins.filter import kv_pool as kv_filter
from ansible_collections.gb10.fleet.plugins.filter import vllm_flags as flags_filter
from ansible_collections.gb10.fleet.plugins.module_utils import api
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.ranks import rank_of
from shell import owners_environment
from tools.golden import ROOT, inventory_of
from unit.kv_cases import CASES, config

# A program of somebody else calls these. Add a parameter with a default at the end; whatever else you change here ends
# such programs, and needs a major release.
SIGNATURES = {
    "forecast": "(case: 'Mapping[str, Any]') -> 'dict[str, Any]'",
    "import_recipe": (
        "(source: 'str | Mapping[str, Any]', name: 'str', mods: 'Mapping[str, Mapping[str, str]] | None' = None)"
        " -> 'Imported'"
    ),
    "kv_pool": "(case: 'Mapping[str, Any]') -> 'dict[str, Any]'",
    "lint": "(launch: 'Mapping[str, Any]') -> 'list[dict[str, Any]]'",
    "plan": (
        "(inventory: 'Inventory', recipes: 'Sequence[Path] | None' = None, relock: 'str' = '') -> 'dict[str, Any]'"
    ),
    "vllm_flags": ("(plan: 'Mapping[str, Any]', service: 'str', host: 'str | None' = None) -> 'dict[str, Any]'"),
}
GROUP = "qwen3-vl"


def planned(**of_group: Any) -> dict[str, Any]:
    """The plan of the example inventory, with other settings of its group."""
    folder = ROOT / "inventories" / "example"
    inventory = inventory_of(folder) | {"folder": str(folder)}
    for host in inventory["hosts"].values():
        services = host["variables"]["fleet_services"]
        host["variables"]["fleet_services"] = services | {GROUP: services[GROUP] | of_group}
    return api.plan(inventory)


EXAMPLE, MULTIPROCESSING = planned(), planned(recipe="minimax-m2.5-awq")
FLEET = {"plan": EXAMPLE}


def test_the_signatures_stay() -> None:
    functions = {name: getattr(api, name) for name in api.__all__ if inspect.isfunction(getattr(api, name))}
    assert {name: str(inspect.signature(function)) for name, function in functions.items()} == SIGNATURES


def test_nothing_else_is_public() -> None:
    own = {name for name, found in vars(api).items() if getattr(found, "__module__", "") == api.__name__}
    assert own <= {*api.__all__}


def test_its_examples_are_true() -> None:
    """Each function has one, and goes on with what the ones before it named."""
    names: dict[str, Any] = {"api": api}
    with_examples = set()
    runner = doctest.DocTestRunner()
    for test in sorted(doctest.DocTestFinder().find(api), key=lambda test: test.lineno or 0):
        with_examples |= {test.name.rpartition(".")[2]} if test.examples else set()
        test.globs = names
        assert runner.run(test, clear_globs=False).failed == 0
    assert {*SIGNATURES} <= with_examples


def test_the_plan_reads_what_lies_beside_the_inventory(tmp_path: Path) -> None:
    inventory = inventory_of(ROOT / "inventories/example") | {"folder": str(tmp_path)}
    (tmp_path / ".fleet.lock").write_text("{", "utf-8")
    with pytest.raises(FleetError, match=r"\.fleet\.lock"):
        api.plan(inventory)


def test_the_plan_writes_nothing(tmp_path: Path) -> None:
    inventory = inventory_of(ROOT / "inventories/example") | {"folder": str(tmp_path)}
    damaged = tmp_path / ".fleet" / "models" / "a--b.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{", "utf-8")
    api.plan(inventory)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [damaged]


@pytest.mark.parametrize("plan", [EXAMPLE, MULTIPROCESSING], ids=["ray", "multiprocessing"])
def test_the_flags_are_the_words_that_vllm_gets(plan: dict[str, Any]) -> None:
    for service, its in plan["services"].items():
        for host in its["hosts"]:
            rank = rank_of(plan, service, host)
            is_node = "start" in rank["container"]["arguments"]
            words = rank["exec"] or [] if is_node else rank["container"]["arguments"]
            flags = api.vllm_flags(plan, service, host)
            given = [word.partition("=")[0] for word in words if word.startswith("--")]
            assert given == [f"--no-{name}" if flags[name] is False else f"--{name}" for name in sorted(flags)]


def test_a_group_has_flags_of_its_own_on_each_host() -> None:
    head, worker = MULTIPROCESSING["services"][GROUP]["hosts"]
    assert api.vllm_flags(MULTIPROCESSING, GROUP) == api.vllm_flags(MULTIPROCESSING, GROUP, head)
    assert [api.vllm_flags(MULTIPROCESSING, GROUP, host)["node-rank"] for host in (head, worker)] == [0, 1]
    assert "port" not in api.vllm_flags(MULTIPROCESSING, GROUP, worker)


def test_a_node_of_ray_starts_without_flags_of_vllm() -> None:
    head, worker = EXAMPLE["services"][GROUP]["hosts"]
    assert api.vllm_flags(EXAMPLE, GROUP, head)["port"] and api.vllm_flags(EXAMPLE, GROUP, worker) == {}


@pytest.mark.parametrize(
    ("service", "host", "words"),
    [
        ("nemotron-nanno", None, 'service nemotron-nanno: unknown.*write "nemotron-nano"'),
        ("nemotron-nano", "beast", "nemotron-nano on host beast: unknown.*titan"),
    ],
)
def test_an_unknown_name_comes_with_the_known_names(service: str, host: str | None, words: str) -> None:
    with pytest.raises(FleetError, match=words):
        api.vllm_flags(EXAMPLE, service, host)
    with pytest.raises(AnsibleFilterError, match=words):
        flags_filter.vllm_flags(FLEET, service, host)


def test_another_engine_has_no_flags_of_vllm() -> None:
    services = {"s": {**EXAMPLE["services"]["nemotron-nano"], "engine": "sglang"}}
    with pytest.raises(FleetError, match=r"the engine sglang; .*container\.arguments"):
        api.vllm_flags(EXAMPLE | {"services": services}, "s")


def test_filters_name_what_they_take() -> None:
    with pytest.raises(AnsibleFilterError, match="register"):
        flags_filter.vllm_flags(EXAMPLE, "nemotron-nano")
    with pytest.raises(AnsibleFilterError, match="a map, not str"):
        kv_filter.kv_pool("config.json")


def test_the_pool_is_the_modules() -> None:
    case = CASES["cases"][1] | {"vllm_version": "0.23.0", "config": config("nemotron-3-nano-30b-a3b")}
    assert kv_filter.kv_pool(case) == api.kv_pool(case)
    assert kv_filter.kv_pool(case)["tokens"] == 1_815_893


def test_the_examples_of_the_filters_run(tmp_path: Path) -> None:
    """As a playbook of the owner of the example inventory."""
    (tmp_path / "config.json").write_text(json.dumps(config("nemotron-3-nano-30b-a3b")), "utf-8")
    tasks = [task for module in (kv_filter, flags_filter) for task in yaml.safe_load(module.EXAMPLES)]
    play = {"name": "Examples", "hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
    text = json.dumps([play]).replace("'code'", f"'{GROUP}'")
    (tmp_path / "play.yml").write_text(text, "utf-8")
    done = subprocess.run(
        ["ansible-playbook", "-i", str(ROOT / "inventories" / "example"), str(tmp_path / "play.yml")],
        cwd=ROOT,
        env=owners_environment() | {"ANSIBLE_DISPLAY_OK_HOSTS": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "221.67" in done.stdout
    assert (tmp_path / "code-on-spark-2.yml").read_text("utf-8") != ""


def test_the_page_shows_a_program_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(program, {})
    assert "warning" in capsys.readouterr().out
    assert {*re.findall(r"^\| `(\w+)\(", text, re.MULTILINE)} == {*SIGNATURES}
