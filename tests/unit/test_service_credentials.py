# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys, certificates and the CA on a host: written by one call, shown by none."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.action import service_credentials as action
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._base.managed import keyed
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp.catalogue import SPEC as LLAMA_CPP
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.spec import SPEC as VLLM
from ansible_collections.gb10.fleet.plugins.modules import service_credentials
from ansible_collections.gb10.fleet.plugins.plugin_utils._certificates import Pair, authority, issued, new_key

SECRET = "word-that-nobody-may-see"
TRUST = """#!/bin/sh
echo trusted >> "$0.done"
test ! -e "$0.fails" || { echo "no room" >&2; exit 1; }
: > "$0.link"
"""


class Place:
    """A host with an update-ca-certificates that notes that it was asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.program, self._capsys = folder, folder / "update-ca-certificates", capsys
        self.key, self.ca = folder / "secrets" / "chat.yml", folder / "ca.crt"
        self.program.write_text(TRUST)
        self.program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setattr(layout, "trusted_link", lambda _path: f"{self.program}.link")

    def run(
        self, key: str | None = SECRET, ca: str | None = "a CA", check: bool = False, pair: Pair | None = None
    ) -> dict[str, Any]:
        secrets = {str(self.key): key} | ({} if ca is None else {str(self.ca): ca})
        paths = {kind: f"{self.folder}/secrets/chat.{kind}" for kind in ("certificate", "key")}
        tls = {kind: {"path": path} for kind, path in paths.items()} | {"ca": "ca.crt", "names": ["titan"]}
        if pair:
            secrets |= {paths["certificate"]: pair.certificate.decode(), paths["key"]: pair.key.decode()}
        arguments = {
            "tls": {"path": str(self.ca)},
            "certificates": [tls] if pair else [],
            "modes": {str(self.key): "0600", str(self.ca): "0644"} | dict.fromkeys(paths.values(), "0600"),
            "secrets": secrets,
            "_ansible_check_mode": check,
            "_ansible_diff": True,
        }
        with patch_module_args(arguments), pytest.raises(SystemExit):
            service_credentials.main()
        printed = self._capsys.readouterr().out
        assert SECRET not in printed
        result: dict[str, Any] = json.loads(printed)
        return result

    def trusted(self) -> int:
        """How often it was asked."""
        done = Path(f"{self.program}.done")
        return len(done.read_text().split()) if done.exists() else 0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(tmp_path, monkeypatch, capsys)


def test_what_differs_is_written_and_nothing_else(place: Place) -> None:
    both = sorted(map(str, (place.key, place.ca)))
    tried = place.run(check=True)
    assert (tried["changed"], tried["changed_files"], place.key.exists(), place.trusted()) == (True, both, False, 0)
    first = place.run()
    assert (first["changed_files"], place.key.read_text(), place.trusted()) == (both, SECRET, 1)
    assert [path.stat().st_mode & 0o777 for path in (place.key, place.ca)] == [0o600, 0o644]
    again = place.run()
    assert (again["changed"], again["diff"], place.trusted()) == (False, [], 1)
    other = place.run(key="another")
    assert (other["changed_files"], place.key.read_text(), place.trusted()) == ([str(place.key)], "another", 1)


@pytest.mark.parametrize("check", [False, True])
def test_a_certificate_that_clients_refuse_is_not_brought(place: Place, check: bool) -> None:
    """By the host's clock, as of a controller whose clock is ahead."""
    now, key = datetime.now(UTC), new_key()
    ca = Pair(authority(key, "x", now, 3650), key)
    early = place.run(
        ca=ca.certificate.decode(), pair=issued(ca, ["titan"], now + timedelta(days=300), 365), check=check
    )
    assert early["failed"] and "not yet valid" in early["msg"] and "set the clock" in early["msg"]
    assert not place.ca.exists() and not place.key.exists() and place.trusted() == 0
    good = place.run(ca=ca.certificate.decode(), pair=issued(ca, ["titan"], now, 365), check=check)
    assert len(good["changed_files"]) == 4


@pytest.mark.parametrize("harm", ["mode", "link", "folder", "gone"])
def test_what_a_hand_did_is_put_right(place: Place, harm: str) -> None:
    place.run()
    if harm == "mode":
        place.key.chmod(0o644)
    else:
        place.key.unlink()
    if harm == "link":
        place.key.symlink_to(place.ca)
    elif harm == "folder":
        place.key.mkdir()  # Docker makes one where a file is missing that a container mounts
    assert place.run()["changed_files"] == [str(place.key)]
    assert not place.key.is_symlink() and place.key.read_text() == SECRET and place.ca.read_text() == "a CA"
    assert place.key.stat().st_mode & 0o777 == 0o600


def test_a_ca_is_trusted_also_after_a_run_that_was_cut_off_and_goes_when_nothing_is_of_it(place: Place) -> None:
    place.run()
    Path(f"{place.program}.link").unlink()
    assert place.run(check=True)["changed"] and place.trusted() == 1
    assert place.run()["changed_files"] == [] and place.trusted() == 2
    gone = place.run(ca=None)
    assert (gone["changed_files"], place.ca.exists(), place.trusted()) == ([str(place.ca)], False, 3)
    assert place.run(ca=None)["changed"] is False


def test_a_host_that_can_not_trust_it_fails_and_the_next_run_tries_again(place: Place) -> None:
    (Path(f"{place.program}.fails")).touch()
    failed = place.run()
    assert failed["failed"] and "no room" in failed["msg"]
    Path(f"{place.program}.fails").unlink()
    assert place.run()["changed"] and place.run()["changed"] is False


# What the controller sends, and believes ---------------------------------------------------------------------------


def service(name: str, folder: Path, form: str) -> dict[str, Any]:
    key = {"source": str(folder / f"{name}.key"), "path": f"/etc/{name}.yml", "form": form}
    return {"name": name, "key": key, "tls": None, "trace_headers": None, "files": {"/etc/unit": {"content": "x"}}}


def act(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    answer: dict[str, Any],
    *names: str,
    check: bool = False,
    form: str = "api-key: %s\n",
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the module is given, and the action's result."""
    sent: dict[str, Any] = {}

    def execute(_self: Any, _name: str, arguments: dict[str, Any], **_others: Any) -> dict[str, Any]:
        sent.update(arguments)
        return answer

    args = {"services": [service(name, folder, form) for name in names], "tls": {"path": "/ca", "source": None}}
    monkeypatch.setattr(ActionBase, "run", lambda *_args: {})
    monkeypatch.setattr(ActionBase, "_execute_module", execute)
    it: Any = object.__new__(action.ActionModule)
    it._task = SimpleNamespace(args=args, check_mode=check)
    it._loader = DataLoader()
    monkeypatch.setattr(it, "validate_argument_spec", lambda _spec: (None, args), raising=False)
    return sent, it.run()


def test_a_host_is_sent_its_secrets_and_nothing_beside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "chat.key").write_text(f"{SECRET}\n")
    sent, result = act(monkeypatch, tmp_path, {"changed_files": ["/etc/chat.yml"]}, "chat")
    assert sent["secrets"] == {"/etc/chat.yml": f'api-key: "{SECRET}"\n'}
    assert (sent["modes"], "services" in sent) == ({"/etc/chat.yml": "0600"}, False)
    assert result["changed_services"] == ["chat"]


@pytest.mark.parametrize(
    "named", [None, "/etc/chat.yml", [["/etc/chat.yml"]], [{}], {"/etc/chat.yml": 1}, ["/etc/x"], 7]
)
def test_whatever_a_host_names_no_other_service_starts_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: Any
) -> None:
    (tmp_path / "chat.key").write_text(SECRET)
    _sent, result = act(monkeypatch, tmp_path, {"changed_files": named, "changed_services": ["other"]}, "chat")
    assert result["changed_services"] == []


@pytest.mark.parametrize("form", [VLLM.key.form, LLAMA_CPP.key.form])
def test_a_key_is_written_as_it_is_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str) -> None:
    key = 'with "quotes" and %s, %t\n'
    (tmp_path / "chat.key").write_text(key)
    sent, _result = act(monkeypatch, tmp_path, {}, "chat", form=form)
    assert sent["secrets"]["/etc/chat.yml"] == keyed(form)(key)


def test_a_key_that_a_tried_run_would_make_is_none_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sent, _result = act(monkeypatch, tmp_path, {}, "chat", check=True)
    assert sent["secrets"] == {"/etc/chat.yml": None}
    with pytest.raises(Exception, match=r"chat\.key"):
        act(monkeypatch, tmp_path, {}, "chat")
