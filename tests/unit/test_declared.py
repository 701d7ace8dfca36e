"""What an owner writes wrong is named with its place and what to write instead."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._findings import Finding
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared import Declared, read_declaration
from hypothesis import given
from hypothesis import strategies as st

NANO: dict[str, Any] = {"recipe": "nano", "hosts": ["titan"], "port": 8003}


def read(services: Any, **titan: Any) -> tuple[Declared, list[Finding]]:
    titan_variables = {"fleet_services": services, **titan}
    hosts = {
        "titan": {"address": "10.0.0.1", "variables": titan_variables},
        "beast": {"address": "10.0.0.2", "variables": {"fleet_services": services}},
    }
    return read_declaration({"hosts": hosts, "folder": "/inventory"})


def test_a_right_declaration_has_no_findings_and_gets_its_defaults() -> None:
    declared, findings = read({"nano": NANO})
    assert findings == []
    assert declared.services["nano"]["listen"] == "0.0.0.0"
    assert declared.hosts["titan"].address == "10.0.0.1"


@pytest.mark.parametrize(
    ("services", "rule", "place", "remedy"),
    [
        ({"nano": NANO | {"prot": 1}}, "schema-unknown-key", "fleet_services.nano.prot", 'write "port"'),
        ({"nano": NANO | {"hosts": ["titn"]}}, "input-unknown-host", "fleet_services.nano.hosts", 'write "titan"'),
        ({"nano": NANO | {"port": "8003"}}, "schema-type", "fleet_services.nano.port", "write it without quotes"),
        ({"nano": NANO | {"port": 70000}}, "schema-range", "fleet_services.nano.port", ""),
        ({"nano": {"hosts": ["titan"], "port": 1}}, "schema-required", "fleet_services.nano.recipe", 'write "recipe"'),
        ({"nano": NANO | {"hosts": ["titan", "titan"]}}, "input-host-twice", "fleet_services.nano.hosts", "remove one"),
        (
            {"nano": NANO | {"api_key_file": "none"}},
            "input-key-file",
            "fleet_services.nano.api_key_file",
            "ansible-vault",
        ),
        ({"a": NANO, "b": NANO}, "input-port-twice", "fleet_services.b.port", "another port"),
        (["nano"], "schema-type", "fleet_services", ""),
    ],
)
def test_a_wrong_service_is_named(services: Any, rule: str, place: str, remedy: str) -> None:
    findings = read(services)[1]
    assert [(finding.rule, finding.place) for finding in findings] == [(rule, place)]
    assert remedy in findings[0].remedy


def test_the_other_services_can_still_be_looked_at() -> None:
    declared, _findings = read({"nano": NANO, "bad": NANO | {"port": 0}})
    assert list(declared.services) == ["nano"]


def test_a_misspelt_variable_is_found_where_it_stands() -> None:
    (finding,) = read({"nano": NANO}, fleet_servcies={})[1]
    assert finding.place == "titan: fleet_servcies"
    assert finding.remedy == 'write "fleet_services"'


def test_services_that_differ_between_hosts_are_refused() -> None:
    hosts = {
        "titan": {"address": "a", "variables": {"fleet_services": {"nano": NANO}}},
        "beast": {"address": "b", "variables": {"fleet_services": {}}},
    }
    (finding,) = read_declaration({"hosts": hosts, "folder": "/inventory"})[1]
    assert finding.rule == "input-fleet-differs"
    assert finding.place == "fleet_services"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=8,
)


@given(anything, anything)
def test_any_input_ends_in_findings_never_in_a_traceback(services: Any, host: Any) -> None:
    read(services, fleet_host=host)
    read({"nano": NANO | {"hosts": services}}, fleet_fabric=host)
