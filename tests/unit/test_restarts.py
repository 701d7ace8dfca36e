# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a changed key restarts, by the reference and by the plan: no row of the reference is false."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.services import service_starts
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet

ROOT = Path(__file__).resolve().parents[2]
KEYS: dict[str, Any] = yaml.safe_load((ROOT / "data" / "keys.yml").read_text("utf-8"))
CASES: dict[str, Any] = yaml.safe_load((ROOT / "tests" / "data" / "restarts.yml").read_text("utf-8"))
_BESIDE = re.compile(r"^fleet_gateway\.keys_file|api_key_file|argv|env ")
LIBRARY, _ = load_all([SHIPPED_RECIPES])


def words(key: str) -> str:
    """What the reference has under "a change restarts": the key's own, or that of the nearest above."""
    own = KEYS.get(key)
    if isinstance(own, dict) and "restarts" in own:
        return str(own["restarts"])
    return words(key.rpartition(".")[0].removesuffix(".NAME"))


def changed(variables: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """With the values at their paths; None takes a key out."""
    found = copy.deepcopy(variables)
    for path, value in changes.items():
        *above, last = path.split("/")
        place = found
        for name in above:
            place = place.setdefault(name, {})
        place[last] = value
    return found


def planned(variables: dict[str, Any], on_titan: dict[str, Any]) -> dict[str, Any]:
    hosts = {
        host: {"address": f"192.168.1.3{number}", "port": 22, "variables": variables | own}
        for number, (host, own) in enumerate({"titan": on_titan, "oak": {}, "elm": {}, "fir": {}}.items())
    }
    plan = plan_fleet({"hosts": hosts, "folder": "/none", "name": "home"}, LIBRARY)
    errors = [f"{one['place']}: {one['found']}" for one in plan["findings"] if one["severity"] == "error"]
    # what a launch is judged by, and files on this machine, decide nothing here
    assert not [text for text in errors if not _BESIDE.search(text)], errors
    return plan


def read_by(plan: dict[str, Any]) -> dict[str, Any]:
    """By service what its next start would read, as the role that restarts services sees it: what
    `service_starts` names, with the contents that the plan has of it, and where its secrets come from."""
    found: dict[str, Any] = {}
    for slice_ in plan["hosts"].values():
        for service, start in zip(slice_["services"], service_starts(slice_["services"]), strict=True):
            contents = {path: service["files"][path]["content"] for path in start["files"] if path in service["files"]}
            others = [service[name] for name in ("merged", "models", "key", "tls", "trace_headers", "definition")]
            found.setdefault(service["name"], []).append([start, contents, others])
    return found


BEFORE = read_by(planned(CASES["base"], CASES["titan"]))


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["key"])
def test_a_row_of_the_reference_holds(case: dict[str, Any]) -> None:
    variables = changed(CASES["base"], case.get("change", {}))
    after = read_by(planned(variables, changed(CASES["titan"], case.get("titan", {}))))
    restarted = sorted(name for name, read in after.items() if name in BEFORE and read != BEFORE[name])
    assert restarted == case.get("restarts", [])
    # a row that names no service restarts none, and one that names them some
    assert ("service" in words(case["key"])) == bool(restarted), f"{case['key']}: {words(case['key'])}"


def test_the_how_to_names_only_changes_that_were_tried() -> None:
    page = (ROOT / "docs" / "how-to" / "change-without-gap.md").read_text("utf-8")
    named = re.findall(r"`(fleet_\w+\.[\w.]+)`", page.partition("## What needs no restart")[2].partition("\n## ")[0])
    calm = {case["key"] for case in CASES["cases"]} - {case["key"] for case in CASES["cases"] if case.get("restarts")}
    assert len(named) > 15 and {*named} <= calm
