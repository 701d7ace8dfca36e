# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of findings are rows of data/findings.yml, and each call gives its row what the texts name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from string import Formatter

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base import worded
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import ROOT
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place

TEXTS = {"found", "expected", "remedy", "reason", "source"}


@dataclass(frozen=True)
class WordedCall:
    """A call that takes a row. row: its key, empty where the call does not write it out."""

    where: str
    row: str
    values: frozenset[str]

    def troubles(self, rows: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
        """What does not agree between the call and its row."""
        if self.row not in rows:
            yield f"{self.where}: no row {self.row!r} in data/findings.yml"
            return
        named = fields(rows[self.row])
        lacks = TEXTS - rows[self.row].keys()
        if missing := named - self.values:
            yield f"{self.where}: {self.row} names {sorted(missing)}, which the call does not give"
        if surplus := self.values - named - lacks:
            yield f"{self.where}: {self.row} names no {sorted(surplus)}"
        if "found" in lacks - self.values:
            yield f"{self.where}: neither the call nor {self.row} says what was found"


def fields(row: Mapping[str, str]) -> set[str]:
    """The values that the texts of a row name."""
    return {name for text in row.values() for _, name, _, _ in Formatter().parse(text) if name is not None}


def calls(text: str, file: str) -> Iterator[WordedCall]:
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        builder = node.func.body if isinstance(node.func, ast.IfExp) else node.func  # of one severity or another
        if not isinstance(builder, ast.Attribute):
            continue
        differs = builder.attr == "differs"
        if differs or ast.unparse(builder.value) == "worded":
            at = 1 if differs or builder.attr in ("finding", "catalogued") else 0
            row = node.args[at] if len(node.args) > at else None
            key = row.value if isinstance(row, ast.Constant) and isinstance(row.value, str) else ""
            given = {keyword.arg or "**" for keyword in node.keywords} - (
                {"service"} if differs else {"kind", "covers"}
            )
            yield WordedCall(f"{file}:{node.lineno}", key, frozenset(given))


@cache
def all_calls() -> list[WordedCall]:
    files = sorted((ROOT / "plugins").rglob("*.py"))
    return [call for file in files for call in calls(file.read_text("utf-8"), str(file.relative_to(ROOT)))]


def test_each_call_gives_what_its_row_names() -> None:
    assert len(all_calls()) > 250
    assert [trouble for call in all_calls() for trouble in call.troubles(worded.rows())] == []


def test_each_row_is_used() -> None:
    assert worded.rows().keys() - {call.row for call in all_calls()} == set()


@pytest.mark.parametrize(
    ("call", "trouble"),
    [
        ('worded.error("r", place, host=name)', None),
        ('worded.hint("r", place, host=name, kind="memory", remedy="go")', None),
        ('look.differs("error", "r", place, host=name, service="nano")', None),
        ('worded.error("r", place)', "which the call does not give"),
        ('worded.error("r", place, host=name, port=1)', "names no ['port']"),
        ('worded.error("r", place, host=name, expected="x")', "names no ['expected']"),
        ('worded.error("r", place, **words)', "which the call does not give"),
        ('worded.error("other", place)', "no row 'other'"),
        ("worded.error(rule, place)", "no row ''"),
        ('worded.error("bare", place)', "neither the call nor bare says"),
    ],
)
def test_a_call_that_does_not_agree_with_its_row_is_named(call: str, trouble: str | None) -> None:
    rows = {"r": {"found": "{host!r} is {{}}", "expected": "none"}, "bare": {"expected": "none"}}
    [found] = calls(call, "a.py")
    troubles = list(found.troubles(rows))
    assert trouble in troubles[0] if trouble else not troubles


def test_a_row_is_a_rule_and_its_texts() -> None:
    for key, row in worded.rows().items():
        assert row, key
        assert row.keys() <= TEXTS, key
        assert all(isinstance(text, str) and text.strip() for text in row.values()), key
        simple = {name.isidentifier() for name in fields(row)}
        assert simple <= {True}, f"{key}: a value in a text is a name alone"


def test_a_rule_has_one_row_or_one_for_each_place() -> None:
    keys = worded.rows().keys()
    assert [key for key in keys if "/" in key and worded.rule_of(key) in keys] == []


def test_the_texts_are_filled_and_the_rule_is_the_row_s(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"found": "{host} has {size:.1f} of {{all}}", "expected": "{expected} or more"}
    monkeypatch.setattr(worded, "rows", lambda: {"memory-low/here": row})
    found = worded.fabric_error("memory-low/here", "memory", host="titan", size=1.25, expected=2, remedy="wait")
    assert (found.rule, found.kind, found.at) == ("memory-low", "fabric", Place(thing="memory"))
    assert (found.found, found.expected, found.remedy) == ("titan has 1.2 of {all}", "2 or more", "wait")
    [stops] = worded.refusal("memory-low/here", "memory", host="titan", size=1, expected=2).findings
    assert (stops.severity, stops.rule, stops.remedy) == ("error", "memory-low", "")
    with pytest.raises(KeyError):
        worded.error("memory-low/here", "memory", host="titan")


def test_what_runs_on_hosts_has_its_words_with_it() -> None:
    """A module is sent to a host with the files that it imports, and without data/."""
    utils = ROOT / "plugins"
    todo = sorted((utils / "modules").glob("*.py"))
    seen = {*todo}
    while todo:
        file = todo.pop()
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                package = list(file.relative_to(utils).parts[:-1])
                base = (node.module or "").removeprefix("ansible_collections.gb10.fleet.plugins.").split(".")
                inside = [*package[: len(package) + 1 - node.level], *base] if node.level else base
                for name in [inside, *([*inside, alias.name] for alias in node.names)]:
                    path = utils.joinpath(*filter(None, name)).with_suffix(".py")
                    if path.is_file() and path not in seen:
                        seen.add(path)
                        todo.append(path)
    assert utils / "module_utils/_base/findings.py" in seen
    assert utils / "module_utils/_base/worded.py" not in seen
