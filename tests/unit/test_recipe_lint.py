# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._operations.shelf import as_text, rows
from ansible_collections.gb10.fleet.plugins.module_utils._plan.recipe_lint import Verdict, lint_recipes, report

LIBRARY, OF_RECIPES = load_all([SHIPPED_RECIPES])
SHIPPED = lint_recipes(LIBRARY, OF_RECIPES)


@pytest.mark.parametrize("verdict", SHIPPED, ids=lambda verdict: verdict.name)
def test_every_shipped_recipe_passes(verdict: Verdict) -> None:
    assert not verdict.failed, report([verdict])


def verdicts(folder: Path, **changes: Any) -> dict[str, Verdict]:
    """The verdicts on a folder that holds a copy of a shipped recipe with some keys replaced."""
    shipped = SHIPPED_RECIPES / "nemotron-3-nano-30b-a3b-nvfp4.yml"
    recipe = yaml.safe_load(shipped.read_text(encoding="utf-8")) | {"name": "mine", "reasons": {}} | changes
    (folder / "mine.yml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    found = lint_recipes(*load_all([folder, SHIPPED_RECIPES]))
    return {verdict.name: verdict for verdict in found if str(folder) in verdict.file}


def test_what_the_plan_finds_is_at_the_recipes_own_place(tmp_path: Path) -> None:
    verdict = verdicts(tmp_path, flags={"max-model-len": 4096, "gpu-memory-utilization": 0.05})["mine"]
    assert not verdict.passed
    places = [finding.place for finding in verdict.findings if finding.rule == "memory-utilization-too-low"]
    assert places == [f"{tmp_path}/mine.yml: flags.gpu-memory-utilization"]
    assert "FAILED  mine" in report([verdict])


def test_what_is_known_to_be_bad_may_be_bad(tmp_path: Path) -> None:
    status = {"state": "known-bad", "by": "me", "when": None, "hardware": "DGX Spark"}
    verdict = verdicts(tmp_path, flags={"max-model-len": 4096, "gpu-memory-utilization": 0.05}, status=status)["mine"]
    assert not verdict.failed and not verdict.passed
    assert report([verdict]).splitlines() == ["0 of 1 recipes passed, 1 known to be bad"]


def test_a_file_that_is_no_recipe_is_named(tmp_path: Path) -> None:
    verdict = verdicts(tmp_path, flagz={})[f"{tmp_path}/mine.yml"]
    assert (verdict.status, verdict.passed) == ("unusable", False)
    assert 'write "flags"' in report([verdict])


def test_one_table_shows_which_model_fits_on_the_hosts_that_there_are() -> None:
    """That of the shelf; what fits first, and the largest of these."""
    some = [
        LIBRARY.recipes[name]
        for name in ("gpt-oss-120b", "gpt-oss-20b", "qwen3.6-35b-a3b-nvfp4-dflash", "minimax-m3-nvfp4")
    ]
    found = rows(some, LIBRARY, [], {})
    names = [row["recipe"] for row in found]
    assert names.index("gpt-oss-120b") < names.index("gpt-oss-20b") and names[-1] == "qwen3.6-35b-a3b-nvfp4-dflash"
    assert [row["status"] for row in found] == ["reported"] * 3 + ["known-bad"]
    heading = as_text(found).splitlines()[0].split()
    assert heading == ["recipe", "hosts", "fits", "at", "once", "free", "tok/s", "download", "status", "pin"]
    small = {row["recipe"]: row for row in rows(some, LIBRARY, [{"memory_kib": 62_800_000}], {})}
    assert (small["gpt-oss-20b"]["fits"], small["gpt-oss-120b"]["fits"]) == ("yes", "no")
    assert "short" in small["gpt-oss-120b"]["free"]
    assert (small["minimax-m3-nvfp4"]["hosts"], small["minimax-m3-nvfp4"]["fits"]) == ("needs 4", "-")
