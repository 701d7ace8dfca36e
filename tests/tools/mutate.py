# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Breaks lines of the plugins one at a time, and lists what no unit test notices.

    mutate.py --changed [BASE]      the lines that changed since BASE (where this branch left main)
    mutate.py --package FOLDER      a package or a file below plugins/module_utils, whole; may be given again
    mutate.py ... --seconds 110     no longer than that: a part of them, evenly spread, and it says so
    mutate.py ... --sample 40       so many of them at most
    mutate.py ... --least 95        fail where less than this share is noticed, in per cent

A comparison is turned round or moved by one, a part of a condition left out, a condition negated, a constant changed,
what is returned or yielded forgotten, a call left out. The tests of a mutant are the files that import its module:
those of its name first, then over as few modules as possible. All happens in copies of the checkout. What changes
nothing that anybody could see stands with its reason in tests/data/equivalent_mutants.yml.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import NoReturn

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from tools.collected import Collected, function_at, waited  # noqa: E402

UTILS = Path("plugins/module_utils")
EQUIVALENT = Path("tests/data/equivalent_mutants.yml")
# Folders that tests need no copy of.
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "changelogs")
# A mutant may loop: it has this many times as long as its tests take without it, and never less than so many seconds.
# The tests themselves have the last.
_PATIENCE, _LEAST_S, _LONGEST_S = 6.0, 30.0, 600.0
# Of so many test files at most, in turns: to read all of them costs more than to run the first, which notices most.
_MOST, _TURNS = 12, ((0, 1), (1, 4), (4, 12))
# A digest says that something is not as it was, and never what is right; a command renews it.
_DIGESTS = ("tests/unit/test_golden.py",)
# What a Python program reads slowly, and what no mutant is in: each trial begins with it.
_BROUGHT = ("pytest", "hypothesis", "hypothesis.strategies", "yaml", "jinja2", "cryptography.x509", "ansible.errors")
_COLLECTION = "ansible_collections.gb10.fleet."
_FOR_PEOPLE = ("found", "expected", "remedy", "reason", "source")
_TURNED = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}


@dataclass(frozen=True)
class Mutant:
    """file: below the root. line: its number. start, end: bytes that are replaced by ``by``."""

    file: str
    line: int
    start: int
    end: int
    by: str
    was: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {_short(self.was)} -> {_short(self.by)}"

    def of(self, text: bytes) -> bytes:
        return text[: self.start] + self.by.encode() + text[self.end :]


def _short(text: str) -> str:
    return " ".join(text.split())[:90] or "nothing"


# What is broken ---------------------------------------------------------------------------------------------------


class Source:
    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text.encode()
        self.tree = ast.parse(text)
        self._lines = [0]
        for line in self.text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def mutants(self, lines: Collection[int] | None = None) -> list[Mutant]:
        """lines: of these alone."""
        found = {(one.start, one.end, one.by): one for node in self._nodes(self.tree) for one in self._of(node)}
        by_place = sorted(found.values(), key=lambda one: (one.start, one.end, one.by))
        return [one for one in by_place if lines is None or one.line in lines]

    def _nodes(self, node: ast.AST) -> Iterator[ast.AST]:
        """All that does something: no types, no documentation, nothing that a person alone reads, and no figure that
        has a name, which a test could only repeat."""
        for child in ast.iter_child_nodes(node):
            if child in getattr(node, "decorator_list", ()) or _is_figure(child):
                continue
            is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            is_type = child in (getattr(node, "annotation", None), getattr(node, "returns", None))
            only_types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            for_people = isinstance(child, ast.keyword) and child.arg in (
                "found",
                "expected",
                "remedy",
                "reason",
                "source",
            )
            if is_text or is_type or only_types or for_people or isinstance(child, ast.JoinedStr):
                continue
            yield child
            yield from self._nodes(child)

    def _of(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Compare(left=left, ops=ops, comparators=values):
                for operator, before, after in zip(ops, [left, *values], values, strict=False):
                    yield self._between(before, after, _TURNED[type(operator)])
            case ast.BoolOp(op=operator, values=values):
                joined = " and " if isinstance(operator, ast.And) else " or "
                for left_out in values:
                    kept = joined.join(f"({self._words(one)})" for one in values if one is not left_out)
                    yield self._instead(node, f"({kept})")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._instead(node, f"({self._words(operand)})")
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if _is_plain(test):
                yield self._instead(test, f"(not ({self._words(test)}))")
            case ast.comprehension(ifs=tests):
                for test in filter(_is_plain, tests):
                    yield self._instead(test, f"(not ({self._words(test)}))")
            case ast.Constant(value=bool() as value):
                yield self._instead(node, str(not value))
            case ast.Constant(value=int() | float() as number):
                yield self._instead(node, f"({number} + 1)")
            case ast.Return(value=ast.expr() as value) if not _is_none(value):
                yield self._instead(node, "return None")
            case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom() | ast.Await()):
                yield self._instead(node, "pass" if not _yields(node) else "yield from ()")

    def _place(self, line: int, column: int) -> int:
        return self._lines[line - 1] + column

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        return self._place(node.lineno, node.col_offset), self._place(node.end_lineno or 0, node.end_col_offset or 0)

    def _words(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self.text[start:end].decode()

    def _instead(self, node: ast.expr | ast.stmt, by: str) -> Mutant:
        start, end = self._span(node)
        return Mutant(self.file, node.lineno, start, end, by, self.text[start:end].decode())

    def _between(self, before: ast.expr, after: ast.expr, by: str) -> Mutant:
        start, end = self._span(before)[1], self._span(after)[0]
        words = self.text[start:end].decode()
        operator = re.search(r"not\s+in\b|is\s+not\b|[<>=!]=|[<>]|\bin\b|\bis\b", words)
        assert operator is not None, words
        at = start + len(words[: operator.start()].encode())
        return Mutant(self.file, after.lineno, at, at + len(operator[0].encode()), by, operator[0])


def _is_plain(test: ast.expr) -> bool:
    """No comparison and no `not`, which are turned round themselves."""
    return isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript)


def _is_figure(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [part for target in targets for part in ast.walk(target)]
    parts = ast.Constant | ast.Tuple | ast.BinOp | ast.operator | ast.unaryop | ast.expr_context | ast.UnaryOp
    is_named = all(one.id.isupper() for one in names if isinstance(one, ast.Name))
    return is_named and all(isinstance(part, parts) for part in ast.walk(node.value))


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _yields(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Yield | ast.YieldFrom)


# Who notices ------------------------------------------------------------------------------------------------------


class Imports:
    """Who imports whom, over all plugins and unit tests of a checkout."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._of: dict[str, set[str]] = {}
        for folder in ("plugins", "tests/unit", "tests/tools", "tests/drift"):
            for path in (root / folder).rglob("*.py"):
                file = path.relative_to(root).as_posix()
                self._of[file] = {*self._imported(file, ast.parse(path.read_text("utf-8")))}

    def _imported(self, file: str, tree: ast.Module) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (found for alias in node.names if (found := self._file(alias.name)))
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                if node.level:
                    above = Path(file).parents[node.level - 1].as_posix().replace("/", ".")
                    module = f"{above}.{module}".rstrip(".")
                yield from (found for alias in node.names if (found := self._file(f"{module}.{alias.name}")))
                if found := self._file(module):
                    yield found

    def _file(self, module: str) -> str | None:
        path = module.removeprefix(_COLLECTION).replace(".", "/")
        for place in (f"{path}.py", f"{path}/__init__.py", f"tests/{path}.py", f"tests/unit/{path}.py"):
            if (self._root / place).is_file():
                return place
        return None

    def above(self, file: str) -> list[list[str]]:
        """Who imports it, then who imports those, and so on."""
        near, seen, found = [file], {file}, []
        while near:
            near = sorted(other for other, names in self._of.items() if other not in seen and names & {*near})
            seen |= {*near}
            found.append(near)
        return found

    def below(self, files: Collection[str]) -> set[str]:
        """All that they import, over any number of others."""
        near, seen = {*files}, set[str]()
        while near:
            seen |= near
            near = {other for name in near for other in self._of.get(name, ())} - seen
        return seen - {*files}

    def tests_of(self, file: str) -> list[str]:
        """Test files of a module: those of its name or its package's, then those that import it over fewest others."""
        # a floor says nothing
        parts = [part for part in Path(file).with_suffix("").parts[2:] if not part.startswith("_")]
        words = {word for part in parts for word in part.split("_")}
        found, others = list[str](), list[str]()
        for importers in self.above(file):
            tests = [name for name in importers if "/unit/test_" in name and name not in _DIGESTS]
            named = [name for name in tests if {*Path(name).stem.split("_")[1:]} & words]
            found += named
            others += [name for name in tests if name not in named]
        return [*dict.fromkeys([*found, *others])][:_MOST]


def module_of(file: str) -> str:
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"{_COLLECTION}{name}" if file.startswith("plugins/") else name.removeprefix("tests.")


# Trying them ------------------------------------------------------------------------------------------------------


def copy_of(root: Path, into: Path) -> Path:
    """The checkout without what git and tools keep."""
    copy = into / "checkout"
    shutil.copytree(root, copy, symlinks=True, ignore=_LEFT_OUT)
    return copy


class Trial:
    """A copy in which one mutant after the other is tried, each in a process of its own that begins with all modules
    read that it can't have changed."""

    def __init__(self, copy: Path) -> None:
        self._copy, self._imports = copy, Imports(copy)
        self._took: dict[tuple[str, ...], tuple[list[str], float]] = {}
        os.chdir(copy)
        os.environ |= {"CI": "1"}
        sys.path[:0] = [str(copy / "collections"), str(copy / "tests")]
        for name in _BROUGHT:
            importlib.import_module(name)

    def collected(self, files: Sequence[str]) -> Collected:
        """Of the tests nearest to these files, by turns."""
        near = zip_longest(*(self._imports.tests_of(file) for file in files))
        tests = [*dict.fromkeys(test for turn in near for test in turn if test)][:_MOST]
        return Collected(self._copy, tests, files, _limit_s)

    def notices(self, mutant: Mutant, collected: Collected) -> bool | None:
        """None where a new process has to tell."""
        path = self._copy / mutant.file
        text = path.read_bytes()
        before = text[: mutant.start].decode()
        column = mutant.start - len(text[: mutant.start].rpartition(b"\n")[0]) - (b"\n" in text[: mutant.start])
        function = function_at(ast.parse(text), (before.count("\n") + 1, column))
        _forget(path)
        path.write_bytes(mutant.of(text))
        try:
            return collected.notices(mutant.file, mutant.of(text), function)
        finally:
            path.write_bytes(text)
            _forget(path)

    def survives(self, mutant: Mutant, left_s: float) -> bool:
        asked = self._imports.tests_of(mutant.file)
        return all(self._lives(mutant, asked[begin:end], left_s) for begin, end in _TURNS if asked[begin:end])

    def _lives(self, mutant: Mutant, asked: list[str], left_s: float) -> bool:
        tests, took_s = self._passing(mutant.file, asked, left_s)
        path = self._copy / mutant.file
        text = path.read_bytes()
        path.write_bytes(mutant.of(text))
        try:
            return not tests or self._fails(mutant.file, tests, _limit_s(took_s)) is False
        finally:
            path.write_bytes(text)

    def _passing(self, file: str, asked: list[str], limit_s: float) -> tuple[list[str], float]:
        """Those that pass without a mutant, and how long they take; none if it is longer than that."""
        known, began = tuple(asked), time.monotonic()
        if known not in self._took:
            if self._fails(file, asked, limit_s) is not False:
                asked = [test for test in asked if self._fails(file, [test], limit_s / len(known)) is False]
                began = time.monotonic()
                self._fails(file, asked, limit_s)
            self._took[known] = asked, time.monotonic() - began
        return self._took[known]

    def _fails(self, file: str, tests: Sequence[str], limit_s: float) -> bool | None:
        """Whether one of the tests does; None where they took too long."""
        changed = [file, *(name for names in self._imports.above(file) for name in names)]
        for name in sorted(self._imports.below(tests) - {*changed}):
            if name.startswith("plugins/module_utils/"):
                with contextlib.suppress(Exception):
                    importlib.import_module(module_of(name))
        _forget(self._copy / file)
        child = os.fork()
        if not child:
            _run(tests, [module_of(name) for name in changed])
        code = waited(child, limit_s)
        return None if code is None else code != 0


def _limit_s(took_s: float) -> float:
    return max(_LEAST_S, _PATIENCE * took_s)


def _forget(path: Path) -> None:
    """What Python kept of it would be taken for another text of the same size and second."""
    for kept in path.parent.glob(f"__pycache__/{path.stem}.*"):
        kept.unlink()


def _run(tests: Sequence[str], changed: Sequence[str]) -> NoReturn:
    """In a process of its own."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    for name in changed:
        sys.modules.pop(name, None)
        package, _, own = name.rpartition(".")
        if hasattr(sys.modules.get(package), own):
            delattr(sys.modules[package], own)
    code = 3
    try:
        code = int(pytest.main(["-x", "-q", "--no-header", "-p", "no:xdist", *tests]))
    finally:
        os._exit(code)


@dataclass(frozen=True)
class Result:
    tried: int
    lives: Sequence[Mutant]
    equivalent: int

    @property
    def rate(self) -> float:
        return 100.0 if not self.tried else 100 * (self.tried - len(self.lives)) / self.tried


def tried(root: Path, mutants: Sequence[Mutant], at_once: int, until: float | None = None) -> Result:
    """Tries them, in ``at_once`` copies. until: by `time.monotonic`; what is not begun then is left out."""
    known = equivalent(root)
    wanted = [one for one in mutants if key(root, one) not in known]
    parts = [wanted[number::at_once] for number in range(at_once)]
    with ProcessPoolExecutor(at_once) as processes:
        found = [*processes.map(partial(_part, root, until), parts)]
    lives = [one for _, alive in found for one in alive]
    return Result(sum(begun for begun, _ in found), lives, len(mutants) - len(wanted))


def _part(root: Path, until: float | None, mutants: Sequence[Mutant]) -> tuple[int, list[Mutant]]:
    begun, alive = 0, []
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        trial = Trial(copy_of(root, Path(scratch)))
        # whoever has little time does not collect first
        collected = trial.collected(sorted({one.file for one in mutants})) if until is None else None
        for one in mutants:
            left_s = _LONGEST_S if until is None else until - time.monotonic()
            if left_s < 0:
                break
            noticed = trial.notices(one, collected) if collected else None
            survives = trial.survives(one, left_s) if noticed is None else not noticed
            if until is not None and survives and time.monotonic() > until:
                break  # its tests may have had no time to pass
            begun += 1
            if survives:
                print(f"lives: {one}", flush=True)
                alive.append(one)
        if collected:
            collected.end()
    return begun, alive


def key(root: Path, mutant: Mutant) -> tuple[str, str, str]:
    """Of a mutant in the list of equivalent ones: its file, the whole line, and what it becomes."""
    return mutant.file, _line(root / mutant.file, mutant.line), _short(mutant.by)


@cache
def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def _line(path: Path, number: int) -> str:
    return _lines(path)[number - 1].strip()


def equivalent(root: Path) -> Mapping[tuple[str, str, str], str]:
    rows = yaml.safe_load((root / EQUIVALENT).read_text("utf-8")) if (root / EQUIVALENT).is_file() else None
    return {(row["file"], row["line"], row["becomes"]): row["reason"] for row in rows or []}


# What is asked for ------------------------------------------------------------------------------------------------


def spread(mutants: Sequence[Mutant], most: int) -> list[Mutant]:
    """At most so many, evenly over all."""
    if len(mutants) <= most:
        return [*mutants]
    return [mutants[at * len(mutants) // most] for at in range(most)]


def mixed(mutants: Sequence[Mutant]) -> list[Mutant]:
    """In an order in which any beginning is spread over all."""
    steps, order = len(mutants), [*mutants]
    width = next((step for step in range(int(steps * 0.618) or 1, steps) if _coprime(step, steps)), 1)
    return [order[at * width % steps] for at in range(steps)]


def _coprime(one: int, other: int) -> bool:
    while other:
        one, other = other, one % other
    return one == 1


def changed(root: Path, base: str | None) -> dict[str, set[int]]:
    """Lines of plugins that differ from a commit, by file."""
    base = base or _left_main(root)
    out = _git(root, "diff", "--unified=0", base, "--", "plugins/*.py")
    found: dict[str, set[int]] = {}
    file = ""
    for line in out.splitlines():
        if line.startswith("+++ "):
            file = line[6:]
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            begin, count = int(hunk[1]), int(hunk[2] or 1)
            found.setdefault(file, set()).update(range(begin, begin + count))
    return {name: lines for name, lines in found.items() if lines and (root / name).is_file()}


def _left_main(root: Path) -> str:
    """The commit that this branch and main have in common; on main itself, the one before."""
    head = _git(root, "rev-parse", "HEAD").strip()
    for name in ("origin/main", "main"):
        with contextlib.suppress(subprocess.CalledProcessError):
            common = _git(root, "merge-base", "HEAD", name).strip()
            return common if common != head or _git(root, "diff", "HEAD", "--", "plugins") else "HEAD^"
    return "HEAD^"


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True)
    return done.stdout


def mutants_of(root: Path, lines: Mapping[str, Collection[int] | None]) -> list[Mutant]:
    found = []
    for file, wanted in sorted(lines.items()):
        found += Source(file, (root / file).read_text("utf-8")).mutants(wanted)
    return found


def files_of(root: Path, package: str) -> list[str]:
    place = root / UTILS / package
    paths = [place] if place.is_file() else sorted(place.rglob("*.py"))
    if not paths:
        raise SystemExit(f"there is no {UTILS / package}; expected a package or a file below {UTILS}")
    return [path.relative_to(root).as_posix() for path in paths]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--changed", nargs="?", const="", metavar="BASE")
    asked.add_argument("--package", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--sample", type=int, metavar="N")
    parser.add_argument("--seconds", type=float, metavar="S")
    parser.add_argument("--least", type=float, default=0.0, metavar="PERCENT")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    chosen = parser.parse_args()
    until = None if chosen.seconds is None else time.monotonic() + chosen.seconds
    if chosen.changed is None:
        lines: dict[str, Collection[int] | None] = {
            file: None for package in chosen.package for file in files_of(ROOT, package)
        }
    else:
        try:
            lines = {**changed(ROOT, chosen.changed)}
        except (OSError, subprocess.CalledProcessError) as problem:
            print(f"no line is broken, since git knows no commit to compare with: {problem}")
            return 0
    every = mutants_of(ROOT, lines)
    if not every:
        print("no line of the plugins that could be broken has changed")
        return 0
    wanted = mixed(spread(every, chosen.sample or len(every)))
    result = tried(ROOT, wanted, max(1, min(chosen.jobs, len(wanted))), until)
    left = len(every) - result.tried - result.equivalent
    sampled = f"; {left} more were not tried" if left else ""
    print(f"{result.tried} mutants, {len(result.lives)} live, {result.rate:.1f} % noticed{sampled}")
    return int(result.rate < chosen.least)


if __name__ == "__main__":
    sys.exit(main())
