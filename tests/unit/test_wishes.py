# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What owners wanted or ran (tests/data/wishes.yml), and what the plan makes of each."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from tools.golden import OF_WISHES, entries

from tools import golden

WISHES = yaml.safe_load(golden.WISHES.read_text("utf-8"))
INVENTORIES = {
    name.removeprefix("wishes/"): inventory for name, inventory, _ in entries() if name.startswith("wishes/")
}
LIBRARY, OF_RECIPES = load_all([OF_WISHES, SHIPPED_RECIPES])
# It lacks all that a recipe must have.
INCOMPLETE = "model: {repository: Qwen/Qwen3-8B}\n"


@pytest.mark.parametrize("name", WISHES)
def test_a_wish_gets_its_verdict(name: str, tmp_path: Path) -> None:
    wish = WISHES[name]
    library, of_recipes = LIBRARY, OF_RECIPES
    if name == "recipe-too-short":
        (tmp_path / "qwen3-8b.yml").write_text(INCOMPLETE)
        library, of_recipes = load_all([tmp_path, SHIPPED_RECIPES])
    rows = plan_fleet(INVENTORIES[name], library, of_recipes)["findings"]
    found = {
        severity: {row["rule"] for row in rows if row["severity"] == severity} for severity in ("error", "warning")
    }
    assert found["error"] == {*wish.get("errors", "").split()}
    assert {*wish.get("warnings", "").split()} <= found["warning"]


def test_a_small_model_takes_what_its_workload_needs() -> None:
    """8.5 GiB of weights and four requests of 16K tokens had taken 0.85 of the machine."""
    plan = plan_fleet(INVENTORIES["gemma-12b-coder"], LIBRARY, OF_RECIPES)
    assert plan["services"]["g12"]["kv"]["max_concurrency"] == pytest.approx(4, abs=0.01)
    assert plan["hosts"]["titan"]["memory"]["g12"]["left"]["expected"] / 2**30 > 90


def test_a_model_named_as_a_recipe_is_refused_with_what_to_write() -> None:
    (row,) = [
        row
        for row in plan_fleet(INVENTORIES["model-named-as-recipe"], LIBRARY)["findings"]
        if row["severity"] == "error"
    ]
    assert row["remedy"] == "write model: Qwen/Qwen3-8B instead of recipe"


def test_another_model_that_no_host_can_hold_is_refused_by_its_size() -> None:
    """122e9 parameters in 16 bits on one host, and the prediction layer that the recipe's flags load."""
    plan = plan_fleet(INVENTORIES["other-model-too-large"], LIBRARY, OF_RECIPES)
    assert plan["hosts"]["titan"]["memory"]["m"]["weights"]["expected"] / 2**30 == pytest.approx(233, abs=1)


def test_idle_memory_after_offloading_is_less() -> None:
    """60 GiB of KV cache in the host's memory are 60 GiB of the one memory."""
    lines = plan_fleet(INVENTORIES["offload-to-the-same-memory"], LIBRARY, OF_RECIPES)["hosts"]["titan"]["memory"]["q"]
    assert lines["offload"]["expected"] == 60 << 30
    assert lines["left"]["expected"] < 40 << 30


def test_adapters_are_counted_and_mounted() -> None:
    """Of rank 64, four at once; the folder that the service names is in its container, and must be there."""
    plan = plan_fleet(INVENTORIES["adapters"], LIBRARY, OF_RECIPES)
    titan = plan["hosts"]["titan"]
    assert 3.5 < titan["memory"]["q"]["adapters"]["expected"] / 2**30 < 4
    assert {"source": "/srv/lora/sql", "target": "/srv/lora/sql", "read_only": True} in titan["services"][0][
        "container"
    ]["mounts"]
    assert "/srv/lora/sql" in titan["needs"]["paths"]


def test_a_decoder_that_embeds_has_a_kv_cache() -> None:
    """36 layers x 8 heads x 128 x 2 x 2 bytes a token, 4.5 GiB for one input of 32,768 tokens."""
    plan = plan_fleet(INVENTORIES["decoder-that-embeds"], LIBRARY, OF_RECIPES)
    kv = plan["services"]["e"]["kv"]
    assert kv["bytes_per_request"] == 36 * 8 * 128 * 2 * 2 * 32768
    assert kv["bytes"] >= kv["bytes_per_request"]
    words = plan["hosts"]["titan"]["services"][0]["container"]["arguments"]
    assert words[words.index("--runner") + 1] == "pooling"
