# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes and observations that would take too much memory or time, or are something else than they should be."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.yaml_text import read_yaml, written_twice
from ansible_collections.gb10.fleet.plugins.module_utils._engines.observed import require_observed
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers import server
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
RECORD = {"service": "nano", "booted": "2026-11-20", "requested_bytes": 1, "log": {"weights_gib": 17.7}}
EMPTY: dict[str, Any] = {"options": [], "registries": {}, "releases": ["0.32.0"], "variables": []}
CATALOGUE = {"version": "0.32.0", "catalogue": EMPTY}

YAMLS = {
    "aliases of aliases": BOMB,
    "aliases of maps": BOMB.replace("[x, x]", "{x: 1, y: 2}"),
    "aliases as values of maps": "a: &a {x: 1}\n"
    + "".join(f"b{n}: &b{n} {{p: {p}, q: {p}, r: {p}}}\n" for n in range(20) for p in [f"*b{n - 1}" if n else "*a"]),
    "a list that holds itself": "a: &a [*a]",
    "a map that holds itself": "a: &a {b: *a}",
    "an alias of nothing": "a: *b",
    "2,000 brackets": "[" * 2_000,
    "500,000 brackets, each closed": "[" * 500_000 + "]" * 500_000,
    "lists of lists by lines": "".join(f"{' ' * n}-\n" for n in range(1, 300)),
    "2,000 braces": "{a: " * 2_000,
    "20 MB of text": "x" * (20 << 20),
    "a Python object": "!!python/object/apply:os.system [id]",
    "a Python name": "a: !!python/name:os.system",
    "an unknown tag": "a: !vault 1",
    "two documents": "a: 1\n---\nb: 2",
    "a key twice": "a: 1\na: 2",
    "a key that is a list": "? [a]\n: 1",
    "a NUL": "a: \0",
    "an escape sequence": "a: \x1b[2J",
    "a tab for indentation": "a:\n\tb: 1",
    "an open quote": 'a: "b',
    "an open map": "a: {b: 1",
}


@pytest.mark.parametrize("text", YAMLS.values(), ids=YAMLS)
def test_a_hostile_yaml_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        read_yaml(text)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("text", YAMLS.values(), ids=YAMLS)
def test_keys_written_twice_are_looked_for_in_any_text(text: str) -> None:
    assert len(written_twice(text)) == ("a: 1\na: 2" in text)


@settings(deadline=None, max_examples=200)
@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(["&a ", "*a", "[", "]", "{", "}", ": ", ", ", "- ", "\n", "x"])).map("".join)
)
def test_any_text_is_data_or_refused(text: str) -> None:
    try:
        found = read_yaml(text)
    except ValueError as refused:
        assert "\n" not in str(refused)
    else:
        assert len(repr(found)) < 1 << 20


def test_a_text_reads_the_same_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = [path.read_text("utf-8") for path in sorted((ROOT / "recipes").glob("*.yml"))]
    fast = [read_yaml(text) for text in shipped]
    monkeypatch.delattr("yaml.CSafeLoader", raising=False)
    assert [read_yaml(text) for text in shipped] == fast


def test_a_recipe_that_is_a_bomb_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "bomb.yml").write_text(BOMB)
    (tmp_path / "other.yml").write_text("name: other\n")
    _library, findings = load_all([tmp_path])
    assert any("bomb.yml" in finding.place and "aliases" in finding.sentence() for finding in findings)
    assert any("other.yml" in finding.place for finding in findings)


def test_a_recipes_file_is_read_in_bounds(tmp_path: Path) -> None:
    """Else one of some GB takes the controller's memory, and a pipe holds every plan for ever."""
    for name in ("large.yml", "configs/large.json", "overlays/large.jinja"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b'{"x": "' + b"y" * (5 << 20) + b'"}')
    os.mkfifo(tmp_path / "pipe.yml")
    library, findings = load_all([tmp_path])
    of_config = library.config("large", "p")
    of_overlay = library.overlay({"file": "large.jinja", "sha256": None}, "p")
    assert (of_config[0], of_overlay[0]) == (None, None)
    sentences = [finding.sentence() for finding in (*findings, *of_config[1], *of_overlay[1])]
    for words in ("large.yml", "pipe.yml", "large.json", "large.jinja"):
        assert [words in text and ("more than" in text or "no regular" in text) for text in sentences].count(True) == 1


SPEED_RUN: dict[str, Any] = {
    "at": "2026-11-21T03:00:00Z",
    "points": [{"requests": 1, "prompt": 512, "answer": 64, "decode": [70.0, 71.0]}],
}
SPEED_RECORD = {"service": "qwen", "runs": [SPEED_RUN]}
HOSTILE: dict[str, tuple[str, Any]] = {
    "hosts of an inventory": ("boot", {"all": {"hosts": {"beast": {"ansible_connection": "local"}}}}),
    "hosts in a catalogue": ("catalogue", {"all": {"hosts": {}}, "catalogue": {}}),
    "text": ("boot", "x"),
    "a list": ("boot", [RECORD]),
    "nothing": ("boot", {}),
    "a template for a service": ("boot", {**RECORD, "service": {"a": "{{ lookup('pipe', 'id') }}"}}),
    "one key more": ("boot", {**RECORD, "ansible_connection": "local"}),
    "a negative size": ("boot", {**RECORD, "requested_bytes": -1}),
    "true for a size": ("boot", {**RECORD, "requested_bytes": True}),
    "text for a weight": ("boot", {**RECORD, "log": {"weights_gib": "much"}}),
    "not a number": ("boot", {**RECORD, "log": {"weights_gib": float("nan")}}),
    "without end": ("boot", {**RECORD, "log": {"weights_gib": float("inf")}}),
    "another log": ("boot", {**RECORD, "log": {"weights": 1}}),
    "no catalogue": ("catalogue", {"version": "0.32.0"}),
    "a catalogue of text": ("catalogue", {"version": "0.32.0", "catalogue": "x"}),
    "2 MB": ("catalogue", {**CATALOGUE, "catalogue": {"x": "y" * (2 << 20)}}),
    "100,000 names": ("catalogue", {**CATALOGUE, "catalogue": {f"name {n}": n for n in range(100_000)}}),
    "a rate of nothing": ("speed", {"service": "a", "runs": [{"at": "2026-11-21T03:00:00Z", "points": []}]}),
    "a rate without end": ("speed", {**SPEED_RECORD, "runs": [{**SPEED_RUN, "clock_mhz": float("inf")}]}),
    "three runs": ("speed", {**SPEED_RECORD, "runs": [SPEED_RUN] * 3}),
    "no time": ("speed", {**SPEED_RECORD, "runs": [{**SPEED_RUN, "at": "{{ 1 }}"}]}),
    "a version of 2 MB": ("catalogue", {**CATALOGUE, "version": "1" * (2 << 20)}),
}


@pytest.mark.parametrize(("kind", "content"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_observation_is_not_written_on_the_controller(kind: str, content: Any) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        require_observed(kind, content)
    assert len(str(refused.value)) < 1000


def test_an_observation_is_taken() -> None:
    require_observed("boot", RECORD)
    require_observed("catalogue", CATALOGUE)
    require_observed("speed", SPEED_RECORD)


@settings(deadline=None, max_examples=100)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
        max_leaves=8,
    )
)
def test_any_observation_is_one_or_refused(content: Any) -> None:
    for kind in ("boot", "catalogue", "speed"):
        try:
            require_observed(kind, content)
        except ValueError:
            continue
        assert isinstance(json.dumps(content), str)


def test_only_so_many_are_served_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may take 512 MiB: what they take in all has a bound, and who has to wait is answered."""
    monkeypatch.setattr(server, "_CONNECTIONS", 2)
    with server.slot(tmp_path / "peers", 0) as first, server.slot(tmp_path / "peers", 0) as second:
        assert (first, second) == (True, True)
        with server.slot(tmp_path / "peers", 0) as third:
            assert not third
    with server.slot(tmp_path / "peers", 0) as again:
        assert again
    assert (tmp_path / "peers").stat().st_mode & 0o777 == 0o700
