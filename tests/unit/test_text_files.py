# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several files in one call: written, then left alone, and a change of one is a change of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gb10.fleet.plugins.modules import text_files


def run(capsys: pytest.CaptureFixture[str], folder: Path, check: bool = False, **texts: str) -> dict[str, Any]:
    files = {str(folder / name): text for name, text in texts.items()}
    arguments = {"files": files, "mode": "0644", "_ansible_check_mode": check, "_ansible_diff": True}
    with patch_module_args(arguments), pytest.raises(SystemExit):
        text_files.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result | {"changed_files": [Path(name).name for name in result["changed_files"]]}


def test_check_mode_says_it_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, tmp_path, check=True, a="one\n", b="two\n")
    assert (result["changed"], result["changed_files"]) == (True, ["a", "b"])
    assert [(one["before"], one["after"]) for one in result["diff"]] == [("", "one\n"), ("", "two\n")]
    assert [*tmp_path.iterdir()] == []


def test_written_once_and_only_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, tmp_path, a="one\n", b="two\n")["changed_files"] == ["a", "b"]
    assert (tmp_path / "a").read_text() == "one\n"
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o644
    again = run(capsys, tmp_path, a="one\n", b="two\n")
    assert (again["changed"], again["diff"]) == (False, [])
    third = run(capsys, tmp_path, a="one\n", b="three\n")
    assert third["changed_files"] == ["b"]
    assert [(one["before"], one["after"]) for one in third["diff"]] == [("two\n", "three\n")]


def test_access_is_repaired_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, tmp_path, a="one\n", b="two\n")
    (tmp_path / "a").chmod(0o666)
    result = run(capsys, tmp_path, a="one\n", b="two\n")
    assert result["changed_files"] == ["a"]
    assert (result["diff"][0]["before"]["mode"], result["diff"][0]["after"]["mode"]) == ("0666", "0644")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644
