# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SECURITY.md: each promise names its tests, each test of hostile input is named, and there is enough of such input."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import test_hostile_answer
import test_hostile_files
import test_hostile_peer
import test_hostile_reading
from hypothesis import is_hypothesis_test

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text("utf-8")
PROMISES = PAGE[PAGE.index("## Who may do what") : PAGE.index("## What is not promised yet")]
NAMED = re.compile(r"`(?:tests/\w+/)*(test_\w+(?:\.py)?|molecule/\w+)`")
FILES = sorted([*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "extensions" / "molecule").rglob("test_*.py")])
TEXTS = {path: path.read_text("utf-8") for path in FILES}
TESTS = {name: path for path, text in TEXTS.items() for name in re.findall(r"def (test_\w+)\(", text)}
# What each holds is a promise of the page, wholly.
OF_THE_PAGE = (
    *sorted(path.name for path in (ROOT / "tests" / "unit").glob("test_hostile_*.py")),
    *sorted(path.name for path in (ROOT / "tests" / "hostile").glob("test_*.py")),
    *("test_api_key.py", "test_firewall.py", "test_key_kept.py", "test_lock.py", "test_peer_access.py"),
    *("test_peer_answers.py", "test_rank_wire.py", "test_tls.py"),
)


def _lines() -> Iterator[str]:
    """Rows of the table and items of the lists, each on one line."""
    for block in re.split(r"\n(?=- |\| |#|\n)", PROMISES):
        line = " ".join(block.split())
        is_row = line.startswith("| **") and not line.endswith("see below |")
        if is_row or line.startswith("- "):
            yield line


@pytest.mark.parametrize("line", [*_lines()], ids=lambda line: line[:60])
def test_a_promise_names_its_tests(line: str) -> None:
    assert NAMED.search(line), "no test is named"


@pytest.mark.parametrize("name", sorted({*NAMED.findall(PAGE)}))
def test_a_test_that_is_named_exists(name: str) -> None:
    if name.startswith("molecule/"):
        assert [*(ROOT / "extensions" / name / "tests").glob("test_*.py")]
    else:
        assert name in TESTS or name in {path.name for path in FILES}


def test_each_fault_has_a_test() -> None:
    """A row of docs/explanation/faults.md: a test, or a harm of tests/harm."""
    page = (ROOT / "docs" / "explanation" / "faults.md").read_text("utf-8")
    rows = [line.split("|")[3].strip(" `") for line in page.splitlines() if re.match(r"\| (?!fault|-)", line)]
    harms = {
        f"harm/{name}" for name in re.findall(r'Harm\("([\w-]+)"', TEXTS[ROOT / "tests" / "harm" / "test_host.py"])
    }
    assert len(rows) >= 30
    assert [name for name in rows if name not in TESTS.keys() | harms] == []


@pytest.mark.parametrize("file", OF_THE_PAGE)
def test_a_file_of_such_tests_is_named(file: str) -> None:
    named = {*NAMED.findall(PROMISES)}
    assert file in named or file in {TESTS[name].name for name in named & TESTS.keys()}


Test = Callable[..., None]
# Where data of another party enters: a table of hostile input, and a property.
PARSERS: dict[str, tuple[Test, Test]] = {
    "a peer's request": (
        test_hostile_peer.test_a_hostile_request_is_refused_and_changes_nothing,
        test_hostile_peer.test_no_request_raises_or_reads_outside,
    ),
    "a manifest": (
        test_hostile_peer.test_a_hostile_manifest_is_refused,
        test_hostile_peer.test_no_manifest_names_a_path_outside_of_its_folder,
    ),
    "a list of layers": (
        test_hostile_peer.test_a_hostile_image_is_refused,
        test_hostile_peer.test_no_image_names_a_file_that_is_no_sum,
    ),
    "how a file is made": (
        test_hostile_peer.test_a_hostile_recipe_is_refused_and_takes_little_memory,
        test_hostile_peer.test_no_recipe_leaves_its_file,
    ),
    "a host's answer": (
        test_hostile_answer.test_a_hostile_answer_is_none,
        test_hostile_answer.test_any_answer_is_taken_or_none,
    ),
    "a host's reading": (
        test_hostile_reading.test_a_hostile_reading_is_refused_in_bounds,
        test_hostile_reading.test_any_reading_is_refused_or_can_be_used,
    ),
    "a recipe": (
        test_hostile_files.test_a_hostile_yaml_text_is_refused_in_one_line,
        test_hostile_files.test_any_text_is_data_or_refused,
    ),
    "an observation": (
        test_hostile_files.test_what_is_no_observation_is_not_written_on_the_controller,
        test_hostile_files.test_any_observation_is_one_or_refused,
    ),
}


def _cases(test: Test) -> int:
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    return math.prod(len([*mark.args[1]]) for mark in marks) if marks else 0


def test_hostile_input_is_counted() -> None:
    counts = {name: _cases(table) for name, (table, _) in PARSERS.items()}
    assert min(counts.values()) >= 10, counts
    assert sum(counts.values()) >= 200, counts


@pytest.mark.parametrize("name", PARSERS)
def test_each_parser_has_a_property(name: str) -> None:
    assert is_hypothesis_test(PARSERS[name][1])
