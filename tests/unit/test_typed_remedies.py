# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remedies that are commands work as typed: each names a playbook and variables that there are, and a run that is not
refused for the hosts that it leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import data_file
from ansible_collections.gb10.fleet.plugins.module_utils._base.ranks import elsewhere, with_groups
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import causes
from ansible_collections.gb10.fleet.plugins.module_utils._operations.undo.dependents import removal
from ansible_collections.gb10.fleet.plugins.module_utils._plan.choice import choose, split_by_limit
from test_commands import ROOT, declared

_OPTIONS = r"((?: (?:-[a-z] [^ ;,`]+|--[a-z]+))*)"
_TYPED = re.compile(r"(?:ansible-playbook (?:gb10[.]fleet[.])?|gb10[.]fleet[.])([a-z_-]+)(?:[.]yml)?" + _OPTIONS)
_MENTIONED = re.compile(r"(?<![/\w.])([a-z_-]+)[.]yml" + _OPTIONS)
# Files of an inventory, of a recipe or of Docker, and no playbooks.
_FILES = {"hosts", "fleet", "clients", "compose", "config", "docker-compose", "prometheus", "rules", "recipe", "prune"}
_FILES |= {"build", "vllm_catalogue_info"}  # the latter is a module
# Of Ansible itself, or given on the host's own line.
_OF_ANSIBLE = {"ansible_become_password"}


def texts() -> Iterator[str]:
    """All words of findings, rules, alerts, and causes of starts that failed."""
    for name in ("findings", "rules", "alerts", "known_bad", "vllm_needs", "vllm_names"):
        waiting = [data_file(name)]
        while waiting:
            one = waiting.pop()
            if isinstance(one, str):
                yield one
            elif isinstance(one, (dict, list)):
                waiting += one.values() if isinstance(one, dict) else one
    yield from (text for name, text in vars(causes).items() if isinstance(text, str) and not name.startswith("__"))


def commands() -> dict[tuple[str, str], str]:
    """Playbook and options, with the text that names them."""
    found = {}
    for text in texts():
        for pattern in (_TYPED, _MENTIONED):
            for name, options in pattern.findall(text):
                found.setdefault((name, options.strip()), text)
    return found


def test_there_are_many() -> None:
    names = {name for name, _options in commands()}
    assert len(commands()) > 30 and {"site", "drift", "doctor", "status", "why", "bench", "rollout"} <= names, names


@pytest.mark.parametrize("command", sorted(commands()), ids=" ".join)
def test_each_command_of_a_remedy_can_be_typed(command: tuple[str, str]) -> None:
    name, options = command
    playbook = ROOT / "playbooks" / f"{name.replace('-', '_')}.yml"
    assert name in _FILES or playbook.exists(), commands()[command]
    for variable in re.findall(r"-e ([a-z_]+)=", options):
        assert variable in _OF_ANSIBLE or re.search(rf"\b{variable}\b", declared()), commands()[command]


CHAIN: dict[str, Any] = {
    "services": {
        "big": {"hosts": ["spark-2", "spark-3"]},
        "wide": {"hosts": ["spark-3", "spark-4"]},
        "chat": {"hosts": ["titan"]},
    },
    "gateway": {"models": [{"model": "big", "services": ["big"]}, {"model": "chat", "services": ["chat"]}]},
}


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        (["titan"], "titan"),
        (["spark-2"], "spark-2,spark-3,spark-4"),
        (["spark-4", "titan"], "spark-2,spark-3,spark-4,titan"),
    ],
)
def test_a_remedy_names_all_hosts_that_a_run_needs(hosts: list[str], words: str) -> None:
    assert with_groups(CHAIN, hosts) == words  # type: ignore[arg-type]
    assert [*split_by_limit(CHAIN, [*CHAIN["services"]], words.split(","))] == []  # type: ignore[arg-type]


def of_run(playbook: str) -> tuple[str, bool]:
    """The scope of a playbook's plan, and whether it takes any -l."""
    found: dict[str, Any] = {}
    for play in yaml.safe_load((ROOT / "playbooks" / f"{playbook}.yml").read_text("utf-8")) or []:
        for role in play.get("roles", []):
            found |= {} if isinstance(role, str) else role.get("vars", {})
        for task in play.get("tasks", []):
            given = task.get("gb10.fleet.plan") or {}
            found |= {f"fleet_plan_{name}": value for name, value in given.items()}
    return found.get("fleet_plan_scope", "fleet"), found.get("fleet_plan_partial", False)


LIMITED = re.compile(r"-l (\S+)")


@pytest.mark.parametrize("command", sorted(commands()), ids=" ".join)
@pytest.mark.parametrize("host", ["titan", "spark-2", "spark-3", "spark-4"])
def test_no_command_of_a_remedy_is_refused_for_its_limit(command: tuple[str, str], host: str) -> None:
    """Typed for any host of an inventory with groups, which overlap, and for any service on it."""
    name, options = command
    limit = LIMITED.search(options)
    if name in _FILES or not (limit or "-e service=" in options):
        return
    scope, partial = of_run(name.replace("-", "_"))
    for service in (one for one, row in CHAIN["services"].items() if host in row["hosts"]):
        named = service if "-e service=" in options else ""
        services, problems = choose(CHAIN, scope, named)  # type: ignore[arg-type]
        assert problems == []
        # of these the code names all hosts that the run needs, by `with_groups`, or removes the service
        if limit and re.fullmatch(r"[{]{1,2} ?[$]labels[.](host|of) ?[}]{1,2}|HOST|[{](host|name)[}]", limit[1]):
            assert partial or [*split_by_limit(CHAIN, services, [host], named)] == [], commands()[command]  # type: ignore[arg-type]


@pytest.mark.parametrize("hosts", [["titan"], ["spark-2"], ["spark-3"], ["titan", "spark-4"], ["spark-2", "spark-4"]])
def test_the_hosts_that_a_refused_limit_names_are_enough(hosts: list[str]) -> None:
    """It named those of one group, with which another group was torn."""
    for refused in split_by_limit(CHAIN, [*CHAIN["services"]], hosts):  # type: ignore[arg-type]
        (limit,) = LIMITED.findall(refused.remedy)
        assert [*split_by_limit(CHAIN, [*CHAIN["services"]], limit.split(","))] == []  # type: ignore[arg-type]


def test_a_removal_names_all_hosts_of_the_run_that_follows() -> None:
    plan: dict[str, Any] = {
        "services": CHAIN["services"],
        "gateway": None,
        "monitoring": {"host": "spark-2", "hosts": ["spark-2", "titan"]},
        "hosts": {
            name: {"fabric": {"interfaces": []}, "images": [], "models": []}
            for name in ("titan", "spark-2", "spark-3", "spark-4")
        },
    }
    (watched,) = removal(plan, ["titan"], "titan", True)["warnings"]  # type: ignore[arg-type]
    assert "site.yml -l spark-2,spark-3,spark-4" in watched


def test_a_drift_check_of_one_rank_names_what_it_did_not_compare() -> None:
    (drift,) = (
        play for play in yaml.safe_load((ROOT / "playbooks" / "drift.yml").read_text("utf-8")) if "vars" in play
    )
    assert drift["roles"][0]["vars"]["fleet_plan_partial"] is True
    (found,) = split_by_limit(CHAIN, ["big"], ["spark-2", "titan"])  # type: ignore[arg-type]
    assert "spark-3 of big" in found.found


@pytest.mark.parametrize(
    ("hosts", "models"),
    [(["titan"], {"big": "spark-2, spark-3"}), (["spark-3"], {"chat": "titan"}), (["titan", "spark-2"], {})],
)
def test_models_of_other_hosts_end_no_run(hosts: list[str], models: dict[str, str]) -> None:
    assert elsewhere(CHAIN, hosts) == models  # type: ignore[arg-type]
    assert elsewhere({**CHAIN, "gateway": None}, hosts) == {}  # type: ignore[arg-type]
