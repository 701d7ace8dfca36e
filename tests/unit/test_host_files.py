# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files, links and folders in one call: written, then left alone, and a change of one is a change of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gb10.fleet.plugins.modules import host_files

pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host all belongs to root; here to whoever runs the tests."""
    monkeypatch.setattr(host_files, "OWNER", tmp_path.owner())


def run(
    capsys: pytest.CaptureFixture[str], folder: Path, check: bool = False, mode: str = "0644", **texts: str | None
) -> dict[str, Any]:
    files = {str(folder / name): {"mode": mode, "content": text} for name, text in texts.items()}
    return call(capsys, folder, {"files": files, "_ansible_check_mode": check})


def call(capsys: pytest.CaptureFixture[str], folder: Path, arguments: dict[str, Any]) -> dict[str, Any]:
    with patch_module_args({"_ansible_diff": True, **arguments}), pytest.raises(SystemExit):
        host_files.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    names = [str(Path(name).relative_to(folder)) for name in result.get("changed_files", ())]
    return result | {"changed_files": names}


def test_check_mode_reports_it_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_what_is_no_longer_to_be_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, tmp_path, a="one\n")
    assert run(capsys, tmp_path, check=True, a=None)["changed_files"] == ["a"] and (tmp_path / "a").exists()
    assert run(capsys, tmp_path, a=None)["diff"][0]["before"] == "one\n" and not (tmp_path / "a").exists()
    assert run(capsys, tmp_path, a=None)["changed"] is False


def test_a_program_in_a_new_folder_and_no_way_through_a_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "victim").write_text("kept\n")
    (tmp_path / "link").symlink_to("victim")
    run(capsys, tmp_path, mode="0755", **{"new/deep/program": "run\n", "link": "mine\n"})
    assert (tmp_path / "new/deep/program").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "new/deep").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "victim").read_text() == "kept\n" and not (tmp_path / "link").is_symlink()


def test_links_and_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {"links": {str(tmp_path / "a"): "/dev/null"}, "folders": {str(tmp_path / "keys"): "0700"}}
    assert call(capsys, tmp_path, wanted)["changed_files"] == ["keys", "a"]
    assert str((tmp_path / "a").readlink()) == "/dev/null" and (tmp_path / "keys").stat().st_mode & 0o777 == 0o700
    assert call(capsys, tmp_path, wanted)["changed"] is False
    assert call(capsys, tmp_path, {"links": {str(tmp_path / "a"): None}})["changed_files"] == ["a"]
    (tmp_path / "keys").chmod(0o750)  # as an image has it
    assert call(capsys, tmp_path, {"folders": {str(tmp_path / "keys"): None}})["changed"] is False
    assert call(capsys, tmp_path, {"folders": {str(tmp_path / "made"): None}})["changed_files"] == ["made"]
    (tmp_path / "a").write_text("the owner's own\n")
    refused = call(capsys, tmp_path, wanted)
    assert refused["failed"] and "expected a link" in refused["msg"]


@pytest.mark.parametrize("what", ["a folder for a file", "a file for a folder", "a link to nowhere for a folder"])
def test_what_is_in_the_way_is_kept_under_another_name(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second time over what was kept the first time."""
    there = tmp_path / ("a" if what == "a folder for a file" else "deep")
    kept = there.with_name(f"{there.name}.damaged")
    wanted: dict[str, dict[str, Any]] = {"folders": {str(tmp_path / "deep"): "0755"}}
    wanted["files"] = {str(tmp_path / file): {"mode": "0644", "content": "mine\n"} for file in ("a", "deep/b")}
    for number in range(2):
        if what == "a folder for a file":
            there.mkdir()
            (there / str(number)).touch()
        elif what == "a file for a folder":
            there.write_text(str(number))
        else:
            there.symlink_to(f"nowhere-{number}")
        assert there.name in call(capsys, tmp_path, {**wanted, "_ansible_check_mode": True})["changed_files"]
        assert there.name in call(capsys, tmp_path, wanted)["changed_files"]
        assert [(tmp_path / file).read_text() for file in ("a", "deep/b")] == ["mine\n"] * 2
        if kept.is_symlink():
            assert str(kept.readlink()) == f"nowhere-{number}"
        else:
            assert ([one.name for one in kept.iterdir()] if kept.is_dir() else [kept.read_text()]) == [str(number)]
        assert call(capsys, tmp_path, wanted)["changed"] is False
        there.rename(tmp_path / f"mine-{number}")


def test_however_many_units_change_systemd_reads_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = tmp_path / "calls"
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    state = "LoadState=loaded\nActiveState=inactive\nSubState=dead\nUnitFileState=disabled\nNeedDaemonReload=no\n"
    shows = f'shift; for word; do case $word in --*) ;; *) echo "{state}" ;; esac; done'
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\ncase $1 in show) {shows} ;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    units = {"a.service": "started", "b.timer": "started", "c.service": "enabled"}
    files = {str(tmp_path / name): {"mode": "0644", "content": "[Unit]\n"} for name in units}
    call(capsys, tmp_path, {"files": files, "units": units})
    does = [line for line in calls.read_text().splitlines() if not line.startswith("show")]
    enabled = "enable --no-reload a.service b.timer c.service"
    assert does == [enabled, "daemon-reload", "start a.service", "start b.timer"]
