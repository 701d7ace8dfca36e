# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A changed definition comes to one replica after the other. Under load: molecule/rollout."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._operations.rollout.compare import answer_seconds, slower
from ansible_collections.gb10.fleet.plugins.module_utils._operations.rollout.steps import (
    Replica,
    chosen,
    obstacles,
    page,
    replicas_of,
    steps,
)
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.reading import holds_of
from ansible_collections.gb10.fleet.plugins.modules import service_way_back
from drift_fleet import planned
from hypothesis import given
from hypothesis import strategies as st

ENDPOINT = {"url": "http://127.0.0.1:8000", "model": "m", "key_file": None, "certificate": None}


def replica(name: str, **changes: Any) -> Replica:
    """One that serves an older definition."""
    facts: dict[str, Any] = {
        "hosts": [f"host-{name}"],
        "wanted": "new",
        "start": "its start",
        "found": {f"host-{name}": "old"},
        "unproved": False,
        "serves": True,
        "endpoint": ENDPOINT,
        "planned": ENDPOINT,
        "start_s": 120.0,
        "limit_s": 1800.0,
    }
    return Replica(name, **facts | changes)


MOVED = {"found": {"h": "new"}}


@pytest.mark.parametrize(
    ("replicas", "gateway", "expected"),
    [
        # requests wait also where the other one is lost meanwhile
        ([replica("b"), replica("a")], True, [("a", ["b"], 0, "a"), ("b", ["a"], 0, "a")]),
        ([replica("a")], True, [("a", [], 120, "a")]),
        ([replica("a")], False, [("a", [], 120, None)]),
        ([replica("a", start_s=None)], True, [("a", [], None, "a")]),
        # what does not serve moves first, and serves while the others move
        ([replica("a"), replica("b", serves=False)], True, [("b", ["a"], 0, None), ("a", ["b"], 0, "a")]),
        ([replica("a", serves=False)], True, [("a", [], 0, None)]),
        ([replica("a", **MOVED), replica("b")], True, [("b", ["a"], 0, "a")]),
        ([replica("a"), replica("b", serves=False, **MOVED)], True, [("a", [], 120, "a")]),
        ([replica("a", **MOVED)], True, []),
        # of a run that was cut off
        ([replica("a", **MOVED, unproved=True), replica("b")], True, [("a", ["b"], 0, "a"), ("b", ["a"], 0, "a")]),
        # a rank that a run left behind moves its group
        ([replica("a", hosts=["h", "w"], found={"h": "new", "w": "old"})], False, [("a", [], 120, None)]),
    ],
)
def test_in_which_order(replicas: list[Replica], gateway: bool, expected: list[Any]) -> None:
    found = steps(replicas, "a" if gateway else None)
    assert [(one.service, list(one.others), one.nobody_s, one.holds) for one in found] == expected


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=6))
def test_whoever_can_serve_does(drawn: list[tuple[bool, bool]]) -> None:
    """Each moves once, and nobody serves in one step at the most."""
    found = [
        replica(f"r{number}", serves=serves, **(MOVED if moved else {})) for number, (serves, moved) in enumerate(drawn)
    ]
    order = steps(found, "m")
    assert sorted(one.service for one in order) == sorted(one.service for one in found if one.moves)
    assert sum(one.nobody_s != 0 for one in order) <= 1


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({}, []),
        ({"found": {"a": None}}, ["rollout-new"]),
        ({"planned": {**ENDPOINT, "model": "n"}}, ["rollout-endpoint"]),
        ({"planned": {**ENDPOINT, "url": "http://127.0.0.1:8001"}, "found": {"a": "new"}}, []),
        ({"endpoint": None}, []),
    ],
)
def test_what_a_rollout_is_not_for(changes: dict[str, Any], rules: list[str]) -> None:
    assert [one.rule for one in obstacles([replica("a", **changes)])] == rules


PLAN = {
    "services": {
        "a": {"served_name": "m", "hosts": ["x"]},
        "b": {"served_name": "m", "hosts": ["y", "z"]},
        "c": {"served_name": "c", "hosts": ["x"]},
    }
}


@pytest.mark.parametrize(
    ("name", "found", "words"),
    [
        ("a", ["a", "b"], ""),
        ("m", ["a", "b"], ""),
        ("c", ["c"], ""),
        ("d", [], 'no service or model "d"'),
        ("", [], "not given"),
    ],
)
def test_replicas_are_found_by_service_or_model(name: str, found: list[str], words: str) -> None:
    services, problems = chosen(PLAN, name, ["x", "y", "z"])
    assert services == found
    assert [one.found for one in problems] == ([words] if words else [])


def test_a_run_is_about_all_hosts_of_its_services() -> None:
    assert [one.sentence() for one in chosen(PLAN, "a", ["x", "z"])[1]] == [
        "fleet_services.b: this run leaves out y; expected all hosts of the services that share the model's requests; "
        "name them in -l, too, or leave it out [rollout-limit]"
    ]
    assert chosen(PLAN, "c", ["x"])[1] == []


def test_a_group_is_one_replica_of_its_model() -> None:
    """By the plan and by what the hosts of it say: a rank that a run left behind moves its whole group."""
    workload = {"max_model_len": 2048, "max_num_seqs": 8, "pool": 16512}
    tiny = {"recipe": "lab-tiny", "port": 8000, "served_name": "tiny", "workload": workload}
    pair = {**tiny, "hosts": ["spark-2", "spark-3"]}
    plan = planned(fleet_services={"solo": {**tiny, "hosts": ["titan"]}, "pair": pair})

    def read(host: str, name: str, **other: Any) -> dict[str, Any]:
        service = next(one for one in plan["hosts"][host]["services"] if one["name"] == name)
        endpoint = json.loads(service["files"][service["rank_file"]]["content"])["endpoint"]
        facts = {"service": name, "definition": service["definition"], "endpoint": endpoint, "unproved": False}
        return {**facts, "supervisor": {"ready_s": 90.0}, "health": "serving", **other}

    ranks = {
        "titan": [read("titan", "solo")],
        "spark-2": [read("spark-2", "pair")],
        "spark-3": [read("spark-3", "pair", definition="old")],
    }
    names, _problems = chosen(plan, "tiny", plan["hosts"])
    replicas = replicas_of(plan, names, ranks)
    assert [(one.service, one.hosts, one.moves, one.start_s) for one in replicas] == [
        ("pair", ["spark-2", "spark-3"], True, 90.0),
        ("solo", ["titan"], False, 90.0),
    ]
    assert list(obstacles(replicas)) == []
    [step] = steps(replicas, "pair")
    assert (step.service, step.hosts, step.others) == ("pair", ("spark-2", "spark-3"), ("solo",))
    # a host that could not be read
    assert [one.rule for one in obstacles(replicas_of(plan, names, {**ranks, "titan": []}))] == ["rollout-new"]


def test_how_long_nobody_serves_is_on_the_page() -> None:
    alone = [replica("a"), replica("b", serves=False, **MOVED)]
    assert page(alone, steps(alone, "a")).splitlines() == [
        "b: goes by the plan already",
        "1. a on host-a: nobody serves for about 120 s, and requests wait at the gateway",
        "each lets its answers end first, and must prove itself before the next moves; if not, it goes back",
    ]
    unknown = [replica("a", start_s=None)]
    assert "nobody serves for at most 1800 s, and requests are refused" in page(unknown, steps(unknown, None))
    assert page([replica("a", **MOVED)], []) == "a: goes by the plan already\nnothing moves"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([], [9.0], ""),
        ([1.0], [], ""),
        ([1.0, 9.0], [1.3], ""),
        ([1.0], [1.5], "it answers at 67% of the old one's speed (1.50 s instead of 1.00 s for the same request)"),
        ([0.01], [0.2], ""),
        ([3.0], [1.0], ""),
    ],
)
def test_who_is_slower(before: list[float], after: list[float], words: str) -> None:
    found = slower(before, after, 0.7)
    assert found.startswith(words) and bool(found) is bool(words)


def test_seconds_are_those_that_were_measured() -> None:
    asked = {"service": "chat", "seconds": 1.2}
    results = {"changed": False, "results": [asked, {**asked, "seconds": 1.1}, {"skipped": True}]}
    assert answer_seconds(results) == {"chat": [1.2, 1.1]}
    # what a host kept, and a service of any name
    assert answer_seconds({"results": [1.0]}) == {"results": [1.0]}
    assert answer_seconds({"results": [], "changed": False}) == answer_seconds({}) == {}


def test_whose_requests_wait() -> None:
    assert holds_of("0x55 chat a-rollout\n0x56 coder since=1\n\n") == {"chat": "a-rollout", "coder": "since=1"}
    assert holds_of("\n") == {}
    with pytest.raises(ValueError, match="Unknown map identifier"):
        holds_of("Unknown map identifier. Please use #<id> or <file>.\n")


class StopError(Exception):
    pass


def test_what_can_not_be_kept_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No room, in the middle of it: half a way back is none, and the sentence has the path and what helps."""
    for name in ("SERVICES", "UNITS", "SECRETS", "OVERLAYS"):
        monkeypatch.setattr(service_way_back.layout, name, str(tmp_path / name))
        (tmp_path / name).mkdir()
    (tmp_path / "SERVICES/a.json").write_text("old")
    (tmp_path / "SECRETS/a.key").write_text("k3y")
    written: list[int] = []

    def full(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class Module:
        check_mode = False

        def __init__(self, **_options: Any) -> None:
            self.params = {"service": "a", "files": [], "image": "img:1", "state": "kept"}

        def fail_json(self, msg: str) -> None:
            raise StopError(msg)

    monkeypatch.setattr(service_way_back, "AnsibleModule", Module)
    monkeypatch.setattr(os, "fsync", full)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StopError, match=f"nothing was changed: {tmp_path}.*No space left on device.*make room there"):
        service_way_back.main()
    assert len(written) == 2 and sorted(path for path in tmp_path.rglob("*") if path.is_file()) == [
        path for path in before if path.is_file()
    ]


def test_what_is_kept_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the old one with their modes, and what the new one brought goes."""
    for name in ("SERVICES", "UNITS", "SECRETS", "OVERLAYS"):
        monkeypatch.setattr(service_way_back.layout, name, str(tmp_path / name))
        (tmp_path / name).mkdir()
    old, key, new = tmp_path / "SERVICES/a.json", tmp_path / "SECRETS/a.key", tmp_path / "new"
    old.write_text("old")
    key.write_text("k3y")
    key.chmod(0o600)
    commands: list[list[str]] = []
    results: list[dict[str, Any]] = []

    class Module:
        check_mode = False

        def __init__(self, **_options: Any) -> None:
            self.params = {"service": "a", "files": list(map(str, files)), "image": "img:1", "state": state}

        def run_command(self, words: list[str], **_options: Any) -> tuple[int, str, str]:
            commands.append(words)
            return 0, "sha256:0\n", ""

        def exit_json(self, **found: Any) -> None:
            results.append(found)

        def fail_json(self, msg: str) -> None:
            raise StopError(msg)

    monkeypatch.setattr(service_way_back, "AnsibleModule", Module)
    state, files = "kept", [new]
    service_way_back.main()
    old.write_text("new")
    key.write_text("an0ther")
    new.write_text("new")
    service_way_back.main()  # of a run that was cut off: what is there now is no way back
    # another trial, which will write a file more that was there, and one that was not
    state, files = "rewound", [new, other := tmp_path / "other", later := tmp_path / "later"]
    other.write_text("old")
    service_way_back.main()
    assert (old.read_text(), key.read_text(), new.exists(), other.read_text()) == ("old", "k3y", False, "old")
    for path in (old, other, later):
        path.write_text("newer")
    state, files = "restored", []
    service_way_back.main()
    assert (other.read_text(), later.exists()) == ("old", False)
    assert (old.read_text(), key.read_text(), key.stat().st_mode & 0o777, new.exists()) == ("old", "k3y", 0o600, False)
    assert ["docker", "tag", "sha256:0", "img:1"] in commands
    assert [found["changed"] for found in results] == [True, False, True, True]
    assert "k3y" not in json.dumps(results)
    with pytest.raises(StopError, match="keeps nothing of a"):
        service_way_back.main()
    state = "absent"
    service_way_back.main()
    assert results[-1]["changed"] is False
