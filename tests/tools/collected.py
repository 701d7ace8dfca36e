# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tries mutants in copies of a process that has collected the tests already, which saves nearly all of the time.

The first run shows which test calls which function, and how long it takes. A mutant then meets only the tests that call
its function, the quick ones first. Where a mutant lies outside of any function, or changes what a function closes over,
nothing is decided here: `mutate.py` starts a new process for it.
"""

from __future__ import annotations

import ast
import builtins
import functools
import gc
import inspect
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FunctionType
from typing import NoReturn

import pytest

# A function: its file, its first line with decorators.
Place = tuple[str, int]
# A mutant runs through tests of so many seconds at most; more of them than these have never noticed anything.
_ENOUGH_S = 30.0
# The first run ends after so many seconds of a processor; the tests nearest to the modules are its first.
_FIRST_S = 45.0


class Collected:
    """root: the copy. tests, files: below it. limit: seconds that a trial may take, by those that its tests took."""

    def __init__(self, root: Path, tests: Sequence[str], files: Sequence[str], limit: Callable[[float], float]) -> None:
        self._limit = limit
        self._asks, theirs = Pipe()
        self._child = os.fork()
        if not self._child:
            self._asks.close()
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            code = 3
            try:
                words = ["-q", "--no-header", "-p", "no:xdist", "-p", "no:randomly", *tests]
                code = int(pytest.main(words, plugins=[_Loop(root, files, theirs)]))
            finally:
                os._exit(code)
        theirs.close()
        try:
            self._called: Mapping[Place, Sequence[tuple[int, float]]] = self._asks.recv()
        except EOFError:
            self._called = {}

    def notices(self, file: str, text: bytes, function: int | None) -> bool | None:
        """None: not to be decided here. function: its first line."""
        if function is None or not self._called:
            return None
        asked, took_s = list[int](), 0.0
        for item, seconds in sorted(self._called.get((file, function), ()), key=lambda pair: pair[1]):
            if took_s > _ENOUGH_S:
                break
            asked.append(item)
            took_s += seconds
        self._asks.send((file, text, function, asked, self._limit(took_s)))
        try:
            found: bool | None = self._asks.recv()
        except EOFError:
            return None
        return found

    def end(self) -> None:
        self._asks.close()
        with suppress(ChildProcessError):
            os.waitpid(self._child, 0)


class _Loop:
    """In place of pytest's own: first all tests once, then those that a mutant needs, in a copy of this process."""

    def __init__(self, root: Path, files: Sequence[str], orders: Connection) -> None:
        self._root, self._orders, self._files = root, orders, files

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        ours, theirs = Pipe()
        first = os.fork()
        if not first:
            _leave(lambda: theirs.send(self._called(session)))
        theirs.close()
        found = ours.recv()
        os.waitpid(first, 0)
        self._orders.send(found)
        while True:
            try:
                file, text, line, asked, limit_s = self._orders.recv()
            except EOFError:
                return True
            child = os.fork()
            if not child:
                os.setsid()
                _leave(functools.partial(self._try, session, file, text, line, asked))
            code = waited(child, limit_s)
            self._orders.send({0: False, _UNDECIDED: None}.get(-1 if code is None else code, True))

    def _called(self, session: pytest.Session) -> dict[Place, list[tuple[int, float]]]:
        seen, failed = set[Place](), _Failed()
        session.config.pluginmanager.register(failed)
        builtins._function_begins = lambda *place: seen.add(place)  # type: ignore[attr-defined]
        for file in self._files:
            path = self._root / file
            _replace(path, _reporting(path.read_text("utf-8"), file))
        found: dict[Place, list[tuple[int, float]]] = {}
        for number, item, after in _in_order(session, range(len(session.items))):
            if time.process_time() > _FIRST_S:
                break
            seen.clear()
            failed.any = False
            began = time.process_time()
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            for place in seen if not failed.any else ():
                found.setdefault(place, []).append((number, time.process_time() - began))
        return found

    def _try(self, session: pytest.Session, file: str, text: bytes, line: int, asked: Sequence[int]) -> None:
        path = self._root / file
        if not _replace(path, compile(text, file, "exec", dont_inherit=True), line):
            os._exit(_UNDECIDED)
        failed = _Failed()
        session.config.pluginmanager.register(failed)
        for _, item, after in _in_order(session, asked):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if failed.any:
                os._exit(1)


_UNDECIDED = 77


class _Failed:
    any = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.any = self.any or report.failed


def _in_order(session: pytest.Session, numbers: Sequence[int]) -> Iterator[tuple[int, pytest.Item, pytest.Item | None]]:
    for at, number in enumerate(numbers):
        after = session.items[numbers[at + 1]] if at + 1 < len(numbers) else None
        yield number, session.items[number], after


def _leave(after: Callable[[], object]) -> NoReturn:
    code = 1
    try:
        after()
        code = 0
    finally:
        os._exit(code)


def function_at(tree: ast.Module, start: tuple[int, int]) -> int | None:
    """The first line, with decorators, of the outermost function that has this line and column in its body."""
    for function in _functions(tree):
        first, last = function.body[0], function.body[-1]
        if (first.lineno, first.col_offset) <= start < (last.end_lineno or 0, last.end_col_offset or 0):
            return _first_line(function)
    return None


def _functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        else:
            yield from _functions(child)


def _first_line(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


def _reporting(text: str, file: str) -> CodeType:
    """The module, each of whose functions says that it begins."""
    tree = ast.parse(text)
    for function in _functions(tree):
        entry = ast.parse(f"_function_begins({file!r}, {_first_line(function)})").body
        function.body[:0] = [ast.fix_missing_locations(ast.copy_location(entry[0], function.body[0]))]
    return compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)


def _replace(path: Path, program: CodeType, line: int | None = None) -> bool:
    """Put the program's functions, or the one of this line, in place of those read from the path, and forget what the
    others returned. False where that can't be done."""
    new = {(code.co_firstlineno, code.co_name): code for code in _codes(program)}
    done, real = False, dict[str, bool]()
    gc.unfreeze()  # what tests/unit/conftest.py has set apart is not among the objects
    for thing in gc.get_objects():
        with suppress(ReferenceError):
            if isinstance(thing, functools._lru_cache_wrapper):
                thing.cache_clear()
            elif isinstance(thing, FunctionType) and (name := (old := thing.__code__).co_filename).endswith(path.name):
                # collections/ has links to what is imported
                if not real.setdefault(name, Path(name).resolve() == path.resolve()):
                    continue
                code = new.get((old.co_firstlineno, old.co_name))
                if code is None or line not in (None, old.co_firstlineno):
                    continue
                if old.co_freevars != code.co_freevars:
                    return False
                thing.__code__ = code.replace(co_filename=name)
                done = True
    return done


def _codes(program: CodeType) -> Iterator[CodeType]:
    """Functions of a module and methods of its classes, not what lies within functions."""
    for constant in program.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            if not constant.co_flags & inspect.CO_OPTIMIZED:  # a class
                yield from _codes(constant)


def waited(child: int, limit_s: float) -> int | None:
    """How it ended; None where it took longer. Seconds in which the machine let it wait do not count."""
    began = time.monotonic()
    try:
        while time.monotonic() - began - _delayed_s(child) < limit_s:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        return None
    finally:
        # also what a test started and left
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def _delayed_s(process: int) -> float:
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text("utf-8").split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0
