# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our own inventories, and what scenarios declare over the lab's, are planned without an error: a lab finds it late."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from tools.golden import INVENTORIES, inventory_of

ROOT = Path(__file__).resolve().parents[2]
LAB = "inventories/lab"
DECLARED = [
    *((name, None) for name in INVENTORIES),
    *((LAB, path) for path in sorted(ROOT.glob("extensions/molecule/*/vars/fleet.yml"))),
]


@pytest.mark.parametrize(
    ("name", "over"), DECLARED, ids=lambda value: str(value.relative_to(ROOT)) if isinstance(value, Path) else value
)
def test_a_fleet_of_ours_is_planned(name: str, over: Path | None) -> None:
    fleet = inventory_of(ROOT / name)
    for key, value in (yaml.safe_load(over.read_text("utf-8")) if over else {}).items():
        if key.startswith("fleet_"):
            for host in fleet["hosts"].values():
                host["variables"][key] = value
    own = ROOT / (LAB if name != "inventories/example" else name) / "recipes"
    library, of_recipes = load_all([*([own] if own.is_dir() else []), SHIPPED_RECIPES])
    findings = plan_fleet(fleet, library, of_recipes)["findings"]
    # files beside an inventory that lies nowhere; scenarios make their keys when they begin
    beside = ("input-key-file", "input-gateway-keys", "input-monitoring-file", "input-tracing-headers")
    assert [row for row in findings if row["severity"] == "error" and row["rule"] not in beside] == []
