# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A finding has an address: fields for programs, one text for people, and nobody reads that text back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import (
    Difference,
    error,
    finding_of,
    uncovered,
    warning,
)
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import ROOT, SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place, argv, env, keys_of
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library, Recipe, load_all
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from hypothesis import given
from hypothesis import strategies as st

SHIPPED, _ = load_all([SHIPPED_RECIPES])
BASE = SHIPPED.recipes["qwen3.6-35b-a3b-nvfp4"]
SERVICE = Place(service="nano")
PLACES = [
    (Place(variable="fleet_services"), "fleet_services"),
    (SERVICE.below("flags", "max-num-seqs"), "fleet_services.nano.flags.max-num-seqs"),
    (SERVICE.below("hosts", 1), "fleet_services.nano.hosts[1]"),
    (SERVICE.below("env", "A B"), 'fleet_services.nano.env["A B"]'),
    (Place(variable="fleet_services").of_key("a b"), 'fleet_services, key "a b"'),
    (argv("--max-num-seqs").within(SERVICE), "fleet_services.nano: argv --max-num-seqs"),
    (env("NCCL_NET").within(SERVICE), "fleet_services.nano: env NCCL_NET"),
    (Place(thing="image").within(SERVICE), "fleet_services.nano: image"),
    (argv(), "argv"),
    (Place(recipe="mine", option="memory.calibrations[0].flags"), "recipe mine.memory.calibrations[0].flags"),
    (Place(recipe="mine", thing="/r/mine.yml", option="flags"), "/r/mine.yml: flags"),
    (argv("--x").within(Place(recipe="mine", thing="/r/mine.yml")), "/r/mine.yml: argv --x"),
    (Place(host="titan"), "titan"),
    (Place(host="titan", thing="/etc/netplan/40.yaml"), "titan: /etc/netplan/40.yaml"),
    (
        Place(host="titan", more=2, variable="fleet_host", option="memory_kib"),
        "titan and 2 more: fleet_host.memory_kib",
    ),
    (
        Place(host="titan", service="nano", variable="fleet_host", option="services.nano.flags"),
        "titan: fleet_host.services.nano.flags",
    ),
    (Place(option="images"), "images"),
]


@pytest.mark.parametrize(("place", "text"), PLACES, ids=[text for _, text in PLACES])
def test_the_text_is_made_from_the_parts(place: Place, text: str) -> None:
    assert place.text == text


@given(
    st.lists(st.from_regex(r"[\w/-]+", fullmatch=True) | st.integers(0, 99) | st.from_regex(r"[a z.]+", fullmatch=True))
)
def test_the_keys_of_an_option_are_those_that_it_was_made_of(keys: list[str | int]) -> None:
    assert keys_of(Place().below(*keys).option) == keys


def test_a_row_holds_all_of_its_finding() -> None:
    for place, text in PLACES:
        found = warning("r", place, found="x", remedy="y", kind="memory")
        assert found.as_dict()["place"] == text
        assert finding_of(found.as_dict()) == found


def test_a_difference_is_named_by_host_and_place() -> None:
    one = Difference("error", "file-content", Place(host="titan", service="nano", thing="file /x"), found="other")
    assert (one.id, one.place, one.service) == ("titan: file /x: file-content", "file /x", "nano")


def test_what_covers_another_finding_does_so_in_its_own_service() -> None:
    better = error("a", argv("--x").within(SERVICE), found="1", covers=("b", "catalogue-c"))
    same, other = (error("b", Place(service=name), found="2") for name in ("nano", "nano-2"))
    here, there = (error("catalogue-c", argv(x).within(SERVICE), found="3", kind="catalogue") for x in ("--x", "--y"))
    assert uncovered([better, same, other, here, there]) == [better, other, there]


# The plan ---------------------------------------------------------------------------------------------------------


def library(*names: str) -> Library:
    """One recipe under several names; the last of them has a record that can't be used, which is a warning."""
    recipes = {name: Recipe(name, {**BASE.data, "name": name}, Path(f"/mine/{name}.yml")) for name in names}
    [record] = BASE.data["memory"]["calibrations"]
    unused = {"calibrations": [{**record, "flags": {"enforce-eager": True}}]}
    last = recipes[names[-1]]
    recipes[names[-1]] = replace(last, data={**last.data, "memory": {**last.data["memory"], **unused}})
    return replace(SHIPPED, recipes=recipes)


def planned(services: Mapping[str, Any], of: Library) -> dict[str, Any]:
    hosts = {
        name: {"address": f"192.0.2.{at}", "port": 22, "variables": {"fleet_services": services}}
        for at, name in enumerate(("a", "b"), 1)
    }
    return plan_fleet({"hosts": hosts, "folder": "/mine"}, of)


ONE = {"recipe": "mine", "hosts": ["a"], "port": 8001}
TWO = {"recipe": "mine-awq", "hosts": ["b"], "port": 8001}


@pytest.mark.parametrize("names", [("mine", "mine-awq"), ("mine-awq", "mine")])
def test_each_service_counts_its_own_warnings(names: tuple[str, str]) -> None:
    """Two recipes of which one's name begins with the other's."""
    of = library(*names)
    together = {row["service"]: row for row in planned({"one": ONE, "two": TWO}, of)["summary"]}
    for name, service in (("one", ONE), ("two", TWO)):
        [alone] = planned({name: service}, of)["summary"]
        assert together[name] == alone
    assert together["one"]["warnings"] != together["two"]["warnings"]


def test_a_service_whose_name_begins_another_one_s_counts_its_own() -> None:
    of = library("mine", "mine-awq")
    services = {"nano": ONE, "nano-2": {**TWO, "flags": {"max-num-seqs": 0}}}
    plan = planned(services, of)
    assert {row["service"] for row in plan["findings"] if row["severity"] == "error"} == {"nano-2"}
    [first, second] = plan["summary"]
    assert (first["errors"], second["fits"]) == (0, "refused")
    assert second["errors"] > 0


def test_a_recipe_that_can_not_be_read_is_named_for_its_own_service_alone(tmp_path: Path) -> None:
    text = (SHIPPED_RECIPES / "bge-base-en-v1.5.yml").read_text("utf-8")
    (tmp_path / "mine.yml").write_text(text.replace("name: bge-base-en-v1.5", "name: mine"))
    (tmp_path / "mine.yaml.yml").write_text(text.replace("\nflags:", "\nflag:"))
    of, problems = load_all([tmp_path, SHIPPED_RECIPES])
    hosts = {"a": {"address": "192.0.2.1", "port": 22, "variables": {"fleet_services": {"one": ONE}}}}
    plan = plan_fleet({"hosts": hosts, "folder": "/mine"}, of, problems)
    assert [row["rule"] for row in plan["findings"] if row["severity"] == "error"] == []


# Nobody reads it back ---------------------------------------------------------------------------------------------

_READS = {"startswith", "endswith", "partition", "rpartition", "split", "rsplit", "removeprefix", "removesuffix"}
_READS |= {"match", "fullmatch", "search", "findall", "finditer", "replace", "index", "find"}


def _is_place(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "place"
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == "place"


def _reads(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _READS:
            if any(_is_place(one) for one in (node.func.value, *node.args)):
                yield node.lineno
        elif isinstance(node, ast.Compare) and any(isinstance(one, ast.In | ast.NotIn) for one in node.ops):
            words = [one for one in (node.left, *node.comparators) if isinstance(one, ast.Subscript)]
            yield from (node.lineno for one in words if _is_place(one))


def test_nobody_reads_a_place_back() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in ROOT.glob("plugins/**/*.py")
        if "place" in (text := path.read_text("utf-8"))
        for line in _reads(ast.parse(text))
    ]
    assert found == []


def _places_in(function: ast.FunctionDef) -> set[str]:
    """Names of a function that hold a place: by their annotation, or by what is assigned to them."""
    given = function.args
    found = {
        one.arg
        for one in [*given.posonlyargs, *given.args, *given.kwonlyargs]
        if isinstance(one.annotation, ast.Name) and one.annotation.id == "Place"
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
            called = node.value.func
            name = (
                called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
            )
            if name in ("Place", "below", "within", "of_key"):
                found.add(node.targets[0].id)
    return found


def test_no_place_is_put_into_a_text() -> None:
    """`place.below("key")` keeps the address; f"{place}.key" would lose it."""
    found = []
    for path in ROOT.glob("plugins/**/*.py"):
        text = path.read_text("utf-8")
        for function in ast.walk(ast.parse(text if re.search("Place|PLACE|below|within|of_key", text) else "")):
            if isinstance(function, ast.FunctionDef):
                places = _places_in(function) | {"PLACE", "_PLACE"}
                found += [
                    f"{path.relative_to(ROOT)}:{node.lineno}"
                    for node in ast.walk(function)
                    if isinstance(node, ast.FormattedValue)
                    if isinstance(node.value, ast.Name) and node.value.id in places
                ]
    # where a line of the KV sizing's own answer is written, with a text of that name
    assert [one for one in found if "/kv/" not in one] == []
