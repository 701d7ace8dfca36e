# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.schema import Spec, check
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared import read_declaration
from hypothesis import given
from hypothesis import strategies as st

SERVICE: Spec = {
    "type": "map",
    "options": {
        "recipe": {"type": "str", "required": True, "pattern": r"[a-z0-9.-]+", "expected": "a recipe's name"},
        "hosts": {"type": "list", "required": True, "min": 1, "elements": {"type": "str"}},
        "port": {"type": "int", "min": 1, "max": 65535, "default": 8000},
        "quota": {"type": "number", "min": 0, "max": 1},
        "mode": {"type": "str", "choices": ["ray", "mp"]},
        "revision": {"type": "str", "nullable": True},
        "flags": {"type": "map", "keys": {"type": "str", "pattern": "[a-z-]+"}},
        "source": {
            "any_of": [
                {"type": "str", "choices": ["hub"]},
                {"type": "map", "options": {"host": {"type": "str", "required": True}}},
            ],
            "default": "hub",
        },
    },
}
SERVICES: Spec = {"type": "map", "values": SERVICE}
GOOD: dict[str, Any] = {"recipe": "nano", "hosts": ["titan"]}


def service(**changes: Any) -> dict[str, Any]:
    return {"nano": {**GOOD, **changes}}


def test_defaults_are_filled_in_and_the_input_is_left_alone() -> None:
    declared = service()
    result, findings = check(SERVICES, declared, "fleet_services")
    assert findings == []
    assert result == {"nano": {**GOOD, "port": 8000, "source": "hub"}}
    assert declared == service()


@pytest.mark.parametrize(
    "changes",
    [
        {"port": None},
        {"revision": None},
        {"flags": {"kv-cache-dtype": None, "enforce-eager": True}},
        {"source": {"host": "beast"}},
        {"quota": 0.5},
        {"quota": 1},
    ],
)
def test_good_values(changes: dict[str, Any]) -> None:
    assert check(SERVICES, service(**changes), "fleet_services")[1] == []


def test_null_is_kept_only_where_it_means_something() -> None:
    result, _ = check(SERVICES, service(port=None, revision=None, flags={"x": None}), "fleet_services")
    assert result["nano"]["port"] == 8000
    assert result["nano"]["revision"] is None
    assert result["nano"]["flags"] == {"x": None}


@pytest.mark.parametrize(
    ("changes", "rule", "place", "found", "expected", "remedy"),
    [
        ({"prot": 1}, "schema-unknown-key", "nano.prot", "unknown key", "", 'write "port"'),
        ({True: 1}, "schema-unknown-key", "nano[true]", "unknown key", "", "in quotes"),
        ({"a.b": 1}, "schema-unknown-key", 'nano["a.b"]', "unknown key", "", "known are: flags, hosts, "),
        ({"port": "8003"}, "schema-type", "nano.port", 'text "8003"', "a whole number", "without quotes"),
        ({"port": "8k"}, "schema-type", "nano.port", 'text "8k"', "a whole number", "write 8000"),
        ({"port": True}, "schema-type", "nano.port", "the boolean true", "a whole number", ""),
        ({"port": 0}, "schema-range", "nano.port", "the number 0", "at least 1 and at most 65535", ""),
        ({"port": 10**5000}, "schema-range", "nano.port", "thousands of digits", "at most 65535", ""),
        ({"quota": math.nan}, "schema-range", "nano.quota", "nan", "a number of at least 0", ""),
        ({"recipe": 3.6}, "schema-type", "nano.recipe", "the number 3.6", "a recipe's name", "in quotes"),
        ({"recipe": "Big One"}, "schema-pattern", "nano.recipe", 'text "Big One"', "a recipe's name", ""),
        ({"hosts": []}, "schema-range", "nano.hosts", "an empty list", "a list of length at least 1", ""),
        ({"hosts": "titan"}, "schema-type", "nano.hosts", 'text "titan"', "a list", ""),
        ({"hosts": ["a", {}]}, "schema-type", "nano.hosts[1]", "an empty map", "text", ""),
        ({"mode": "rya"}, "schema-choice", "nano.mode", 'text "rya"', 'one of "ray", "mp"', 'write "ray"'),
        ({"flags": {"KV": 1}}, "schema-pattern", 'nano.flags, key "KV"', 'text "KV"', "text like", ""),
        ({"source": 5}, "schema-type", "nano.source", "the number 5", 'one of "hub" or a map with host', ""),
        ({"source": {}}, "schema-required", "nano.source.host", "missing", "text", 'write "host"'),
        ({"recipe": None}, "schema-required", "nano.recipe", "missing", "a recipe's name", 'write "recipe"'),
    ],
)
def test_problems(changes: dict[Any, Any], rule: str, place: str, found: str, expected: str, remedy: str) -> None:
    _, findings = check(SERVICES, {"nano": {**GOOD, **changes}}, "fleet_services")
    assert [(finding.rule, finding.place) for finding in findings] == [(rule, f"fleet_services.{place}")]
    assert found in findings[0].found
    assert expected in findings[0].expected
    assert remedy in findings[0].remedy


def test_all_problems_are_collected() -> None:
    _, findings = check(SERVICES, {"a": {"prot": 1}, "b": 7, "c": service(port="x")["nano"]}, "fleet_services")
    assert [finding.place for finding in findings] == [
        "fleet_services.a.prot",
        "fleet_services.a.recipe",
        "fleet_services.a.hosts",
        "fleet_services.b",
        "fleet_services.c.port",
    ]


def test_defaults_are_not_shared_between_results() -> None:
    spec: Spec = {"type": "map", "options": {"env": {"type": "map", "default": {}}}}
    first, _ = check(spec, {}, "a")
    first["env"]["X"] = "1"
    assert check(spec, {}, "b")[0] == {"env": {}}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from([*SERVICE["options"], "nano"]) | st.text() | st.none() | st.integers(), inner)
    ),
)


@given(ANYTHING)
def test_any_value_ends_in_findings_and_the_result_passes_again(value: Any) -> None:
    result, findings = check(SERVICES, value, "fleet_services")
    assert all(finding.place.startswith("fleet_services") and finding.sentence() for finding in findings)
    if not findings:
        assert check(SERVICES, result, "fleet_services") == (result, [])


def test_values_that_contain_themselves_or_are_very_deep() -> None:
    loop: dict[str, Any] = {}
    loop["nano"] = loop
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    for value in (loop, {"nano": {**GOOD, "flags": {"x": loop, "y": deep}, "port": deep}}):
        _, findings = check(SERVICES, value, "fleet_services")
        assert findings


@pytest.mark.parametrize("kind", ["int", "count", "bytes", "number"])
@pytest.mark.parametrize("value", [True, False])
def test_a_boolean_is_no_number(kind: str, value: bool) -> None:
    """As of ``max_num_seqs: true``, though Python counts with it."""
    [finding] = check({"type": kind}, value, "x")[1]  # type: ignore[typeddict-item]
    assert (finding.rule, finding.found) == ("schema-type", f"the boolean {str(value).lower()}")


@pytest.mark.parametrize("key", ["max_num_seqs", "max_model_len"])
def test_a_boolean_is_no_workload(key: str) -> None:
    services = {"x": {"recipe": "r", "hosts": ["titan"], "port": 8000, "workload": {key: True}}}
    hosts = {"titan": {"address": "titan", "variables": {"fleet_services": services}}}
    assert [(one.rule, one.place) for one in read_declaration({"hosts": hosts, "folder": "/i"})[1]] == [
        ("schema-type", f"fleet_services.x.workload.{key}")
    ]
