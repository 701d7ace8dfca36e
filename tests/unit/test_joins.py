# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters that roles and playbooks join plan and results with."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._joins.hosts import (
    by_host,
    fabric_addresses,
    host_slice,
    whole_services,
)
from ansible_collections.gb10.fleet.plugins.module_utils._joins.services import changed_services, service_files


def service(name: str, **parts: Any) -> dict[str, Any]:
    whole = {
        "name": name,
        "unit": f"gb10-service-{name}.service",
        "files": {},
        "merged": [],
        "models": ["/hf"],
        "key": None,
        "secret": None,
    }
    return whole | parts


TWO = [service("a"), service("b")]


def loop(*items: tuple[Any, dict[str, Any]]) -> dict[str, Any]:
    return {"results": [{"item": item, "changed": False} | result for item, result in items]}


@pytest.mark.parametrize(
    ("results", "program", "names"),
    [
        ([], False, []),
        ([], True, ["a", "b"]),
        ([loop((TWO[1], {"changed": True}))], False, ["b"]),
        ([loop((TWO[0], {}), ([TWO[1], {"path": "/x"}], {"changed": True}))], False, ["b"]),
        # what a command prints that looks at every service is no change
        ([{}, {"skipped": True}, loop((TWO[0], {"stdout": "sha256:0\nsha256:0"}))], False, []),
    ],
)
def test_what_starts_anew(results: list[Any], program: bool, names: list[str]) -> None:
    assert changed_services(TWO, results, {"changed": program}) == names


def test_what_a_service_reads() -> None:
    one = service("a", files={"/f": {}}, merged=[{"path": "/m"}], key={"path": "/k"}, secret={"path": "/s"})
    assert service_files(one) == ["/f", "/hf", "/k", "/m", "/s"]


def test_a_host_gets_its_slice_with_the_services_of_the_run() -> None:
    plan = {"hosts": {"titan": {"images": [1], "services": TWO}}}
    assert host_slice({"plan": plan, "services": ["b"]}, "titan") == {"images": [1], "services": [TWO[1]]}


def test_what_hosts_have_registered() -> None:
    variables: dict[str, Any] = {
        "a": {"key": {"public": "A", "changed": False}},
        "b": {"key": {"skipped": True}},
        "c": {},
    }
    assert by_host(variables, "abc", "key", "public") == {"a": "A"}
    assert by_host(variables, "ab", "key", "changed") == {"a": False}
    assert by_host(variables, "abc", "key") == {"a": variables["a"]["key"], "b": {"skipped": True}}


def test_addresses_of_all_hosts() -> None:
    readings = {"a": {"links": {"x": {"addresses": ["10.0.0.1/24", "fe80::1/64"]}, "y": {"addresses": []}}}}
    assert fabric_addresses(readings) == ["10.0.0.1", "fe80::1"]


def test_one_missing_host_takes_its_services_alone() -> None:
    """newcomer.md W11."""
    slices = {"services": [service("solo", hosts=["a"]), service("pair", hosts=["a", "b"])], "fabric": {}}
    assert whole_services(slices, ["a", "b"]) == {"slice": slices, "left_out": []}
    found = whole_services(slices, ["a"])
    assert [one["name"] for one in found["slice"]["services"]] == ["solo"]
    [sentence] = found["left_out"]
    assert sentence.startswith("pair: b can't be reached or was refused")
