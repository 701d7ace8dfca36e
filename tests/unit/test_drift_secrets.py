# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets are compared, and neither what a host answers nor what is kept of it tells them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.managed import Managed, keyed
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.files import read_files, salted
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.system import read_later, wait_for_boot
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import compare
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.managed import managed_files
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.questions import host_view, questions
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.secrets import (
    compared,
    new_salt,
    same_on_all,
)
from drift_fleet import NOT_DEEP, changed, planned

SECRET = "canary-0123456789abcdef"


@pytest.fixture
def key(tmp_path: Path) -> Managed:
    """The key's file on the host. Here it lies below the test's folder, as does the owner's file."""
    (tmp_path / "owner").write_text(f"{SECRET}\n")
    (tmp_path / "host.yaml").write_text(f'api-key: "{SECRET}"\n')
    (tmp_path / "host.yaml").chmod(0o600)
    source = str(tmp_path / "owner")
    return Managed(
        str(tmp_path / "host.yaml"), "file", "0600", secret=True, source=source, rendered=keyed("api-key: %s\n")
    )


def asked(key: Managed, salt: str) -> dict[str, dict[str, Any]]:
    return read_files([{"path": key.path, "sha256": None, "secret": True, "salted": True}], salt)


def text_of(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def test_the_key_of_the_owner_is_the_same(key: Managed) -> None:
    salt = new_salt()
    (found,) = compared(asked(key, salt), [key], salt, text_of).values()
    assert found["same"] is True


@pytest.mark.parametrize("where", ["source", "path"])
def test_another_key_on_either_side_is_not(key: Managed, where: str) -> None:
    Path(getattr(key, where)).write_text('api-key: "another"\n')
    salt = new_salt()
    (found,) = compared(asked(key, salt), [key], salt, text_of).values()
    assert found["same"] is False


def test_a_file_that_the_controller_can_not_read_is_unknown(key: Managed) -> None:
    def locked(path: str) -> str:
        raise PermissionError("no vault secrets found")

    salt = new_salt()
    (found,) = compared(asked(key, salt), [key], salt, locked).values()
    assert found["same"] is None
    assert key.source in found["why"] and "no vault secrets found" in found["why"]


def test_the_answer_reveals_nothing_without_the_salt_and_nothing_of_it_is_kept(key: Managed) -> None:
    salt, content = new_salt(), Path(key.path).read_bytes()
    first, second = asked(key, salt), asked(key, new_salt())
    assert first != second
    plain = [
        hashlib.new(name, text).hexdigest() for name in ("sha256", "sha1", "md5") for text in (content, SECRET.encode())
    ]
    assert not any(word in json.dumps(first) for word in (SECRET, salt, *plain))
    kept = compared(first, [key], salt, text_of)
    assert first[key.path]["salted"] not in json.dumps(kept)


@pytest.mark.parametrize(
    ("answer", "verdict", "word"),
    [
        ({"same": True}, "clean", ""),
        ({"same": False}, "drift", " holds"),
        ({"same": None, "why": "no vault secrets found"}, "unknown", "no vault"),
    ],
)
def test_what_is_reported_of_it(tmp_path: Path, answer: dict[str, Any], verdict: str, word: str) -> None:
    (tmp_path / "key").write_text(SECRET)
    service = {"recipe": "lab-tiny", "hosts": ["titan"], "port": 8000, "api_key_file": str(tmp_path / "key")}
    plan = planned(fleet_services={"tiny": service})
    (mine,) = (one for one in managed_files(plan["hosts"]["titan"]) if one.source)
    change: Callable[[dict[str, Any]], None] = lambda state: state["files"][mine.path].update(answer)  # noqa: E731
    result = compare(plan, changed(plan, "titan", change), "2026-11-21")
    assert result.verdict == verdict
    shown = json.dumps([one.as_dict() for one in (*result.differences, *result.unknown)])
    assert word in shown and SECRET not in shown
    ask = questions(host_view(plan, "titan"), NOT_DEEP)
    assert [one["path"] for one in ask["files"] if one["salted"]] == [mine.path] and SECRET not in json.dumps(ask)


def test_a_file_that_is_read_later_at_boot_is_named_with_its_line(tmp_path: Path) -> None:
    """One of the same name in a higher folder hides the lower one."""
    etc, lib = tmp_path / "etc", tmp_path / "lib"
    for folder in (etc, lib):
        folder.mkdir()
    ours = str(etc / "99-zz-gb10-fleet.conf")
    (etc / "99-zz-gb10-fleet.conf").write_text("vm.swappiness = 1\n")
    (etc / "99-zzz-mine.conf").write_text("# mine\n-vm.swappiness=60\nvm.other = 1\n")
    (lib / "99-zzz-mine.conf").write_text("vm.swappiness = 70\n")
    (lib / "50-early.conf").write_text("vm.swappiness = 80\n")
    (etc / "99-zzzz.conf").mkdir()
    found = read_later({"vm.swappiness": ours}, (etc, lib))
    assert found == [{"key": "vm.swappiness", "value": "60", "file": str(etc / "99-zzz-mine.conf"), "line": 2}]


def test_a_drop_in_of_systemd_that_is_read_later_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "90-gb10-fleet.conf").write_text("[Manager]\nDefaultLimitMEMLOCK=infinity\n")
    (tmp_path / "99-mine.conf").write_text("[Manager]\n#DefaultLimitMEMLOCK=1\nDefaultLimitMEMLOCK = 64K\n")
    found = read_later({"DefaultLimitMEMLOCK": str(tmp_path / "90-gb10-fleet.conf")}, (tmp_path,))
    file = str(tmp_path / "99-mine.conf")
    assert found == [{"key": "DefaultLimitMEMLOCK", "value": "64K", "file": file, "line": 3}]


@pytest.mark.parametrize(
    ("answers", "naps"),
    [
        ([(0, "\n")], 0),
        ([(0, "31\n"), (0, "31\n"), (0, "")], 2),
        ([(0, "31\n")] * 1000, 240),  # a job that never ends: what is read then is what the host is
        ([(1, "System has not been booted with systemd")], 0),
        ([], 0),  # no systemctl at all
    ],
)
def test_a_host_is_read_once_it_has_booted(answers: list[tuple[int, str]], naps: int) -> None:
    """A night after a power cut found Docker's unit inactive: it still waited for the network."""
    slept: list[float] = []

    def run(_arguments: list[str]) -> tuple[int, str, str]:
        if not answers:
            raise FileNotFoundError
        return (*answers.pop(0), "")

    wait_for_boot(run, clock=lambda: sum(slept), sleep=slept.append)
    assert len(slept) == naps


@pytest.mark.parametrize(
    ("head", "worker", "found"),
    [
        (b"a" * 64, b"a" * 64, []),
        (b"a" * 64, b"b" * 64, ["spark-3"]),  # the next start of that rank ends the service
        (b"a" * 64, b"", ["spark-3"]),
        (b"a" * 64, None, []),  # a missing file is a finding of its own
        (None, b"b" * 64, []),
    ],
)
def test_ranks_share_their_secret(head: bytes | None, worker: bytes | None, found: list[str]) -> None:
    path, salt = "/etc/gb10-fleet/secrets/pair.group", new_salt()
    pair = {"name": "pair", "hosts": ["spark-2", "spark-3"], "secret": {"path": path, "head": "spark-2"}}
    solo = {"name": "solo", "hosts": ["titan"], "secret": None}
    slices = {"spark-2": [pair], "spark-3": [pair], "titan": [solo]}
    services = {one["name"]: {"hosts": one["hosts"]} for one in (pair, solo)}
    plan = {"services": services, "hosts": {name: {"services": own} for name, own in slices.items()}}
    contents = {"spark-2": head, "spark-3": worker, "titan": None}
    states = {
        name: {"files": {path: {"kind": "file", "salted": salted(content, salt)} if content is not None else {}}}
        for name, content in contents.items()
    }
    differences = [*same_on_all(plan, states)]
    assert [one.host for one in differences] == found
    assert all("site.yml -l spark-2,spark-3" in one.remedy for one in differences)
    assert salt not in str(differences)
    assert [*same_on_all(plan, {name: state for name, state in states.items() if name != "spark-2"})] == []
