# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Systems that owners ran before this collection: each plans as it ran, or the plan says why it can't."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from tools.golden import OF_WISHES, ROOT, entries, inventory_of, with_variables

ROWS: list[dict[str, Any]] = yaml.safe_load((ROOT / "tests" / "data" / "seed_systems.yml").read_text())
WISHES = {name.removeprefix("wishes/"): inventory for name, inventory, _ in entries() if name.startswith("wishes/")}
EXAMPLE = inventory_of(ROOT / "inventories" / "example")
LIBRARY, OF_RECIPES = load_all([OF_WISHES, SHIPPED_RECIPES])
GIB = 2**30


def _plan(row: dict[str, Any], folder: Path) -> dict[str, Any]:
    if "wish" in row:
        return plan_fleet(WISHES[row["wish"]], LIBRARY, OF_RECIPES)
    own = {"hosts": ["titan"], "port": 8000, "trust": ["code", "mounts"]}
    services = {name: own | service for name, service in row["services"].items()}
    library, of_recipes = LIBRARY, OF_RECIPES
    if "recipe_with" in row:
        (service,) = services.values()
        recipe = yaml.safe_load((SHIPPED_RECIPES / f"{service['recipe']}.yml").read_text())
        (folder / f"{service['recipe']}.yml").write_text(yaml.safe_dump(recipe | row["recipe_with"]))
        library, of_recipes = load_all([folder, SHIPPED_RECIPES])
    variables = {"fleet_services": services, **({"fleet_fabric": row["fabric"]} if "fabric" in row else {})}
    return plan_fleet(with_variables(EXAMPLE, variables), library, of_recipes)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["system"])
def test_a_system_that_ran_plans_as_it_ran_or_is_refused_truly(row: dict[str, Any], tmp_path: Path) -> None:
    plan = _plan(row, tmp_path)
    rows = {
        severity: [one for one in plan["findings"] if one["severity"] == severity] for severity in ("error", "warning")
    }
    assert {one["rule"] for one in rows["error"]} == {*row.get("errors", "").split()}, rows["error"]
    assert {*row.get("warnings", "").split()} <= {one["rule"] for one in rows["warning"]}
    asked = {*row.get("errors", row.get("warnings", "")).split()}
    shown = " ".join(str(one) for one in [*rows["error"], *rows["warning"]] if one["rule"] in asked)
    assert row.get("why", "") in shown
    for service, figures in row.get("ran", {}).items():
        kv = plan["services"][service]["kv"]
        found = {"kv_gib": kv["bytes"] / GIB, "requests": kv["max_concurrency"]}
        for figure, (low, high) in figures.items():
            assert low <= found[figure] <= high, (service, figure, found[figure])
    for service, unit in row.get("unit", {}).items():
        assert plan["services"][service]["kv"]["prefix_unit"] >= unit
    hosts = [plan["hosts"][host] for service in plan["services"].values() for host in service["hosts"][:1]]
    for one in hosts[:1]:
        container = one["services"][0]["container"]
        words = container["arguments"]
        for flag, value in row.get("flags", {}).items():
            assert words[words.index(f"--{flag}") + 1] == value
        assert {key: container[key] for key in row.get("container", {})} == row.get("container", {})
        assert row.get("mounted") in (None, *(mount["target"] for mount in container["mounts"]))
        assert row.get("staged") in (None, *(model["repository"] for model in one["models"]))
