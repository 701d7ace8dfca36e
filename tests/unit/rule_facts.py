# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which facts a predicate reads, and a launch reduced to some of its facts."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.rules.condition import Condition
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.rules.launch import Launch
from rule_needs import FACTS

# What the product always says of these facts, as a request has it.
ALWAYS: dict[str, Any] = {
    "model.cached": True,
    "service.recipe": "some-recipe",
    "service.restarts": True,
    "mounts": [{"target": "/root/.cache"}],  # the model store and the compile caches
}


def conditions_in(when: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The tests of a condition by name, with those inside of any and none."""
    for name, test in when.items():
        yield from (
            (pair for each in test for pair in conditions_in(each)) if name in ("any", "none") else [(name, test)]
        )


def asked_in(condition: Condition) -> Iterator[tuple[str, Any]]:
    """Those of all its cases."""
    for case in condition.cases:
        yield from conditions_in(case["when"])
        yield from conditions_in(case.get("warning", {}))


@cache
def reads(function: Callable[..., Any]) -> frozenset[str]:
    """The facts that a function of a launch reads, by its source and that of all it hands the launch to."""
    if isinstance(function, Condition):
        tree = ast.parse(
            " and ".join(f"launch.{name}" for name, _ in asked_in(function) if re.fullmatch(r"[a-z_.]+", name)) or "0"
        )
        return frozenset(_reads(tree, {}))
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    known = inspect.getclosurevars(function)
    return frozenset(_reads(tree, {**known.globals, **known.nonlocals}))


def _reads(tree: ast.AST, names: Mapping[str, Any]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            helper, words = names.get(node.func.id), [getattr(word, "id", "") for word in node.args]
            if inspect.isfunction(helper) and "launch" in words:
                yield from reads(helper)
        path = _path(node)
        if len(path) > 1 and path[0] in ("launch", "self"):
            yield from {".".join(path[1:]), ".".join(path[1:3])} & FACTS.keys()
            own = getattr(Launch, path[1], None)
            own = own.fget if isinstance(own, property) else own.func if isinstance(own, cached_property) else own
            if inspect.isfunction(own):
                yield from reads(own)


def _path(node: ast.AST) -> list[str]:
    """``launch.host.swap`` as its names; empty for anything else."""
    if isinstance(node, ast.Attribute):
        head = _path(node.value)
        return [*head, node.attr] if head else []
    return [node.id] if isinstance(node, ast.Name) else []


def facts_of(launch: Mapping[str, Any]) -> set[str]:
    """The facts that a launch of the table has."""
    found = {key for key in ("mounts", "container") if key in launch}
    found |= {f"container.{key}" for key in launch.get("container", ())}
    found |= {f"{part}.{key}" for part in ("model", "host", "group", "service") for key in launch.get(part, ())}
    return found & FACTS.keys()


def reduced(launch: Mapping[str, Any], kept: Iterable[str], always: Iterable[str] = ()) -> dict[str, Any]:
    """A launch with no other facts than these. always: facts with the product's own value, whatever the launch says."""
    left = dict(launch)
    for fact in facts_of(launch) - {*kept, *always}:
        part, _, key = fact.partition(".")
        left[part] = {name: item for name, item in left[part].items() if name != key} if key else None
    for fact in always:
        part, _, key = fact.partition(".")
        left[part] = {**left.get(part, {}), key: ALWAYS[fact]} if key else ALWAYS[fact]
    return {key: value for key, value in left.items() if value is not None}
