# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names use the field's terms: docs/reference/glossary.md has them, this table has what they replace."""

from __future__ import annotations

import ast
import functools
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("plugins", "roles", "playbooks", "tools", "tests", "extensions")

# what no name may say: what it says instead, by its meaning
INSTEAD = {
    "told said say says saying tell tells telling teller": "output, message, reported, status, log, notify, broadcast",
    "door doors": "opening, allowed port, entry point",
    "lay lays laid": "layout, arrange, merge, build",
    "forgive forgiven forgives": "restore_budget",
    "spoil spoilt": "corrupt, invalid",
    "came": "received, arrived",
    "hear hears heard": "receive, reported",
    "stand stands stood": "progress, status, is",
}
BETTER = {word: better for words, better in INSTEAD.items() for word in words.split()}
# the term of testing is the field's own
_TERM = re.compile(r"stand_?ins?(?![a-z])")


@functools.cache
def words_of(name: str) -> frozenset[str]:
    """The words of ``a_name``, ``aName``, ``A-Name``; without the term "stand-in"."""
    flat = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().replace("-", "_")
    return frozenset(_TERM.sub("", flat).split("_"))


def names_in(path: Path) -> Iterator[tuple[int, str]]:
    """``(line, name)`` of every identifier of a Python file, and of every string that can be a key."""
    with tokenize.open(path) as stream:
        text = stream.read()
    for node in ast.walk(ast.parse(text)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield line, node.name
        elif isinstance(node, ast.Name):
            yield line, node.id
        elif isinstance(node, ast.Attribute):
            yield line, node.attr
        elif isinstance(node, ast.arg | ast.keyword) and node.arg:
            yield line, node.arg
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[\w-]+", node.value):
            yield line, node.value


PYTHON = sorted(
    path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if not {".lab", ".cache"} & {*path.parts}
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_use_the_fields_terms(folder: str) -> None:
    files = [path for path in PYTHON if path.is_relative_to(ROOT / folder) and path != Path(__file__)]
    found = {
        f"{path.relative_to(ROOT)}:{line}: {name}: {BETTER[word]}"
        for path in files
        for line, name in names_in(path)
        for word in words_of(name) & BETTER.keys()
    }
    assert sorted(found) == []


def test_files_use_the_fields_terms() -> None:
    paths = [path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    assert [str(path) for path in paths if words_of(path.stem) & BETTER.keys() and ".lab" not in path.parts] == []


def test_variables_use_the_fields_terms() -> None:
    """The names that roles and playbooks set, register or pass on."""
    keys = re.compile(r"^\s*(?:- )?([a-z_]\w*):|\bregister: (\w+)", re.MULTILINE)
    found = [
        (str(path.relative_to(ROOT)), name)
        for folder in ("roles", "playbooks", "extensions")
        for path in (ROOT / folder).rglob("*.yml")
        if ".lab" not in path.parts
        for match in keys.finditer(path.read_text("utf-8"))
        for name in [match[1] or match[2]]
        if words_of(name) & BETTER.keys()
    ]
    assert found == []


# What a class alone does not say of what it is: docs/reference/naming.md. Files of _on_host keep their bytes.
OF_WHAT = {"Asked", "Context", "Data", "Here", "Info", "Item", "Look", "Sizing", "Step", "View"}


def test_a_class_says_of_what_it_is() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path in PYTHON
        if "_on_host" not in path.parts
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and node.name in OF_WHAT
    ]
    assert found == []


def test_the_page_of_names_shows_classes_that_are_there() -> None:
    table = (ROOT / "docs" / "reference" / "naming.md").read_text("utf-8").partition("| class | is |")[2]
    named = {name for line in table.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)}
    text = "\n".join(path.read_text("utf-8") for path in PYTHON if "module_utils" in path.parts)
    assert [name for name in named if f"class {name}" not in text] == []


# So many places of the plugins still bind `one`, where the thing has a name (docs/style.md). The number only falls.
MOST_ONES = 200


def test_a_variable_has_the_name_of_its_thing() -> None:
    bound = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in PYTHON
        if "plugins" in path.relative_to(ROOT).parts[:1]
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if (isinstance(node, ast.arg) and node.arg == "one")
        or (isinstance(node, ast.Name) and node.id == "one" and isinstance(node.ctx, ast.Store))
    ]
    assert len(bound) <= MOST_ONES, f"{len(bound)} variables are called `one`, at most {MOST_ONES} are agreed"
