# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets come to a host whole and with root's access, also where a run is only tried, and no output shows them."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.module_utils.testing import patch_module_args
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.action import secret_files as action
from ansible_collections.gb10.fleet.plugins.modules import group_secret, secret_files

SECRET = "word-that-nobody-may-see-in-any-output"


def call(capsys: pytest.CaptureFixture[str], module: ModuleType, check: bool = False, **options: Any) -> dict[str, Any]:
    with patch_module_args({**options, "_ansible_check_mode": check, "_ansible_diff": True}), pytest.raises(SystemExit):
        module.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def place(capsys: pytest.CaptureFixture[str], path: Path, text: str | None, check: bool = False) -> dict[str, Any]:
    result = call(capsys, secret_files, check, part="clients", plan=None, secrets={str(path): text})
    assert SECRET not in json.dumps(result)
    return result


def test_what_differs_is_written_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "not-there-yet" / "own.env"
    for text in (None, SECRET):  # None: the controller has yet to make it
        assert place(capsys, path, text, check=True)["changed_files"] == [str(path)]
        assert [*tmp_path.iterdir()] == []
    done = place(capsys, path, SECRET)
    assert (done["changed_files"], path.read_text(), path.stat().st_mode & 0o777) == ([str(path)], SECRET, 0o600)
    again = place(capsys, path, SECRET)
    assert (again["changed"], again["diff"]) == (False, [])


@pytest.mark.parametrize("harm", ["mode", "link", "folder", "gone"])
def test_what_a_hand_did_is_put_right(tmp_path: Path, capsys: pytest.CaptureFixture[str], harm: str) -> None:
    path, other = tmp_path / "own.env", tmp_path / "other"
    other.write_text(SECRET)
    place(capsys, path, SECRET)
    if harm == "mode":
        path.chmod(0o644)
    else:
        path.unlink()
    if harm == "link":
        path.symlink_to(other)
    elif harm == "folder":
        path.mkdir()
    assert place(capsys, path, SECRET, check=True)["changed"] and place(capsys, path, SECRET)["changed"]
    assert path.read_text() == SECRET and not path.is_symlink() and path.stat().st_mode & 0o777 == 0o600
    assert other.read_text() == SECRET


CLIENT = {
    "name": "chat",
    "secrets": [{"path": "/etc/chat/own.env", "kind": "open-webui", "key": ""}],
    "files": {"/etc/chat/unit": {"mode": "0644", "content": "x"}},
}


def sent_to_host(monkeypatch: pytest.MonkeyPatch, source: Path, check: bool = False) -> dict[str, Any]:
    """The options that the module gets from the action."""
    sent: dict[str, Any] = {}

    def execute(_self: Any, name: str, arguments: dict[str, Any], **_others: Any) -> dict[str, Any]:
        sent.update(arguments, module=name)
        return {"changed": True}

    monkeypatch.setattr(ActionBase, "run", lambda *_arguments, **_named: {})
    monkeypatch.setattr(ActionBase, "_execute_module", execute)
    plan = [{**CLIENT, "secrets": [{**secret, "source": str(source)} for secret in CLIENT["secrets"]]}]  # type: ignore[union-attr]
    made = object.__new__(action.ActionModule)
    made._task = SimpleNamespace(args={"part": "clients", "plan": plan}, check_mode=check)
    made._loader = DataLoader()
    monkeypatch.setattr(made, "validate_argument_spec", lambda _spec: (None, dict(made._task.args)))
    assert made.run()["changed"]
    return sent


def test_a_host_is_sent_its_secrets_and_no_plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "chat.key"
    assert sent_to_host(monkeypatch, source, check=True)["secrets"] == {"/etc/chat/own.env": None}
    source.write_text("password-of-the-owner\n")
    sent = sent_to_host(monkeypatch, source)
    assert (sent["module"], sent["plan"]) == ("gb10.fleet.secret_files", None)
    assert [*sent["secrets"]] == ["/etc/chat/own.env"]
    assert sent["secrets"]["/etc/chat/own.env"].startswith("WEBUI_ADMIN_PASSWORD='password-of-the-owner'\n")


def test_a_secret_that_can_not_be_is_refused_by_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "chat.key"
    source.write_text("two words\n")
    with pytest.raises(AnsibleActionFail, match=str(source)) as refused:
        sent_to_host(monkeypatch, source)
    assert "two words" not in str(refused.value)


# Of a group --------------------------------------------------------------------------------------------------------


def test_a_head_makes_a_secret_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pair"
    tried = call(capsys, group_secret, check=True, path=str(path))
    assert (tried["changed"], tried["text"], path.exists()) == (True, "", False)
    made = call(capsys, group_secret, path=str(path))
    assert (made["text"], len(made["text"]), path.stat().st_mode & 0o777) == (path.read_text(), 64, 0o600)
    assert made["text"] not in json.dumps(made["diff"])
    again = call(capsys, group_secret, path=str(path))
    assert (again["changed"], again["text"]) == (False, made["text"])


@pytest.mark.parametrize("left", ["", "0123456789abcdef"])
def test_a_part_of_a_secret_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], left: str) -> None:
    path = tmp_path / "pair"
    path.write_text(left)
    assert call(capsys, group_secret, check=True, path=str(path))["changed"] and path.read_text() == left
    assert len(call(capsys, group_secret, path=str(path))["text"]) == 64


def test_the_access_of_a_secret_is_repaired_and_the_secret_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pair"
    secret = call(capsys, group_secret, path=str(path))["text"]
    path.chmod(0o644)
    assert call(capsys, group_secret, path=str(path)).items() >= {"changed": True, "text": secret}.items()
    assert (path.read_text(), path.stat().st_mode & 0o777) == (secret, 0o600)


def test_the_others_get_what_the_head_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pair"
    # before the head has one
    assert call(capsys, group_secret, check=True, path=str(path), text="")["changed"]
    assert "the group's head gave no secret" in call(capsys, group_secret, path=str(path), text="")["msg"]
    assert not path.exists()
    given = call(capsys, group_secret, path=str(path), text=SECRET)
    assert (given["changed"], path.read_text()) == (True, SECRET)
    assert SECRET not in json.dumps(given)
    assert call(capsys, group_secret, path=str(path), text=SECRET)["changed"] is False
