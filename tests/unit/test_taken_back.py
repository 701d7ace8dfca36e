# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout has taken back is known on the hosts of all replicas, and no run advises or brings it again."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.filter.internal import preflight_sentences
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import Reading, compare
from ansible_collections.gb10.fleet.plugins.module_utils._plan.choice import retried
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.reading import read_taken_back, read_units
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.taken_back import forgotten, kept, words
from drift_fleet import planned, readings

PLAN = planned()
AT = "2026-11-26 11:58 UTC"
REPLICAS: Any = {
    "chat-a": {"definition": "a" * 64, "start": "s" * 64, "hosts": ["titan"]},
    "chat-b": {"definition": "b" * 64, "start": "s" * 64, "hosts": ["titan", "spark-2"]},
}


def test_each_host_of_each_replica_keeps_it() -> None:
    found = kept(REPLICAS, "chat-a", "the image starts\nno engine\x1b[2J " + "x" * 2000, AT)
    assert {host: sorted(files) for host, files in found.items()} == {
        "titan": [layout.taken_back("chat-a"), layout.taken_back("chat-b")],
        "spark-2": [layout.taken_back("chat-b")],
    }
    content = found["spark-2"][layout.taken_back("chat-b")]["content"]
    record = json.loads(content)
    assert (record["definition"], record["start"]) == ("b" * 64, "s" * 64)
    assert (record["of"], record["at"]) == ("chat-a", AT)
    assert record["why"].startswith("the image starts no engine?[2J") and len(record["why"]) == 600
    assert forgotten(["chat-a"]) == {layout.taken_back("chat-a"): {"mode": "0600", "content": None}}


@pytest.mark.parametrize(
    ("content", "known"),
    [
        (json.dumps({"definition": "a", "of": "x", "at": AT, "why": "w"}), True),
        (json.dumps({"definition": "a", "start": "s", "of": "x", "at": AT, "why": "w"}), True),
        ("", False),
        ("[]", False),
        ('{"definition": "a"}', False),
        ("{", False),
    ],
)
def test_a_damaged_file_is_as_none(tmp_path: Path, content: str, known: bool) -> None:
    (tmp_path / "chat.taken-back").write_text(content)
    assert bool(read_taken_back("chat", tmp_path)) is known
    assert read_taken_back("other", tmp_path) is None


@pytest.mark.parametrize(("now", "counts"), [("old", True), ("refused", False), (None, True)])
def test_what_runs_again_is_no_longer_refused(tmp_path: Path, now: str | None, counts: bool) -> None:
    (tmp_path / layout.unit("chat")).touch()
    record = {"definition": "refused", "of": "chat", "at": AT, "why": "w"}
    (tmp_path / "chat.taken-back").write_text(json.dumps(record))
    if now:
        (tmp_path / "chat.json").write_text(json.dumps({"ranks": 1, "definition": now}))
    [unit] = read_units(tmp_path, tmp_path)
    assert unit.get("taken_back") == (record if counts else None)


def test_the_words_name_the_replica_that_showed_it() -> None:
    record: Any = {"definition": "x", "of": "chat-a", "at": AT, "why": "engine core failed"}
    assert words("chat-a", record)["found"] == f"this declaration was taken back at {AT}: engine core failed"
    assert words("chat-b", record)["found"].startswith("this declaration, tried on chat-a, was taken back")
    assert "ansible-playbook gb10.fleet.rollout -e service=chat-b" in words("chat-b", record)["remedy"]


def _site(definition: str | None) -> tuple[Any, Any]:
    """What hosts read, titan among them, which keeps that a definition was taken back; None: the planned one."""
    states: Any = {host: deepcopy(reading.state) for host, reading in readings(PLAN).items()}
    service = PLAN["hosts"]["titan"]["services"][0]
    record = {"definition": definition or service["definition"], "of": service["name"], "at": AT, "why": "no engine"}
    [unit] = (unit for unit in states["titan"]["our_units"] if unit["unit"] == service["unit"])
    unit["taken_back"] = record
    return states, service


def test_a_run_refuses_it_unless_it_is_asked_for() -> None:
    states, service = _site(None)
    mine = PLAN["hosts"]["titan"]

    def refused(*retry: str) -> list[str]:
        found = preflight_sentences(mine, "titan", states["titan"], states, retry=retry)
        return [one for one in found if "[service-taken-back]" in one]

    [sentence] = refused()
    assert f"taken back at {AT}: no engine" in sentence and f"-e retry={service['name']}" in sentence
    assert refused("other") == [sentence]
    assert refused(service["name"]) == []
    states, _service = _site("another")
    assert not refused(), "the declaration has changed"
    [unit] = (unit for unit in states["titan"]["our_units"] if "taken_back" in unit)
    unit["taken_back"]["start"] = service["start"]
    assert len(refused()) == 1, "another release of ours gives the same start another definition"


def test_a_drift_check_has_one_difference_for_it() -> None:
    states, service = _site(None)
    state = states["titan"]
    state["files"] = deepcopy(state["files"])
    state["files"][service["rank_file"]]["sha256"] = "0" * 64
    state["running"][service["container"]["name"]]["argv"] = ["old"]
    readings = {host: Reading(found, {}) for host, found in states.items()}
    result = compare(PLAN, readings, "2026-11-27")
    [difference] = (one for one in result.differences if one.service == service["name"])
    assert difference.rule == "service-taken-back" and "site.yml" not in difference.remedy
    del next(unit for unit in state["our_units"] if "taken_back" in unit)["taken_back"]
    assert len([one for one in compare(PLAN, readings, "2026-11-27").differences if one.service]) > 1


def test_only_what_is_declared_is_tried_again() -> None:
    plan: Any = {"services": {"chat": {}}}
    assert [*retried(plan, ["chat"])] == []
    [finding] = retried(plan, ["caht"])
    assert finding.severity == "error" and "chat" in finding.remedy
