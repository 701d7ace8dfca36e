# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`--tags`, `--skip-tags` and `--start-at-task` work, or end in one sentence before any host is reached."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.plugin_utils._run_options import refusal

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))
SHIMS = sorted(path for path in ROOT.glob("*.yml") if "import_playbook" in path.read_text("utf-8"))
SITE_ROLES = (
    *("host_tuning", "memory_guard", "fabric", "container_engine", "firewall", "peer_access", "image_store"),
    *("model_store", "lock", "services", "gateway", "clients", "monitoring", "phoenix"),
)
# The parts of each playbook that has some: any other runs as a whole.
PARTS = {
    "site": {*SITE_ROLES, "verify"},
    "cluster_tp2": {*SITE_ROLES, "verify"},
    "stage": {"image_store", "lock", "model_store", "peer_access"},
    "verify": {"clients", "fabric", "gateway", "services"},
}
DRIVER = Path(__file__).with_name("run_options_driver.py")


def name_of(path: Path) -> str:
    return path.stem.replace("-", "_")


def runs(folder: Path, *commands: list[str]) -> list[tuple[int, str]]:
    """Of the real ansible-playbook, for an inventory of one host that does not answer."""
    inventory = folder / "hosts.yml"
    inventory.write_text("all: {hosts: {nobody: {ansible_host: 127.0.0.1, ansible_port: 1}}}\n")
    return of_inventory(inventory, *commands)


def of_inventory(inventory: Path, *commands: list[str]) -> list[tuple[int, str]]:
    lines = "".join(json.dumps(["-i", str(inventory), *words]) + "\n" for words in commands)
    done = subprocess.run(
        [sys.executable, str(DRIVER)], input=lines, capture_output=True, text=True, cwd=ROOT, check=True
    )
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


IN_PART = (["--start-at-task", "Judge"], ["--tags", "nothing"], ["--skip-tags", "always"])


def test_what_can_not_run_in_part_ends_in_one_sentence_before_any_host(tmp_path: Path) -> None:
    """One code refuses all three: each playbook has it, shown by one of them in turn; site and verify have all."""
    turns = [(path, words) for path, words in zip(PLAYBOOKS, cycle(IN_PART), strict=False)]
    turns += [(path, words) for path in PLAYBOOKS if path.stem in ("site", "verify") for words in IN_PART]
    turns += [(path, IN_PART[1]) for path in SHIMS]
    ended = runs(tmp_path, *([str(path), *words] for path, words in turns))
    for (path, words), (code, output) in zip(turns, ended, strict=True):
        sentence = re.fullmatch(r"\[ERROR\]: (--[\w-]+): (.*)\n", output.replace("\n", " ").rstrip() + "\n")
        assert code == 5 and sentence is not None, (path.name, code, output)
        assert sentence[1] == words[0] and sentence[2].startswith("gb10.fleet.")
        is_whole = name_of(path) not in PARTS or words[0] == "--start-at-task"
        assert ("type the command without it" in sentence[2]) == is_whole
        assert "PLAY" not in output


def test_a_part_runs_with_the_plan_and_what_reads_the_hosts(tmp_path: Path) -> None:
    """The host is asked, which does not answer: so far comes a whole run too."""
    commands = [
        [str(ROOT / "playbooks" / f"{name}.yml"), option, part]
        for name, option, part in (
            ("site", "--tags", "firewall"),
            ("site", "--skip-tags", "verify,fabric"),
            ("stage", "--tags", "image_store"),
            ("verify", "--tags", "fabric"),
            ("cluster_tp2", "--tags", "all"),
        )
    ]
    for words, (code, output) in zip(commands, runs(tmp_path, *commands), strict=True):
        assert "[ERROR]: --" not in output, words
        assert "TASK [gb10.fleet.fleet_plan : Decide everything for the fleet]" in output or code == 4, (words, output)
        assert "undefined" not in output


def test_somebodys_own_playbook_keeps_its_tags(tmp_path: Path) -> None:
    ours = "{name: Ours, ansible.builtin.import_playbook: gb10.fleet.recipe_lint}"
    task = "{name: Greet, ansible.builtin.debug: {msg: hello}, tags: own}"
    own = f"{{name: Own, hosts: nobody, gather_facts: false, tasks: [{task}]}}"
    mixed, tagged = tmp_path / "mixed.yml", tmp_path / "tagged.yml"
    mixed.write_text(f"- {ours}\n- {own}\n")
    tagged.write_text(f"- {ours[:-1]}, tags: [recipes]}}\n- {own}\n")
    words = ([str(mixed), "--tags", "own"], [str(tagged), "--tags", "recipes"], [str(mixed), "--tags", "x"])
    done = runs(tmp_path, *words)
    assert [code for code, _output in done] == [0, 0, 5]
    assert re.search("nobody .* ok=1 ", done[0][1])


def plays(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((ROOT / "playbooks" / f"{name}.yml").read_text("utf-8"))
    return found


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_a_playbook_has_the_parts_that_the_documents_name(path: Path) -> None:
    text = json.dumps(plays(path.stem))
    tags = {tag for some in re.findall(r'"tags": \[([^]]*)\]', text) for tag in re.findall(r"\w+", some)}
    if path.stem != "cluster_tp2":
        assert tags - {"always"} == PARTS.get(path.stem, set())
    document = (ROOT / "docs" / "how-to" / "guide.md").read_text("utf-8")
    section = document.partition("### One part alone")[2].partition("\n## ")[0]
    assert all(f"`{part}`" in section for part in PARTS.get(path.stem, ()))


def test_each_role_of_a_converge_runs_by_its_name() -> None:
    for name in ("site", "stage"):
        roles = [role for play in plays(name) for role in play.get("roles", ())]
        named = [(role["role"].rpartition(".")[2], role["tags"]) for role in roles]
        assert {role for role, tags in named if role not in tags} == {"fleet_plan", "preflight"}
        assert dict(named)["fleet_plan"] == dict(named)["preflight"] == ["always"]


def test_what_a_part_needs_always_runs() -> None:
    for name in PARTS:
        if name == "cluster_tp2":
            continue
        first = plays(name)[0]
        parts = [*first.get("pre_tasks", ()), *first["roles"], *first.get("tasks", ())]
        assert [part for part in parts if part["tags"] != ["always"]] == []


def test_only_a_whole_run_removes_what_was_replaced() -> None:
    *removals, escrow, refusal = plays("site")[-1]["tasks"]
    assert escrow["tags"] == ["always"] and "gb10.fleet.escrow" in escrow
    for task in removals:
        assert "tags" not in task and task["when"].endswith("and not __unproved")
    assert refusal["when"] == "ansible_check_mode" and "errors" in refusal["gb10.fleet.findings"]


OF = "expected of firewall, gateway"


@pytest.mark.parametrize(
    ("tags", "skipped", "sentence"),
    [
        (["all"], [], ""),
        (["firewall"], [], ""),
        (["firewall", "gateway"], ["gateway"], ""),
        (["all"], ["gateway"], ""),
        # of molecule, which skips them in every run
        (["all"], ["molecule-notest", "notest"], ""),
        (["firewal"], [], f'--tags: gb10.fleet.site has no part firewal; {OF}; write "firewall"'),
        (["tagged"], [], f"--tags: gb10.fleet.site has no part tagged; {OF}"),
        (["all"], ["firewal"], f'--skip-tags: gb10.fleet.site can\'t leave out firewal; {OF}; write "firewall"'),
        (["all"], ["always"], f"--skip-tags: gb10.fleet.site can't leave out always; {OF}"),
        (["all"], ["all"], f"--skip-tags: gb10.fleet.site can't leave out all; {OF}"),
        (["all"], ["untagged"], f"--skip-tags: gb10.fleet.site can't leave out untagged; {OF}"),
    ],
)
def test_a_part_is_one_that_is_there(tags: list[str], skipped: list[str], sentence: str) -> None:
    assert refusal("gb10.fleet.site", {"firewall", "gateway"}, tags, skipped, None) == sentence


def test_what_skips_nothing_skips_nothing() -> None:
    assert refusal("gb10.fleet.plan", (), ["all"], ["molecule-notest"], None) == ""
    assert "runs as a whole" in refusal("gb10.fleet.plan", (), ["all"], ["tagged"], None)


# What a playbook can't do without: how its message says to write it.
NEEDED = {
    "bench": "write -e service=NAME",
    "bundle": "write -e bundle=",
    "export": "write -e target=",
    "recipe_import": "write -e recipe_import_file=",
    "recipe_new": "write -e model=",
    "restart": "write -e service=NAME",
    "rollout": "write -e service=NAME",
    "stop": "write -e service=NAME",
    "tune": "write -e service=NAME",
}


def test_a_playbook_that_lacks_a_variable_answers_how_to_write_it() -> None:
    ended = of_inventory(
        ROOT / "inventories" / "example" / "hosts.yml", *([str(ROOT / "playbooks" / f"{name}.yml")] for name in NEEDED)
    )
    for (name, words), (code, output) in zip(NEEDED.items(), ended, strict=True):
        text = " ".join(output.split())
        assert (code, words in text, "undefined" in text) == (2, True, False), (name, output)
