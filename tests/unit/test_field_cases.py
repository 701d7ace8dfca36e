# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What owners reported in public (tests/data/field_cases.yml), and what the plan makes of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv import kv_for_service
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from unit.kv_cases import config

CASES: dict[str, Any] = yaml.safe_load((Path(__file__).parents[1] / "data" / "field_cases.yml").read_text("utf-8"))
PLANS = [name for name, case in CASES.items() if "services" in case]
HOSTS = ("titan", "spark-1", "spark-2", "spark-3", "spark-4")
UNSAID = {"summary": "an owner's", "sources": ["an owner"]}
STATUS = {"state": "reported", "by": "an owner", "hardware": "DGX Spark"}
IMAGE = {"reference": "vllm/vllm-openai:v0.29.0", "family": "upstream", "release": "0.29.0"}


def planned(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    for name, recipe in case.get("recipes", {}).items():
        whole = {"name": name, **UNSAID, "status": STATUS, "image": IMAGE, "host_counts": [1, 2], **recipe}
        (folder / f"{name}.yml").write_text(yaml.safe_dump(whole))
    library, of_recipes = load_all([folder, SHIPPED_RECIPES])
    unsaid = {"hosts": ["titan"], "port": 8000, "trust": ["code"]}
    variables = {
        "fleet_services": {name: unsaid | service for name, service in case["services"].items()},
        "fleet_fabric": case.get("fabric", {}),
        "fleet_host": case.get("host", {}),
    }
    hosts = {name: {"address": f"10.0.0.{at}", "port": 22, "variables": variables} for at, name in enumerate(HOSTS, 1)}
    return plan_fleet({"hosts": hosts, "folder": str(folder)}, library, of_recipes)


@pytest.mark.parametrize("name", PLANS)
def test_a_report_gets_its_verdict(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    plan = planned(case, tmp_path)
    rules = {
        kind: {row["rule"] for row in plan["findings"] if row["severity"] == kind}
        for kind in ("error", "warning", "hint")
    }
    words = "\n".join(f"{row['place']}: {row['found']}; {row['expected']}; {row['remedy']}" for row in plan["findings"])
    assert rules["error"] == {*case.get("errors", "").split()}
    assert {*case.get("warnings", "").split()} <= rules["warning"]
    assert {*case.get("hints", "").split()} <= rules["hint"]
    assert [text for text in case.get("speaks_of", []) if text not in words] == []
    assert [text for text in case.get("silent_about", []) if text in words] == []
    if rules["error"]:
        return
    (service,) = case["services"]
    host = (case["services"][service].get("hosts") or ["titan"])[-1]
    part = plan["hosts"][host]
    lines = {line: row["expected"] / 2**30 for line, row in part["memory"][service].items() if isinstance(row, dict)}
    assert lines["left"] == pytest.approx(case.get("left_gib", lines["left"]), abs=0.5)
    assert lines.get("kept_free", 0) == case.get("kept_gib", 0)
    assert case.get("staged") in {None, *(model["repository"] for model in part["models"])}
    variables = part["services"][0]["container"]["env"]
    assert {key: variables.get(key) for key in case.get("env", {})} == case.get("env", {})


@pytest.mark.parametrize("name", [name for name in CASES if "elsewhere" in CASES[name]])
def test_another_case_has_its_test(name: str) -> None:
    file, test = CASES[name]["elsewhere"].split()
    assert f"def {test}(" in (Path(__file__).parent / file).read_text("utf-8")


@pytest.mark.parametrize("name", [name for name in CASES if "kv" in CASES[name]])
def test_a_pool_is_that_of_the_log(name: str) -> None:
    kv = CASES[name]["kv"]
    pool = kv_for_service(config(kv["config"]), kv["flags"], kv["version"], long_allowed=kv.get("long", False)).pool(
        int(kv["gib"] * 2**30)
    )
    assert pool["tokens"] == pytest.approx(kv["tokens"], rel=1e-6)
    assert pool["block_size"] == kv.get("block_size", pool["block_size"])
