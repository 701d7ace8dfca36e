# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A clone alone runs every test: no program, comment or document names a path above the checkout."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "inventories", "extensions", "playbooks", "plugins", "roles", "tests", "tools")
FILES = [path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
PROGRAMS = sorted(name for name in FILES if name.endswith(".py"))
# What engines print names the folders of their own builds.
LOGS = "tests/data/failing_logs.yml"
TEXTS = sorted(name for name in {*FILES} - {LOGS} if re.search(r"^(?!plugins/).*\.(md|ya?ml)$", name))
TEXTS += [path.name for path in ROOT.glob("*.md")]
# A path that begins with `..`; one with a placeholder in it names no file.
ABOVE = re.compile(r"(?<![\w./~-])((?:\.\./)+)([\w.-][\w./-]*)(?!\S*<)")
WAY_UP = re.compile(r"\.parents?\b|dirname|[\"']\.\.")
Where = tuple[str, ...]  # the folders and the file below the checkout's root
LEAVES: Where = ("..",)


def below(where: Where, part: str) -> Where:
    """Where a path goes on to, `LEAVES` once it has left the checkout."""
    for name in PurePosixPath(part).parts:
        if where == LEAVES or name == "/":
            return where
        where = (where[:-1] if where else LEAVES) if name == ".." else (*where, name)
    return where


class Paths:
    """Where the paths go that a program makes of its own place by `parent`, `parents[n]` and `/`."""

    def __init__(self, file: str, text: str) -> None:
        self.tree, self.file = ast.parse(text), PurePosixPath(file).parts
        self.known: dict[str, Where] = {}
        self.imported = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                where = self.where(node.value)
                if where is not None:
                    self.known[node.targets[0].id] = where

    def where(self, node: ast.expr) -> Where | None:
        match node:
            case ast.Name(id=name):
                return self.file if name == "__file__" else self.named(name)
            case ast.Call(func=ast.Name(id="Path"), args=[of]):
                part = "."
            case ast.Call(func=ast.Attribute(attr="Path" | "realpath" | "abspath"), args=[of]):
                part = "."
            case ast.Call(func=ast.Attribute(attr="resolve" | "absolute", value=of)):
                part = "."
            case ast.Call(func=ast.Attribute(attr="dirname"), args=[of]) | ast.Attribute(attr="parent", value=of):
                part = ".."
            case ast.Subscript(value=ast.Attribute(attr="parents", value=of), slice=ast.Constant(value=int(steps))):
                part = "/".join([".."] * (steps + 1))
            case ast.BinOp(op=ast.Div(), left=of, right=ast.Constant(value=str(part))):
                pass
            case _:
                return None
        inner = self.where(of)
        return None if inner is None else below(inner, part)

    def named(self, name: str) -> Where | None:
        if name in self.imported:
            module, original = self.imported[name]
            return constants(module).get(original)
        return self.known.get(name)

    def leaving(self) -> Iterator[str]:
        """Each expression that leaves the checkout."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute | ast.BinOp | ast.Call | ast.Subscript) and self.where(node) == LEAVES:
                yield f"{'/'.join(self.file)}:{node.lineno}: {ast.unparse(node)}"


@cache
def constants(module: str) -> dict[str, Where]:
    """What a module of ours names at its outermost level, by the name under which a program imports it."""
    name = module.removeprefix("ansible_collections.gb10.fleet.").replace(".", "/")
    for place in (name, f"tests/{name}"):
        if (ROOT / f"{place}.py").is_file():
            return Paths(f"{place}.py", (ROOT / f"{place}.py").read_text("utf-8")).known
    return {}


def remarks(text: str) -> Iterator[tuple[int, str]]:
    """A program's comments and docstrings; its other strings may be what an attacker would send."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def named_above(file: str, text: str) -> Iterator[str]:
    """Paths with `..` that are nowhere in the checkout: not from the file's folder, nor from one above it."""
    if not ABOVE.search(text):
        return
    parts = remarks(text) if file.endswith(".py") else enumerate(text.splitlines(), 1)
    folders = [ROOT / folder for folder in PurePosixPath(file).parents]
    for line, part in parts:
        for found in ABOVE.finditer(part):
            rest = found[2].rstrip(".").removesuffix(".spans")  # a run makes it beside Phoenix' secret
            if not any((folder / rest).exists() for folder in folders):
                yield f"{file}:{line}: {found[0]}"


def test_no_program_reads_above_the_checkout() -> None:
    programs = {name: text for name in PROGRAMS if WAY_UP.search(text := (ROOT / name).read_text("utf-8"))}
    assert [found for name, text in programs.items() for found in Paths(name, text).leaving()] == []


def test_no_comment_and_no_document_names_a_path_above_the_checkout() -> None:
    files = [*PROGRAMS, *TEXTS]
    assert [found for name in files for found in named_above(name, (ROOT / name).read_text("utf-8"))] == []


@pytest.mark.parametrize(
    "program",
    [
        'Path(__file__).parents[3] / "evidence"',
        'Path(__file__).resolve().parents[2] / ".." / "evidence"',
        "os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))",
        'ROOT = Path(__file__).resolve().parents[2]\nx = ROOT.parent / "evidence" / "a.yml"',
        'from tools.golden import ROOT\nx = ROOT.parent / "evidence"',
        "from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES as here\n"
        'x = here.parent.parent / "evidence"',
        "def f():\n    return Path(__file__).parent.parent.parent.parent",
    ],
)
def test_a_way_out_is_seen(program: str) -> None:
    assert [*Paths("tests/unit/test_x.py", program).leaving()]


@pytest.mark.parametrize(
    "program",
    [
        'Path(__file__).parents[2] / "tests" / ".." / "docs"',
        'ROOT = Path(__file__).resolve().parents[2]\nx = ROOT / "recipes"',
        "member = Path(name).parent.parent.parent.parent",
        'HOSTILE = "../../../etc/shadow"',
    ],
)
def test_a_path_within_the_checkout_or_of_an_attacker_is_none(program: str) -> None:
    assert [*Paths("tests/unit/test_x.py", program).leaving()] == []
    assert [*named_above("tests/unit/test_x.py", program)] == []


@pytest.mark.parametrize(
    ("file", "text", "is_named"),
    [
        ("tests/unit/test_x.py", '"""As evidence of ../evidence/a.md says."""', True),
        ("tests/unit/test_x.py", "x = 1  # (../evidence/a.md, section 4)", True),
        ("tests/data/x.yml", "# of ../evidence/a.md", True),
        ("docs/x.md", "[a](../evidence/a.md)", True),
        ("docs/x.md", "[a](../../evidence/a.md)", True),
        ("docs/x.md", "[a](../data/gb10.yml), and `.../site-packages`", False),
        ("tests/unit/test_x.py", '"""`x -> ../../blobs/<sum>`"""', False),
    ],
)
def test_what_a_text_names_above_is_seen(file: str, text: str, is_named: bool) -> None:
    assert bool([*named_above(file, text)]) == is_named


def test_no_remark_names_what_a_stranger_cannot_open() -> None:
    """An issue or a review of ours by its number: the fact says more."""
    private = re.compile(r"\b(?:Issue \d|of the review|a review tried)|\b(?:domain|fidelity|harm|newcomer)\.md\b")
    texts = {name: (ROOT / name).read_text("utf-8") for name in [*PROGRAMS, *TEXTS]}
    found = {
        f"{name}:{line}: {part}"
        for name, text in texts.items()
        if private.search(text)
        for line, part in (remarks(text) if name.endswith(".py") else enumerate(text.splitlines(), 1))
        if private.search(part)
    }
    assert found == set()


def test_every_link_leads_somewhere() -> None:
    links = [path for folder in (*FOLDERS, "collections") for path in (ROOT / folder).rglob("*") if path.is_symlink()]
    assert links
    assert [str(path.relative_to(ROOT)) for path in links if not path.exists()] == []
