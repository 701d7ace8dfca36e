# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that the controller keeps beside the inventory: lost, damaged, and without room for them (harm, held back)."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.gb10.fleet.plugins.action import doctor, drift, lock_record, observation_record
from ansible_collections.gb10.fleet.plugins.module_utils._base import own_files
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle.signature import require_signed, signed
from ansible_collections.gb10.fleet.plugins.plugin_utils import _asking
from ansible_collections.gb10.fleet.plugins.plugin_utils._bundle_key import kept_key

BOOT = {"release": "0.33.0", "flags": {}, "memory": {}}
FULL = [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES]


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    for action in (doctor, observation_record, drift):
        monkeypatch.setattr(action, "warn", found.append)
    return found


def refuse_files(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The disk, or its mount, takes nothing."""

    def fails(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fails)


def recorded(monkeypatch: pytest.MonkeyPatch, copy: Path) -> dict[str, Any]:
    """An observation of a host arrives at the controller."""
    action = observation_record.ActionModule.__new__(observation_record.ActionModule)
    action._task = SimpleNamespace(args={"copy": str(copy), "kind": "boot"}, check_mode=False)
    monkeypatch.setattr(observation_record, "require_observed", lambda _kind, _content: None)
    monkeypatch.setattr(_asking.Answering, "run", lambda *_given: {"changed": False, "content": BOOT})
    return dict(action.run(None, {}))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", bytes(100), None], ids=repr)
def test_a_damaged_copy_of_an_observation_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warned: list[str], content: bytes | None
) -> None:
    copy = tmp_path / "observed" / "boot.json"
    copy.parent.mkdir()
    copy.mkdir() if content is None else copy.write_bytes(content)
    assert recorded(monkeypatch, copy)["changed"]
    assert b"0.33.0" in copy.read_bytes()
    assert not recorded(monkeypatch, copy)["changed"] and not warned


@pytest.mark.parametrize("number", FULL)
def test_no_room_for_an_observation_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warned: list[str], number: int
) -> None:
    refuse_files(monkeypatch, number)
    recorded(monkeypatch, tmp_path / "boot.json")
    (sentence,) = warned
    assert sentence.startswith(f"{tmp_path}/boot.json: {os.strerror(number)}") and "None" not in sentence
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("number", FULL)
def test_no_room_for_what_drift_and_doctor_keep_hides_nothing_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warned: list[str], number: int
) -> None:
    refuse_files(monkeypatch, number)
    drift.ActionModule.__new__(drift.ActionModule)._keep(tmp_path / "night.json", "{}")
    monkeypatch.setattr(doctor, "bundle_text", lambda _bundle: "{}")
    hosts: Any = [SimpleNamespace(host="titan", bundle={})]
    assert doctor.ActionModule._write(tmp_path / "doctor", hosts) == []
    assert len(warned) == 2
    for sentence, name in zip(warned, ("night.json", "doctor"), strict=True):
        assert f"{tmp_path}/{name}" in sentence and os.strerror(number) in sentence and "None" not in sentence


@pytest.mark.parametrize("number", FULL)
def test_a_file_that_the_controller_can_not_use_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Of each action that reaches no host: what a system call refuses is named with its file and what to do."""
    action = lock_record.ActionModule.__new__(lock_record.ActionModule)
    action._options = {}

    def acts(*_given: Any) -> None:
        own_files.replace_file(tmp_path / ".fleet.lock", b"")

    refuse_files(monkeypatch, number)
    monkeypatch.setattr(lock_record.ActionModule, "act", acts)
    monkeypatch.setattr(lock_record.ActionModule, "validate_argument_spec", lambda *_given: (None, {}))
    monkeypatch.setattr("ansible.plugins.action.ActionBase.run", lambda *_given: {})
    with pytest.raises(AnsibleActionFail) as refused:
        action.run(None, {})
    assert refused.value.message.startswith(f"{tmp_path}/.fleet.lock: {os.strerror(number)}; expected ")
    assert ("make room there" in refused.value.message) is (number in (errno.ENOSPC, errno.EDQUOT))


def test_a_lost_public_part_of_the_bundles_key_is_made_again(tmp_path: Path) -> None:
    """It was lost, or the run that made the key ended before it was written."""
    secret, public = kept_key(tmp_path)
    (tmp_path / ".fleet" / "bundle.gpg").unlink()
    again = kept_key(tmp_path)[1]
    require_signed(tmp_path, b"x", signed(secret, b"x", clear=False), again)
    (tmp_path / ".fleet" / "bundle.gpg").unlink()
    for content in (b"", b"half", secret[: len(secret) // 2]):
        (tmp_path / ".fleet" / "keys" / "bundle.key").write_bytes(content)
        with pytest.raises(FleetError, match="bundle-key"):
            kept_key(tmp_path)
    assert public and not (tmp_path / ".fleet" / "bundle.gpg").exists()
