# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an owner meets first: the shims at the top, the first line of a playbook, and what the artifact holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from distlib.manifest import Manifest

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml"))
# what an owner types daily; everything else goes by its collection name
SHIMS = {"site.yml", "cluster-tp2.yml", "plan.yml", "drift.yml", "verify.yml", "status.yml", "doctor.yml"}
NO_PLAYBOOKS = {"galaxy.yml", "execution-environment.yml", "ansible-navigator.yml"}
CONTENT = ("meta", "plugins", "roles", "playbooks", "data", "recipes", "docs", "inventories/example", "extensions/eda")
AT_THE_TOP = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def test_at_the_top_are_only_shims_of_playbooks_that_are_there() -> None:
    shims = {path.name: read(path) for path in ROOT.glob("*.yml") if path.name not in NO_PLAYBOOKS}
    assert set(shims) <= SHIMS
    for name, plays in shims.items():
        (play,) = plays
        assert play["ansible.builtin.import_playbook"] == f"gb10.fleet.{name.removesuffix('.yml').replace('-', '_')}"
        assert play["ansible.builtin.import_playbook"].rpartition(".")[2] in PLAYBOOKS


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_a_playbook_begins_by_naming_what_it_is_about_to_do(name: str) -> None:
    first = read(ROOT / "playbooks" / f"{name}.yml")[0]["name"]
    assert first.endswith(f" (gb10.fleet.{name})")


def shipped(root: Path) -> set[str]:
    """The files below `root` that galaxy.yml's directives choose, as ansible-galaxy reads them."""
    control = read(ROOT / "galaxy.yml")["manifest"]
    assert control["omit_default_directives"] is True
    manifest = Manifest(str(root))
    for directive in control["directives"]:
        manifest.process_directive(directive)
    return {str(Path(path).relative_to(root)) for path in manifest.files}


def is_made(path: Path) -> bool:
    return "__pycache__" in path.parts


def test_all_content_ships_and_nothing_else(tmp_path: Path) -> None:
    folders = [ROOT / folder for folder in CONTENT]
    content = {path for folder in folders for path in folder.rglob("*") if path.is_file() and not is_made(path)}
    needed = {str(path.relative_to(ROOT)) for path in content}
    needed |= {*AT_THE_TOP, "tests/config.yml", "changelogs/changelog.yaml", "changelogs/config.yaml"}
    foreign = {"new.yml", "new.md", "site.yml", "notes/a.md", "tests/unit/test_x.py", "tests/lab/lab", ".env"}
    foreign |= {"inventories/mine/hosts.yml", "inventories/lab/hosts.yml", "plugins/modules/__pycache__/plan.pyc"}
    foreign |= {"changelogs/fragments/new.yml", "tools/rules.py", ".github/workflows/ci.yml", "x.tar.gz"}
    for name in needed | foreign:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert shipped(tmp_path) == needed


def test_galaxys_importer_takes_the_names_of_all_plugins() -> None:
    names = {path.stem for path in (ROOT / "plugins").rglob("*.py")} - {"__init__"}
    assert {name for name in names if not re.match(r"^(?!.*__)[a-z_][0-9a-z_]*$", name)} == set()


def test_workflows_run_no_action_that_can_change() -> None:
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    used = re.findall(r"uses: (\S+)", "".join(file.read_text("utf-8") for file in files))
    assert used
    assert [action for action in used if not re.fullmatch(r"\./.*|[\w./-]+@[0-9a-f]{40}", action)] == []


def test_the_architecture_names_files_that_are_there() -> None:
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"`(_[a-z_/]+/[a-z_]+\.py)`", text))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / "plugins" / "module_utils" / name).exists()] == []
