# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is typed on the first day, on a machine that nobody has prepared."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._plan.inventory_files import inventory_folder

ROOT = Path(__file__).resolve().parents[2]
SERVICES = '{"fleet_services": {"chat": {"recipe": "gpt-oss-120b", "hosts": ["spark.local"], "port": 8000}}}'


def callback() -> Any:
    file = ROOT / "playbooks/callback_plugins/gb10_ansible_version.py"
    spec = importlib.util.spec_from_file_location("gb10_ansible_version", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_older_ansible_is_refused_in_one_sentence() -> None:
    module = callback()
    needed = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["requires_ansible"]
    assert needed == f">={'.'.join(map(str, module.NEEDED))}.0"
    for old in ("2.16.14", "2.9.1", "2.18.0rc1"):
        assert "pipx install ansible-core" in module.too_old(old) and "\n" not in module.too_old(old)
    assert [module.too_old(new) for new in ("2.19.0", "2.19.0b1", "2.21.5", "3.0.0", "devel")] == [""] * 5


def test_a_callback_that_meets_an_older_ansible_asks_it_for_nothing_new() -> None:
    text = (ROOT / "playbooks/callback_plugins/gb10_ansible_version.py").read_text()
    imported = re.findall(r"^(?:from|import) (\S+)", text, re.MULTILINE)
    assert imported == ["__future__", "typing", "ansible.plugins.callback", "ansible.release", "ansible.utils.display"]


def test_no_playbook_takes_the_folder_of_an_inventory_as_it_is() -> None:
    """Without an inventory file Ansible calls it None, a text."""
    files = [*ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("roles/**/*.yml")]
    bare = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in files
        for line in file.read_text("utf-8").splitlines()
        if "inventory_dir" in line and "inventory_folder" not in line
    ]
    assert bare == []


@pytest.mark.parametrize("named", [None, "", "None"])
def test_what_has_no_inventory_file_lies_where_one_types(
    named: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert inventory_folder(named) == str(tmp_path)
    assert inventory_folder("/srv/None") == "/srv/None"


def test_a_plan_of_a_typed_host_keeps_its_key_where_one_types(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("ansible-playbook")
    words = ["-i", "spark.local,", "gb10.fleet.plan", "-e", SERVICES, "-v"]
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
    }
    done = subprocess.run([program, *words], cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)
    assert f"{tmp_path}/.fleet/keys/chat.key" in done.stdout, done.stdout + done.stderr
    assert "None/" not in done.stdout
