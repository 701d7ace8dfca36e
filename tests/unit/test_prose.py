# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of prose finds each habit of docs/style.md, leaves plain sentences, and lets no page get worse."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import gates
import prose

KNOWN = "client\nhost\nplan"
LONG = " ".join(["ab"] * 36) + "."
AT_MOST = " ".join(["Ab"] * 35) + "."


def measures(text: str) -> list[str]:
    return [place.measure for place in prose.examine(text, KNOWN).places]


@pytest.mark.parametrize(
    ("habit", "found", "plain"),
    [
        ("noun clause", "What a host has is read.", "The plan reads the state of a host."),
        ("noun clause", "It is judged by what the role knows.", "What does a run cost?"),
        ("preposition + which", "The name by which it is known.", "The name that identifies it."),
        ("preposition + which", "A host over which data goes.", "A host which sends data."),
        ("one for a noun", "Take the new ones.", "Take one of the hosts."),
        ("one for a noun", "A file of its own is written.", "This one of four hosts is written."),
        ("missing verb", "The port is open, and so are the others.", "It is open, so that clients reach it."),
        ("missing verb", "Give a name; otherwise the run stops.", "Otherwise the run stops."),
        ("has to, is to", "The key has to be there.", "The key has two parts."),
        ("has to, is to", "The key is to be given.", "The next step is to the left."),
        ("alone, anew, besides", "The host starts anew.", "The host starts again."),
        ("alone, anew, besides", "Others read it, too.", "It is too large, and reads it as well as others."),
        ("person for a thing", "Ask whoever has the key.", "A client with the key is root."),
        ("person for a thing", "A host, who fails, stops.", "A host that fails stops."),
    ],
)
def test_a_habit_is_found_and_its_cure_is_not(habit: str, found: str, plain: str) -> None:
    assert measures(found) == [habit]
    assert measures(plain) == []


def test_each_habit_has_a_row_in_the_style_sheet() -> None:
    rows = (prose.ROOT / "docs" / "style.md").read_text("utf-8").partition("| habit |")[2].partition("\n\n")[0]
    assert len(rows.splitlines()) - 2 == len(prose.HABITS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LONG, ["long"]),
        (AT_MOST, []),
        (f"{AT_MOST}\n{AT_MOST}", []),
        ("* " + LONG.replace(" ", "\n  ", 5), ["long"]),
        (f"```\n{LONG}\n```", []),
        (f"1. Text:\n\n   ```\n   {'x ' * 70}\n   ```", []),
        (f"# {LONG}", []),
        (f"`{LONG}` is code.", []),
        (f"| {' '.join(['word'] * 41)} |", ["long", "cells"]),
        (f"| {' '.join(['word'] * 20)}. {' '.join(['Word'] * 21)} |", ["cells"]),
        (f"| {' '.join(['word'] * 20)} | {' '.join(['word'] * 20)} |", []),
        (f"{'x' * 121} y", ["lines"]),
        (f"| {'x' * 121} |", []),
        ("The canary answers. A canary is late.", ["terms"]),
        ("Canaries and plans: the `canary` is code.", []),
        ("Drains start.", ["terms"]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_measure_is_found(text: str, expected: list[str]) -> None:
    assert sorted(measures(text)) == sorted(expected)


def test_figures_of_a_page() -> None:
    page = prose.examine("One two three four.\nFive six.\n\nSeven eight nine: [ten](a.md) and https://b.c/d.\n", KNOWN)
    assert page.sentences == [4, 6]
    assert page.words == 12
    assert page.figures() == {"mean": 5.0, "long": 0, "cells": 0, "lines": 0, "terms": 0, "habits": 0.0}


def test_a_place_has_its_line() -> None:
    (place,) = prose.examine("Good.\n\n```\ncode\n```\n\nThe key has to\nbe there.\n", KNOWN).places
    assert (place.line, place.words) == (7, "has to")


def test_the_words_of_findings_are_prose_and_their_values_code(tmp_path: Path) -> None:
    rows = {"busy": {"found": "the port that {name} alone has", "expected": "none", "source": "by which it is said"}}
    (tmp_path / "findings.yml").write_text(yaml.safe_dump(rows))
    text = prose.text_of(tmp_path / "findings.yml")
    assert text == "the port that `value` alone has\n\nnone"
    assert [place.words for place in prose.examine(text, KNOWN).places] == ["alone"]


GOOD = dict(prose.GOAL)


@pytest.mark.parametrize(
    ("rows", "pages", "expected"),
    [
        ({}, {"a.md": GOOD}, []),
        ({"a.md": {"mean": 20.0}}, {"a.md": {**GOOD, "mean": 20.0}}, []),
        ({"a.md": {"mean": 20.0}}, {"a.md": {**GOOD, "mean": 20.1}}, ["mean 20.1, at most 20"]),
        ({"a.md": {"mean": 20.0}}, {"a.md": {**GOOD, "mean": 20.0, "long": 1}}, ["long 1, at most 0"]),
        ({}, {"new.md": {**GOOD, "habits": 4.1}}, ["habits 4.1, at most 4"]),
        ({"a.md": {"mean": 20.0}}, {"a.md": {**GOOD, "mean": 19.9}}, ["better than its row; remedy: prose.py --renew"]),
        ({"a.md": {"mean": 20.0}}, {"a.md": GOOD}, ["better than its row"]),
        ({"gone.md": {"mean": 20.0}}, {"a.md": GOOD}, ["gone.md: has a row and is not there"]),
    ],
)
def test_a_page_is_held_to_its_row(
    rows: Mapping[str, Mapping[str, float]], pages: Mapping[str, Mapping[str, float]], expected: list[str]
) -> None:
    found = prose.problems(rows, pages)
    assert len(found) == len(expected)
    assert [words for words, line in zip(expected, found, strict=True) if words not in line] == []


def test_renewing_lowers_and_never_raises() -> None:
    rows = {"a.md": {"mean": 20.0, "long": 2}, "b.md": {"lines": 3}, "gone.md": {"mean": 17.0}}
    pages = {"a.md": {**GOOD, "mean": 18.0, "long": 5, "cells": 1}, "b.md": GOOD, "new.md": {**GOOD, "mean": 30.0}}
    assert prose.lowered(rows, pages) == {"a.md": {"mean": 18.0, "long": 2}}


def test_rows_are_read_as_they_are_written() -> None:
    rows = {"docs/b.md": {"mean": 20.5, "long": 2}, "a.md": {"habits": 4.1}}
    assert yaml.safe_load(prose.written(rows)) == rows
    assert yaml.safe_load(prose.written({})) == {}


def test_each_listed_term_is_in_the_glossary() -> None:
    known = prose.terms_in(prose.GLOSSARY.read_text("utf-8"))
    assert [term for term in prose.TERMS if not prose.has_term(term, known)] == []


def test_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(prose, "ROWS", tmp_path / "prose.yml")
    (tmp_path / "docs").mkdir()
    page, other = tmp_path / "README.md", tmp_path / "docs" / "other.md"
    page.write_text("The key has to be there.\n")
    other.write_text("Good.\n")
    (tmp_path / "prose.yml").write_text("README.md: {habits: 500}\ndocs/other.md: {long: 1}\n")
    assert prose.main(["-v", str(page)]) == 1
    assert "README.md:1: has to, is to: has to\n" in capsys.readouterr().out
    assert prose.main(["--renew", str(page)]) == 0
    assert prose.main([str(page)]) == 0
    assert prose.main([]) == 1, "the row of the other page was lowered without its name"
    assert prose.main(["--renew"]) == 0
    assert yaml.safe_load((tmp_path / "prose.yml").read_text()) == {"README.md": {"habits": 166.7}}


def test_the_gate_runs_it() -> None:
    assert (gates.PYTHON, "tests/tools/prose.py") in gates.PARTS["docs"].commands
