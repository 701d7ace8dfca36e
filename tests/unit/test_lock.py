# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock: its form, who may write it, which hosts it refuses; its file; and that Ansible never reads it as hosts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._stores.lock.file import NAME, read, update
from ansible_collections.gb10.fleet.plugins.module_utils._stores.lock.lock import (
    EMPTY,
    MOST_BYTES,
    Lock,
    anchored,
    dump,
    key,
    parse,
    settle,
    unknown_name,
)
from hypothesis import given, settings
from hypothesis import strategies as st

A, B, C = ("sha256:" + letter * 64 for letter in "abc")
R, S = "1" * 40, "2" * 64
IMAGE = {"digest": A, "identity": B}
MODEL = {"revision": R, "seal": S}
LOCK: Lock = {"images": {"demo:1": IMAGE, f"demo:1@{A}": IMAGE}, "models": {"org/tiny": MODEL}}
TEXT = dump(LOCK)


def wanted(reference: str = "demo:1", *, peers: bool = False, **more: Any) -> dict[str, Any]:
    source = {"kind": "registry"}
    host = [{"host": "titan", "address": "10.0.0.1", "port": 22}] if peers else []
    return {
        "reference": reference,
        "digest": None,
        "source": source,
        "lock": None,
        "renew": False,
        "peers": host,
    } | more


def model(**more: Any) -> dict[str, Any]:
    plain = {"repository": "org/tiny", "revision": None, "source": {"kind": "hub"}, "lock": None, "peers": []}
    return plain | more


def test_the_file_is_sorted_and_has_a_key_a_line() -> None:
    assert parse(TEXT.encode(), "x") == LOCK
    assert dump(parse(TEXT.encode(), "x")) == TEXT
    assert TEXT.endswith("}\n")
    one_more = {**LOCK, "images": {**LOCK["images"], "another:2": IMAGE}}
    added = set(dump(one_more).splitlines()) - set(TEXT.splitlines())
    assert added == {'    "another:2": {'}


# (what is wrong, the file, the line that is named)
DAMAGED = [
    ("cut off", TEXT[:100], 4),
    ("empty", "", 1),
    ("conflict markers", TEXT.replace('  "models": {', '<<<<<<< HEAD\n  "models": {'), 12),
    ("a word for a map", "null", 1),
    ("a list", "[]", 1),
    ("no version", TEXT.replace('  "version": 1', '  "other": 1'), 18),
    ("another version", TEXT.replace('"version": 1', '"version": 2'), 18),
    ("no models", '{"images": {}, "version": 1}', 1),
    ("a short seal", TEXT.replace(S, "2" * 63), 15),
    ("a seal in capitals", TEXT.replace(S, "A" * 64), 15),
    ("a number for a digest", TEXT.replace(f'"digest": "{A}"', '"digest": 5', 1), 4),
    ("a map for an identity", TEXT.replace(f'"identity": "{B}"', '"identity": {}', 1), 5),
    ("no identity", TEXT.replace(f',\n      "identity": "{B}"', "", 1), 3),
    ("an unknown key", TEXT.replace('"digest"', '"digset"', 1), 4),
    ("a name of shell", TEXT.replace('"org/tiny"', '"org/$(id)"'), 13),
    ("a name twice", TEXT.replace('"org/tiny": {', '"org/tiny": {"revision": null},\n"org/tiny": {'), 14),
    ("a key twice", TEXT.replace(f'"seal": "{S}"', f'"seal": "{S}", "seal": "{S}"'), 15),
    ("an entry that is null", TEXT.replace('{\n      "revision"', 'null, "x/y": {\n "revision"'), 13),
    ("not UTF-8", TEXT.encode() + b"\xff", 20),
    ("NaN", TEXT.replace('"version": 1', '"version": NaN'), 18),
    ("a number of 5000 digits", TEXT.replace('"version": 1', '"version": ' + "1" * 5000), 1),
    ("100,000 brackets", "[" * 100_000, 1),
    ("too large", " " * (MOST_BYTES + 1), 1),
    (
        "many names",
        '{"models": {}, "version": 1, "images": {' + ",".join(f'"a:{n}":0' for n in range(10_001)) + "}}",
        1,
    ),
]


@pytest.mark.parametrize(("what", "text", "line"), DAMAGED, ids=[case[0] for case in DAMAGED])
def test_a_damaged_lock_is_refused_with_its_line_and_left_as_it_is(
    what: str, text: str | bytes, line: int, tmp_path: Path
) -> None:
    file = tmp_path / NAME
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = file.read_bytes()
    for use in (lambda: read(file), lambda: update(file, lambda lock: lock, write=True)):
        with pytest.raises(FleetError) as refused:
            use()
        [finding] = refused.value.findings
        assert finding.rule == "lock-damaged"
        assert finding.place == f"{file}, line {line}"
        assert len(finding.sentence()) < 1000
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=70) | st.sampled_from([A, B, R, S, "images", "seal"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, max_examples=300)
@given(
    st.binary(max_size=300)
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.integers(0, len(TEXT)).flatmap(
        lambda at: st.binary(max_size=4).map(
            lambda noise: TEXT.encode()[:at] + noise + TEXT.encode()[at + len(noise) :]
        )
    )
)
def test_whatever_the_file_holds_it_is_a_lock_or_refused(content: bytes) -> None:
    try:
        lock = parse(content, "x")
    except FleetError:
        return
    assert parse(dump(lock).encode(), "x") == lock


# (entries by host, what hosts report, what is locked then, who is refused by which rule)
ORIGIN, READER = wanted(), wanted(peers=True)
HAS_B, HAS_C = ({"lock": {"digest": None, "identity": one}} for one in (B, C))
SETTLED: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, str | None], dict[str, str]]] = [
    ("the host that brought it counts", {"spark": READER, "titan": ORIGIN}, {"spark": HAS_C, "titan": HAS_B},
     {"demo:1": B}, {"spark": "lock-differs"}),
    ("whatever its name", {"a": ORIGIN, "z": READER}, {"a": HAS_B, "z": HAS_C}, {"demo:1": B}, {"z": "lock-differs"}),
    ("all the same", {"a": ORIGIN, "b": READER}, {"a": HAS_B, "b": HAS_B}, {"demo:1": B}, {}),
    ("readers that agree", {"a": READER, "b": READER}, {"a": HAS_C, "b": HAS_C}, {"demo:1": C}, {}),
    ("readers that differ", {"a": READER, "b": READER}, {"a": HAS_B, "b": HAS_C}, {},
     {"a": "lock-hosts-differ", "b": "lock-hosts-differ"}),
    ("two archives that differ", {"a": ORIGIN, "b": ORIGIN}, {"a": HAS_B, "b": HAS_C}, {},
     {"a": "lock-hosts-differ", "b": "lock-hosts-differ"}),
    ("locked already", {"a": wanted(lock=IMAGE)}, {"a": HAS_C}, {"demo:1": B}, {"a": "lock-differs"}),
    ("the recipe says it", {"a": wanted(lock={"digest": None, "identity": C})}, {"a": HAS_C}, {"demo:1": C}, {}),
    ("not there yet", {"a": ORIGIN}, {"a": {"reference": "demo:1"}}, {}, {}),
    ("a host without an answer", {"a": ORIGIN, "b": READER}, {"b": HAS_B}, {"demo:1": B}, {}),
    ("a host that nobody asked", {"a": ORIGIN}, {"a": HAS_B, "evil": HAS_C}, {"demo:1": B}, {}),
    *[
        (f"an answer that is {what}", {"a": READER, "z": ORIGIN}, {"a": answer, "z": HAS_B}, {"demo:1": B},
         {"a": rule})
        for what, answer, rule in [
            ("text", {"lock": "x"}, "schema-type"),
            ("a list", {"lock": []}, "schema-type"),
            ("without identity", {"lock": {"digest": None}}, "schema-required"),
            ("with more", {"lock": {**IMAGE, "x": 1}}, "schema-unknown-key"),
            ("of a short identity", {"lock": {**IMAGE, "identity": "sha256:0"}}, "schema-pattern"),
            ("a path", {"lock": {**IMAGE, "identity": "../../etc/x"}}, "schema-pattern"),
            ("a number", {"lock": {**IMAGE, "identity": 1}}, "schema-type"),
            ("of two lines", {"lock": {**IMAGE, "identity": B + "\n"}}, "schema-pattern"),
            ("a digest that is none", {"lock": {"digest": "latest", "identity": B}}, "schema-pattern"),
        ]
    ],
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "entries", "reports", "locked", "refused"), SETTLED, ids=[case[0] for case in SETTLED]
)
def test_who_brought_it_decides_what_it_is_and_others_are_compared(
    what: str, entries: dict[str, Any], reports: dict[str, Any], locked: dict[str, str], refused: dict[str, str]
) -> None:
    by_host = {"images": {host: [entry] for host, entry in entries.items()}, "models": {}}
    settled = settle(EMPTY, by_host, {"images": {host: [answer] for host, answer in reports.items()}})
    assert {name: value["identity"] for name, value in settled.lock["images"].items()} == locked
    assert {host: findings[0].rule for host, findings in settled.refused.items()} == refused
    assert parse(dump(settled.lock).encode(), "x") == settled.lock


@pytest.mark.parametrize("answer", [None, 5, "x", {}, [], [HAS_B, HAS_B], [None], [[]], {"a": HAS_B}])
def test_an_answer_of_another_form_refuses_that_host_alone(answer: Any) -> None:
    entries = {"images": {"a": [READER], "z": [ORIGIN]}, "models": {}}
    settled = settle(EMPTY, entries, {"images": {"a": answer, "z": [HAS_B]}})
    assert settled.lock["images"] == {"demo:1": {"digest": None, "identity": B}}
    assert [*settled.refused] == ["a"]


@settings(deadline=None, max_examples=200)
@given(JSON, JSON)
def test_whatever_a_host_reports_the_others_are_locked(answer: Any, of_models: Any) -> None:
    entries = {"images": {"evil": [READER], "titan": [ORIGIN]}, "models": {"evil": [model()], "titan": []}}
    settled = settle(EMPTY, entries, {"images": {"evil": answer, "titan": [HAS_B]}, "models": {"evil": of_models}})
    assert settled.lock["images"] == {"demo:1": {"digest": None, "identity": B}}
    assert "titan" not in settled.refused


def test_relock_takes_the_new_one_and_leaves_all_others() -> None:
    entries = {"images": {"a": [wanted(), wanted("other:1")]}, "models": {"a": [model()]}}
    lock = {**LOCK, "images": {**LOCK["images"], "other:1": IMAGE}}
    reported = {"images": {"a": [HAS_C, HAS_C]}, "models": {"a": [{"lock": {**MODEL, "seal": "3" * 64}}]}}
    settled = settle(lock, entries, reported, relock="demo:1")
    assert settled.lock == {**lock, "images": {**lock["images"], "demo:1": HAS_C["lock"]}}
    assert [finding.place for finding in settled.refused["a"]] == ["other:1", "org/tiny"]


def test_hosts_that_differ_are_let_be_once_all_have_the_same() -> None:
    """Nobody knows who is right, so that nothing is locked before."""
    entries = {"images": {"a": [wanted()], "b": [wanted()]}, "models": {}}
    differ = settle(EMPTY, entries, {"images": {"a": [HAS_B], "b": [HAS_C]}})
    assert {finding.rule for found in differ.refused.values() for finding in found} == {"lock-hosts-differ"}
    assert differ.lock == EMPTY and {*differ.refused} == {"a", "b"}
    same = settle(EMPTY, entries, {"images": {"a": [HAS_C], "b": [HAS_C]}})
    assert same.refused == {} and same.lock["images"] == {"demo:1": HAS_C["lock"]}


# (entry, relock, what it is known by then, is it renewed, the rule of a problem)
ANCHORED: list[tuple[str, str, dict[str, Any], str, Any, bool, list[str]]] = [
    ("nothing known", "images", wanted("new:1"), "", None, False, []),
    ("locked", "images", wanted(), "", IMAGE, False, []),
    ("locked by its pin", "images", wanted(digest=A), "", IMAGE, False, []),
    ("another pin", "images", wanted(digest=C), "", None, False, []),
    ("relocked", "images", wanted(), "demo:1", None, True, []),
    ("relocked with a pin", "images", wanted(digest=A), "demo:1", None, False, []),
    ("an archive relocked", "images", wanted(source={"kind": "archive"}), "demo:1", None, False, []),
    ("from a host, relocked", "images", wanted(source={"kind": "host"}), "demo:1", None, True, []),
    ("another relocked", "images", wanted(), "other:1", IMAGE, False, []),
    ("the recipe agrees", "images", wanted(known=IMAGE), "", IMAGE, False, []),
    ("the recipe differs", "images", wanted(known={**IMAGE, "identity": C}), "", {**IMAGE, "identity": C}, False,
     ["lock-recipe-differs"]),
    ("the recipe differs, relocked", "images", wanted(known={**IMAGE, "identity": C}), "demo:1",
     {**IMAGE, "identity": C}, True, []),
    ("a model", "models", model(), "", MODEL, False, []),
    ("a model's folder, relocked", "models", model(source={"kind": "path"}), "org/tiny", None, False, []),
    ("a seal without a revision", "models", model(known={"revision": None, "seal": S}), "", MODEL, False,
     ["lock-recipe-unpinned"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "kind", "entry", "relock", "lock", "renew", "rules"), ANCHORED, ids=[case[0] for case in ANCHORED]
)
def test_what_an_entry_of_the_plan_is_known_by(
    what: str, kind: str, entry: dict[str, Any], relock: str, lock: Any, renew: bool, rules: list[str]
) -> None:
    found, problems = anchored(kind, {"known": None, **entry}, LOCK, relock)
    assert (found["lock"], found["renew"], [problem.rule for problem in problems]) == (lock, renew, rules)
    assert "known" not in found


def test_a_name_that_nothing_has_is_refused_with_one_that_it_could_mean() -> None:
    entries = {"images": {"a": [wanted()]}, "models": {"a": [model()]}}
    assert [problem.remedy for problem in unknown_name("org/tinny", entries)] == ['write "org/tiny"']
    assert not [problem for name in ("", "demo:1", "org/tiny") for problem in unknown_name(name, entries)]
    assert key("images", wanted(digest=A)) == f"demo:1@{A}"


def test_concurrent_runs_lose_no_entry(tmp_path: Path) -> None:
    file = tmp_path / NAME

    def add(number: int) -> None:
        update(file, lambda lock: {**lock, "images": {**lock["images"], f"demo:{number}": IMAGE}}, write=True)

    with ThreadPoolExecutor(8) as pool:
        [*pool.map(add, range(40))]
    assert len(read(file)["images"]) == 40
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_the_first_lock_is_written_where_no_folder_is_yet(tmp_path: Path) -> None:
    file = tmp_path / "fleet" / "new" / NAME
    for _ in range(2):
        update(file, lambda _: LOCK, write=True)
    assert read(file) == LOCK


@pytest.mark.parametrize("part", ["version", "images", "models"])
def test_a_lock_without_one_of_its_parts_is_damaged(part: str) -> None:
    """A file that says nothing of images would let any image in."""
    whole = json.loads(TEXT)
    del whole[part]
    with pytest.raises(FleetError, match=part):
        parse(json.dumps(whole).encode(), "x")


def test_in_check_mode_nothing_is_written(tmp_path: Path) -> None:
    before, after = update(tmp_path / "none" / NAME, lambda _: LOCK, write=False)
    assert (before, after) == ("", TEXT)
    assert not [*tmp_path.iterdir()]


CONFIGURATIONS = {
    "defaults": "",
    "own patterns": "[inventory]\nignore_patterns = ^x$\nignore_extensions = .bak\n",
    "every plugin": "[inventory]\nenable_plugins = yaml, ini, toml, host_list, script, auto, constructed\n"
    "ignore_extensions = .x\n",
}


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_ansible_never_takes_it_for_hosts(configuration: str, tmp_path: Path) -> None:
    """``-i FOLDER`` reads every file in there that isn't hidden."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "hosts.yml").write_text("all: {hosts: {titan: {}}}\n")
    (folder / NAME).write_text(TEXT)
    (tmp_path / "ansible.cfg").write_text(CONFIGURATIONS[configuration])
    program = Path(sys.executable).parent / "ansible-inventory"
    environment = {**os.environ, "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")}
    done = subprocess.run(
        [program, "-i", folder, "--list"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert [name for group in found.values() for name in group.get("hosts", ())] == ["titan"]
    assert "fleet.lock" not in done.stderr


def test_a_folder_in_the_place_of_the_lock_is_refused_with_a_remedy_that_helps(tmp_path: Path) -> None:
    (tmp_path / ".fleet.lock").mkdir()
    with pytest.raises(FleetError) as refused:
        read(tmp_path / ".fleet.lock")
    [finding] = refused.value.findings
    subprocess.run(["sh", "-c", re.search(r"mv \S+ [^:\s]+", finding.remedy)[0]], check=True)  # type: ignore[index]
    assert read(tmp_path / ".fleet.lock") == EMPTY
