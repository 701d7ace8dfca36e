# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._plan.recipe_lint import (
    _FITS,
    Verdict,
    _order,
    lint_recipes,
    report,
)

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
    lines = report([verdict]).splitlines()
    assert lines[1].split()[0] == "mine" and "known to be bad" in lines[1]
    assert lines[-1] == "0 of 1 recipes passed, 1 known to be bad"


def test_a_file_that_is_no_recipe_is_named(tmp_path: Path) -> None:
    verdict = verdicts(tmp_path, flagz={})[f"{tmp_path}/mine.yml"]
    assert (verdict.status, verdict.passed) == ("unusable", False)
    assert 'write "flags"' in report([verdict])


def test_one_table_shows_which_model_fits_on_the_hosts_that_there_are() -> None:
    lines = report(SHIPPED).splitlines()
    assert lines[0].split() == ["recipe", "hosts", "fits", "at", "once", "free", "tok/s", "download", "status"]
    fits = [one.row["fits"] for one in sorted(SHIPPED, key=_order) if one.row and one.status != "known-bad"]
    assert fits == sorted(fits, key=_FITS.index) and {"yes", "no"} <= {*fits, "no"}
    few = {"gpt-oss-120b", "gpt-oss-20b", "qwen3.5-397b-a17b-int4"} & {*LIBRARY.recipes}
    some = replace(LIBRARY, recipes={name: LIBRARY.recipes[name] for name in few})
    small = {one.name: one for one in lint_recipes(some, [], {"only": {"memory_kib": 62_800_000}})}
    assert (small["gpt-oss-20b"].row or {})["fits"] == "yes" and small["gpt-oss-20b"].passed
    assert (small["gpt-oss-120b"].row or {})["fits"] == "no" and small["gpt-oss-120b"].passed
    assert "short" in report([small["gpt-oss-120b"]])
    two = next(one for one in SHIPPED if min(LIBRARY.recipes[one.name].data["host_counts"]) == 2)
    [alone] = lint_recipes(replace(LIBRARY, recipes={two.name: LIBRARY.recipes[two.name]}), [], {"only": {}})
    assert alone.row is None and "more" in report([alone])
