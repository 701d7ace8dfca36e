# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What earlier releases keep, beside the inventory and on hosts, is read by this one; what a later one keeps is not.

tests/data/state/RELEASE was written by that release's own code, from its own tests' cases.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleAction
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._engines.observed import FOLDER, read_observed
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.history import parse
from ansible_collections.gb10.fleet.plugins.module_utils._operations.undo import record
from ansible_collections.gb10.fleet.plugins.module_utils._plan.preflight.earlier import FORM
from ansible_collections.gb10.fleet.plugins.module_utils._stores.lock import file, lock
from ansible_collections.gb10.fleet.plugins.plugin_utils import _who

STATE = Path(__file__).parents[1] / "data" / "state"
RELEASES = sorted(path.name for path in STATE.iterdir())


@pytest.fixture(params=RELEASES)
def kept(request: pytest.FixtureRequest) -> Path:
    return STATE / str(request.param)


def test_the_first_release_is_recorded() -> None:
    assert "0.1.0" in RELEASES


def test_the_lock_is_read_and_written_alike(kept: Path) -> None:
    found = file.read(kept / "controller" / "lock.json")
    assert found["images"]["vllm/vllm-openai:v0.23.0"]["identity"] == "sha256:" + "b" * 64
    assert found["models"]["org/model"] == {"revision": "c" * 40, "seal": "d" * 64}
    assert json.loads(lock.dump(found)) == json.loads((kept / "controller" / "lock.json").read_text())


def test_what_hosts_have_shown_counts(kept: Path, tmp_path: Path) -> None:
    (tmp_path / FOLDER).parent.mkdir()
    (tmp_path / FOLDER).symlink_to(kept / "controller" / "observed")
    found = read_observed(tmp_path)
    assert found.findings == () and len(found.boots["titan"]) == 1


def test_the_nights_go_on(kept: Path) -> None:
    history = parse((kept / "controller" / "history.json").read_bytes())
    assert history["nights"][-1]["at"].startswith("2026-11-20") and history["nights"][-1]["hosts"]


def test_a_removal_finds_what_was_there_before(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "FILE", kept / "host" / "undo.json")
    found, why = record.read()
    assert not why and found
    assert {*found["files"]} == {"/etc/x.conf"} and found["kernel"] == {"vm.swappiness": "60"} and not found["late"]


def test_its_services_are_known_as_ours(kept: Path) -> None:
    assert layout.service_of("gb10-service-tiny.service") == "tiny"
    assert "ExecStart" in (kept / "host" / "gb10-service-tiny.service").read_text()
    rank: dict[str, Any] = json.loads((kept / "host" / "tiny.json").read_text())
    assert {"definition", "endpoint", "container"} <= rank.keys()


def refused(folder: Path, *, dry: bool = False) -> str:
    """What a run that changes hosts is refused with; empty where it is not."""
    try:
        _who.refuse_older({"form": FORM}, folder, {}, dry=dry)
    except AnsibleAction as problem:
        return str(problem)
    return ""


@pytest.mark.parametrize(
    ("text", "words"),
    [("1\n", ""), ("", ""), ("x", ""), ("2\n", "in form 2; this one knows form 1"), ("10", "form 10")],
)
def test_what_a_later_release_keeps_is_not_read(tmp_path: Path, text: str, words: str) -> None:
    form = tmp_path / ".fleet" / "form"
    form.parent.mkdir()
    form.write_text(text)
    assert words in refused(tmp_path) and bool(refused(tmp_path)) is bool(words)


def test_the_form_is_kept_by_runs_that_change_something(tmp_path: Path) -> None:
    assert refused(tmp_path) == "" and not [*tmp_path.iterdir()], "nothing is kept here yet"
    (tmp_path / ".fleet").mkdir()
    assert refused(tmp_path, dry=True) == "" and not [*(tmp_path / ".fleet").iterdir()]
    assert refused(tmp_path) == "" and (tmp_path / ".fleet" / "form").read_text() == f"{FORM}\n"
