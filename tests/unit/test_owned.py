# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies under names of ours and is no longer declared goes, and nothing else does."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gb10.fleet.plugins.action.host_removal import looked_for
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout, owned
from ansible_collections.gb10.fleet.plugins.module_utils._base.owned import matches, patterns_of, require_pattern
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.files import find_owned
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import compare
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.managed import managed_files
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.questions import host_view, questions
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.subject import with_files
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.registry import SUBJECTS
from ansible_collections.gb10.fleet.plugins.modules import host_files
from drift_fleet import NOT_DEEP, changed, planned, readings
from test_drift_compare import put
from test_unconverged import why

RULES = "/etc/udev/rules.d/91-gb10-udev-*"
PEER = f"{layout.LIBRARY}/peer/**"
FINE = [
    RULES,
    PEER,
    "/etc/systemd/system/gb10-gadget-*.service",
    "/etc/sysctl.d/99-zz-gb10-gadget-*.conf",
    f"{layout.LIBRARY}/gadget/*.py",
    f"{layout.CONFIG}/gadget/*",
    f"{layout.OVERLAYS}/chat/**",
]
TOO_WIDE = [
    "/etc/udev/rules.d/*",
    "/etc/udev/rules.d/91-*",
    "/etc/udev/rules.d/gb10-*",
    "/etc/udev/rules.d/*gb10-udev-x",
    "/etc/udev/rules.d/**",
    "/etc/gb10-gadget-*",
    "/etc/**",
    "/**",
    "/*",
    "/etc/*/91-gb10-udev-*",
    "/etc/systemd/system/gb10-*",
    "/etc/systemd/system/gb10-?adget-*",
    "/home/me/gb10-gadget-*",
    "/etc/../home/gb10-gadget-*",
    "/etc/udev//rules.d/91-gb10-udev-*",
    "etc/udev/rules.d/91-gb10-udev-*",
    "",
    f"{layout.LIBRARY}/**",
    f"{layout.LIBRARY}/*",
    f"{layout.CONFIG}/**",
    f"{layout.CONFIG}/*.json",
    f"{layout.SECRETS}/**",
    f"{layout.SECRETS}/*.key",
    f"{layout.SERVICES}/*.json",
    f"{layout.STATE}/hf/**",
    f"{layout.MODELS}/**",
    f"{layout.STATE}/**",
    f"{layout.OVERLAYS}/**",
    f"{layout.LIBRARY}-other/peer/**",
]


@pytest.mark.parametrize("pattern", FINE)
def test_a_pattern_of_names_of_ours_is_taken(pattern: str) -> None:
    require_pattern(pattern)


@pytest.mark.parametrize("pattern", TOO_WIDE)
def test_a_pattern_that_may_match_what_is_others_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        require_pattern(pattern)


def test_a_star_stays_within_a_name() -> None:
    assert matches(RULES, "/etc/udev/rules.d/91-gb10-udev-x.rules")
    assert not matches(RULES, "/etc/udev/rules.d/91-gb10-udev-x/y")
    assert not matches(RULES, "/etc/udev/rules.d/sub/91-gb10-udev-x")
    assert matches(PEER, f"{layout.LIBRARY}/peer/a/b/c.py") and not matches(PEER, f"{layout.LIBRARY}/peer-serve")


def test_no_part_owns_what_another_declares() -> None:
    plan = planned()
    for host in plan["hosts"].values():
        host["peer_access"] = with_files({"reads": {}, "readers": {"x": ["10.0.0.1"]}}, plan["inventory"])
        for subject in SUBJECTS:
            patterns = [*patterns_of(host[subject.name])]
            for pattern in patterns:
                require_pattern(pattern)
            own = {one.path for one in subject.files(host[subject.name]) if hasattr(one, "kind")}
            others = {one.path for one in managed_files(host)} - own
            assert not [path for path in others if any(matches(pattern, path) for pattern in patterns)]


def shared() -> dict[str, Any]:
    """The plan, with a peer that reads what titan keeps."""
    plan = planned()
    readers = {"reads": {}, "readers": {"x": ["10.0.0.1"]}}
    plan["hosts"]["titan"]["peer_access"] = with_files(readers, plan["inventory"])
    return plan


def test_each_pattern_of_a_slice_is_asked_for_and_goes_with_a_removal() -> None:
    plan = shared()
    asked = questions(host_view(plan, "titan"), NOT_DEEP)
    assert PEER in asked["owned"]
    assert sorted(looked_for(plan["hosts"]["titan"])["owns"]) == asked["owned"]


def test_what_nobody_declares_any_more_is_drift_and_a_reason_to_converge() -> None:
    plan, path = shared(), f"{layout.LIBRARY}/peer/former.py"
    found = compare(plan, changed(plan, "titan", put("owned", [path])), "2026-11-21").differences
    assert [(one.host, one.rule, one.place, one.repairs) for one in found] == [
        ("titan", "file-undeclared", f"file {path}", "site.yml")
    ]
    assert why(titan=put("owned", [path]))["titan"] == [f"file {path}: it is there"]
    declared = next(one.path for one in managed_files(plan["hosts"]["titan"]) if "/peer/" in one.path)
    assert not compare(plan, changed(plan, "titan", put("owned", [declared])), "2026-11-21").differences
    assert not compare(plan, readings(plan), "2026-11-21").differences


# On a host -------------------------------------------------------------------------------------------------------


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of ours below the test's own."""
    monkeypatch.setattr(owned, "_OURS", (str(tmp_path),))
    monkeypatch.setattr(host_files, "OWNER", tmp_path.owner())
    monkeypatch.setattr(host_files.record, "remember_file", lambda _path: None)
    monkeypatch.setattr(host_files.record, "remember_folder", lambda _path: None)
    folder = tmp_path / "peer"
    (folder / "old" / "deep").mkdir(parents=True)
    for name in ("kept.py", "gone.py", "old/deep/module.py"):
        (folder / name).write_text(name)
    return folder


def call(capsys: pytest.CaptureFixture[str], **arguments: Any) -> dict[str, Any]:
    with patch_module_args({"_ansible_diff": True, **arguments}), pytest.raises(SystemExit):
        host_files.main()
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def files(folder: Path, *names: str) -> dict[str, Any]:
    return {str(folder / name): {"mode": "0644", "content": name} for name in names}


def test_what_matches_and_is_not_declared_is_swept(peer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = {"files": files(peer, "kept.py"), "owns": [f"{peer}/**"]}
    checked = call(capsys, **arguments, _ansible_check_mode=True)
    swept = [str(peer / "gone.py"), str(peer / "old/deep/module.py")]
    assert (checked["changed"], checked["changed_files"]) == (True, swept)
    assert [(one["before_header"], one["before"], one["after"]) for one in checked["diff"]] == [
        (swept[0], "gone.py", ""),
        (swept[1], "old/deep/module.py", ""),
    ]
    assert (peer / "gone.py").exists()
    assert call(capsys, **arguments)["changed_files"] == swept
    assert [path.name for path in peer.rglob("*")] == ["kept.py"]
    again = call(capsys, **arguments)
    assert (again["changed"], again["diff"]) == (False, [])


def test_a_pattern_that_is_too_wide_fails_before_the_first_change(
    peer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = call(capsys, files=files(peer, "new.py"), owns=["/etc/udev/rules.d/*"])
    assert found["failed"] and "too wide" in found["msg"]
    assert not (peer / "new.py").exists()


def test_no_link_is_followed_and_nothing_but_files_and_links_goes(
    peer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thesis = tmp_path / "mine" / "thesis.odt"
    thesis.parent.mkdir()
    thesis.write_text("x")
    (peer / "to-folder").symlink_to(thesis.parent)
    (peer / "to-file").symlink_to(thesis)
    os.mkfifo(peer / "pipe")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(peer / "sock"))
    (tmp_path / "linked").symlink_to(peer)
    assert find_owned([f"{tmp_path}/linked/**"]) == []
    assert call(capsys, owns=[f"{tmp_path}/linked/**"])["changed"] is False
    call(capsys, owns=[f"{peer}/**"])
    assert thesis.read_text() == "x"
    assert sorted(path.name for path in peer.iterdir()) == ["pipe", "sock"]


def test_a_unit_is_stopped_before_it_goes(
    peer: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[tuple[str, ...]] = []
    monkeypatch.setattr(host_files, "UNITS", f"{peer}/")
    monkeypatch.setattr(host_files, "systemctl", lambda _module, *words: done.append(words))
    unit = peer / "gb10-gadget-one.service"
    unit.write_text("[Service]")
    arguments = {"files": files(peer, "kept.py", "gone.py"), "owns": [f"{peer}/gb10-gadget-*.service"]}
    call(capsys, **arguments, _ansible_check_mode=True)
    assert done == [] and unit.exists()
    call(capsys, **arguments)
    assert done == [("disable", "--now", unit.name), ("daemon-reload",)] and not unit.exists()


def test_a_program_is_written_after_what_it_imports(peer: Path) -> None:
    files = with_files({"reads": {}, "readers": {"x": ["10.0.0.1"]}}, "site")["files"]
    texts = {path: {"mode": one["mode"], "content": "x"} for path, one in files.items()}
    order = [path for path, _file in sorted(texts.items(), key=host_files.starters_last)]
    programs = [path for path, one in files.items() if one["mode"] == "0755"]
    assert len(programs) == 2 and {*order[-2:]} == {*programs}


def test_a_name_that_is_no_text_goes_too(peer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = peer / os.fsdecode(b"gone-\xff.py")
    name.write_bytes(b"\xff\0")
    found = call(capsys, files=files(peer, "kept.py"), owns=[f"{peer}/**"])
    assert found["changed"] and not name.exists()
