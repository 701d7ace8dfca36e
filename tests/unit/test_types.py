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
from typing import Any, is_typeddict

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.plan import FindingRow, Plan, ServicePlan, SummaryRow
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from tools.golden import inventory_of

ROOT = Path(__file__).resolve().parents[2]
# The share of parameters whose annotation holds `Any`, in per cent. It may only go down: whoever types something writes
# the new share here.
MOST = 7.2


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


# A type says what is there --------------------------------------------------------------------------------------------


@cache
def example() -> Any:
    """The plan of our example."""
    inventory = inventory_of(ROOT / "inventories" / "example")
    library, problems = load_all([SHIPPED_RECIPES])
    return plan_fleet(inventory, library, problems)


@pytest.mark.parametrize(
    ("kind", "of"),
    [
        (Plan, lambda plan: [plan]),
        (ServicePlan, lambda plan: plan["services"].values()),
        (SummaryRow, lambda plan: plan["summary"]),
        (FindingRow, lambda plan: plan["findings"]),
    ],
    ids=lambda one: one.__name__ if is_typeddict(one) else "",
)
def test_a_type_has_the_keys_of_a_real_plan(kind: Any, of: Any) -> None:
    found = [*of(example())]
    assert found
    for one in found:
        assert {*kind.__required_keys__} <= {*one} <= {*kind.__annotations__}
