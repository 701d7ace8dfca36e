# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types say what is in a map, so that a misspelt key is an error of mypy. `Any` says nothing."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The share of parameters whose annotation holds `Any`, in per cent. It may only go down: whoever types something writes
# the new share here. The aim is 8.
MOST = 19.3


def parameters(tree: ast.Module) -> Iterator[bool]:
    """For each parameter but self and cls, whether its annotation holds `Any`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            for one in named:
                if one is not None and one.arg not in ("self", "cls"):
                    inside = ast.walk(one.annotation) if one.annotation else ()
                    yield any(isinstance(part, ast.Name) and part.id == "Any" for part in inside)


@cache
def counted() -> tuple[Counter[str], int]:
    """By file the parameters with `Any`, and the number of all parameters."""
    untyped: Counter[str] = Counter()
    total = 0
    for path in sorted((ROOT / "plugins").rglob("*.py")):
        found = [*parameters(ast.parse(path.read_text("utf-8")))]
        total += len(found)
        untyped[str(path.relative_to(ROOT))] = sum(found)
    return untyped, total


def test_fewer_and_fewer_parameters_hold_anything() -> None:
    untyped, total = counted()
    share = 100 * untyped.total() / total
    worst = ", ".join(f"{name} {count}" for name, count in untyped.most_common(10))
    assert share <= MOST, f"{untyped.total()} of {total} parameters, {share:.2f} %; most of them in {worst}"
