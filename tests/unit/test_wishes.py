# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Owners' wishes, as a review tried them (../shared/reviews/domain-services.yml), and what the plan makes of each.

By name: the rules of its errors, warnings that it must have, and the finding of ../shared/reviews/domain.md that it is
traced to (7: the list of its section 7).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from tools.golden import OF_WISHES, WISHES, entries

VERDICTS = {
    "dated": ("", "", "7"),
    "drafttest": ("", "memory-pool-small", "A5"),
    "emb": ("", "", "A6"),
    "f_200users16k": ("", "memory-pool-small", "B1"),
    "f_200usersutil": ("", "memory-pool-small", "B1"),
    "f_g31_16": ("", "memory-pool-small", "B1"),
    "f_nano1m": ("", "", "B2"),
    "f_vl256": ("", "memory-pool-small", "B1"),
    "f_vl256u": ("", "memory-pool-small", "B1"),
    "f_yarn_sil": ("", "R114", "B2"),
    "img1": ("", "", "A2"),
    "img1_vllm": ("", "", "A2"),
    "img2": ("", "", "A2"),
    "img3": ("service-image", "", "A2"),
    "knownbad": ("", "recipe-known-bad", "7"),
    "m_feb_small": ("", "memory-pool-small memory-tight", "B7"),
    "m_feb_tiny": ("", "memory-tight", "B7"),
    "m_nano_fi": ("", "", "7"),
    "m_vl_0.65": ("R107", "memory-pool-small", "7"),
    "m_vl_0.75": ("R107", "", "7"),
    "n_min": ("schema-required", "", "5"),
    "n_min3": ("", "", "5"),
    "n_oneline": ("", "", "7"),
    "n_override122": ("memory-does-not-fit", "", "A4"),
    "n_recipehf": ("recipe-unknown", "", "7"),
    "nv_122": ("", "memory-pool-small", "D"),
    "nv_27x2": ("", "", "B10"),
    "nv_35": ("", "", "D"),
    "nv_g26": ("", "", "D"),
    "nv_q38": ("", "memory-pool-small", "B5a"),
    "nv_super": ("", "memory-pool-small", "B1"),
    "off": ("", "X17", "A6"),
    "r_mbt": ("", "R106 memory-pool-small", "7"),
    "r_nano_fi_err": ("", "R047", "B9"),
    "r_unknown2": ("", "", "B8"),
    "s000a": ("", "R038", "B9"),
    "s001_711": ("", "", "B1"),
    "s001_8walk": ("", "", "7"),
    "s001_coder": ("", "", "B1"),
    "s001_coder85": ("", "", "B1"),
    "s001_g12": ("", "", "B8"),
    "s001_g12_92": ("", "R087 memory-tight", "B9"),
    "s001_g31": ("", "memory-pool-small", "D"),
    "s001_omni": ("R012", "", "A8"),
    "s001_suffix": ("R077", "", "7"),
    "s001_yarn": ("", "R114", "B2"),
    "s002_embed_vl": ("", "", "7"),
    "s002_feb": ("R089 memory-does-not-fit", "memory-shared-profile", "B7"),
    "s002_feb_auto": ("", "memory-pool-small memory-tight", "B7"),
    "s002_pp3": ("fabric-index-taken", "", "7"),
    "s002_vl_thinking": ("", "memory-pool-small", "7"),
    "s003": ("", "", "7"),
    "s004": ("", "", "B6"),
    "vl_pp_auto": ("", "", "A3"),
    "vl_pp_explicit": ("", "", "A3"),
    "z01_two": ("", "", "7"),
    "z02_twobig": ("memory-does-not-fit", "", "7"),
    "z05_tp2pp2": ("", "", "B10"),
    "z06_nightly": ("service-image", "", "A2"),
    "z06c_tag": ("", "", "A2"),
    "z07_sglang": ("service-image-engine", "", "C1"),
    "z08_embed": ("", "", "7"),
    "z09_mtp4": ("", "", "7"),
    "z10b": ("", "X16", "A7"),
    "z11_lora": ("", "", "A6"),
    "z12_mm": ("", "", "7"),
    "z13_dp": ("group-data-parallel", "", "B10"),
    "z14_ep": ("", "", "7"),
    "z15_chunk": ("kv-align", "", "7"),
    "z16_tp4": ("", "", "B10"),
    "z17_ring": ("", "", "A3"),
    "z17b": ("", "", "A3"),
    "z19_twoclusters": ("memory-does-not-fit", "memory-pool-small", "7"),
    "z20_kvauto": ("", "kv-dtype-unknown", "7"),
    "z22_sleep": ("service-trust-development", "", "7"),
    "z23_block": ("kv-align", "", "7"),
    "z24_033nano": ("", "", "7"),
    "z25_095": ("memory-does-not-fit", "", "7"),
    "z26_auto": ("", "", "B10"),
    "z27_embed3": ("group-executor", "", "7"),
}
FOUND = (
    {}
    if not WISHES.is_file()
    else {
        ("off" if name == "wishes/False" else name.removeprefix("wishes/")): inventory
        for name, inventory, _ in entries()
        if name.startswith("wishes/")
    }
)
LIBRARY, OF_RECIPES = load_all([OF_WISHES, SHIPPED_RECIPES])
# The file that the review began with, which lacks all that a recipe must have.
INCOMPLETE = "model: {repository: Qwen/Qwen3-8B}\n"


@pytest.mark.skipif(not FOUND, reason="../shared/reviews/domain-services.yml is not there")
def test_every_wish_has_a_verdict() -> None:
    assert FOUND.keys() == VERDICTS.keys()


@pytest.mark.skipif(not FOUND, reason="../shared/reviews/domain-services.yml is not there")
@pytest.mark.parametrize("name", sorted(FOUND))
def test_a_wish_gets_its_verdict(name: str, tmp_path: Path) -> None:
    errors, warnings, _ = VERDICTS[name]
    library, of_recipes = LIBRARY, OF_RECIPES
    if name == "n_min":
        (tmp_path / "qwen3-8b.yml").write_text(INCOMPLETE)
        library, of_recipes = load_all([tmp_path, SHIPPED_RECIPES])
    rows = plan_fleet(FOUND[name], library, of_recipes)["findings"]
    found = {
        severity: {row["rule"] for row in rows if row["severity"] == severity} for severity in ("error", "warning")
    }
    assert found["error"] == {*errors.split()}
    assert {*warnings.split()} <= found["warning"]


@pytest.mark.skipif(not FOUND, reason="../shared/reviews/domain-services.yml is not there")
def test_a_small_model_takes_what_its_workload_needs() -> None:
    """B8: 8.5 GiB of weights and four requests of 16K tokens had taken 0.85 of the machine."""
    plan = plan_fleet(FOUND["s001_g12"], LIBRARY, OF_RECIPES)
    assert plan["services"]["g12"]["kv"]["max_concurrency"] == pytest.approx(4, abs=0.01)
    assert plan["hosts"]["titan"]["memory"]["g12"]["left"]["expected"] / 2**30 > 90


@pytest.mark.skipif(not FOUND, reason="../shared/reviews/domain-services.yml is not there")
def test_a_model_named_as_a_recipe_is_refused_with_what_to_write() -> None:
    (row,) = [row for row in plan_fleet(FOUND["n_recipehf"], LIBRARY)["findings"] if row["severity"] == "error"]
    assert row["remedy"] == "write model: Qwen/Qwen3-8B instead of recipe"


@pytest.mark.skipif(not FOUND, reason="../shared/reviews/domain-services.yml is not there")
def test_another_model_that_no_host_can_hold_is_refused_by_its_size() -> None:
    """A4: 122e9 parameters in 16 bits on one host, and the prediction layer that the recipe's flags load."""
    plan = plan_fleet(FOUND["n_override122"], LIBRARY, OF_RECIPES)
    assert plan["hosts"]["titan"]["memory"]["m"]["weights"]["expected"] / 2**30 == pytest.approx(233, abs=1)


@pytest.mark.skipif(not FOUND, reason="../shared/reviews/domain-services.yml is not there")
def test_idle_memory_after_offloading_is_less() -> None:
    """A6: 60 GiB of KV cache in the host's memory are 60 GiB of the one memory."""
    lines = plan_fleet(FOUND["off"], LIBRARY, OF_RECIPES)["hosts"]["titan"]["memory"]["q"]
    assert lines["offload"]["expected"] == 60 << 30
    assert lines["left"]["expected"] < 40 << 30


@pytest.mark.skipif(not FOUND, reason="../shared/reviews/domain-services.yml is not there")
def test_adapters_are_counted_and_mounted() -> None:
    """A6: of rank 64, four at once; the folder that the service names is in its container, and must be there."""
    plan = plan_fleet(FOUND["z11_lora"], LIBRARY, OF_RECIPES)
    titan = plan["hosts"]["titan"]
    assert 3.5 < titan["memory"]["q"]["adapters"]["expected"] / 2**30 < 4
    assert {"source": "/srv/lora/sql", "target": "/srv/lora/sql", "read_only": True} in titan["services"][0][
        "container"
    ]["mounts"]
    assert "/srv/lora/sql" in titan["needs"]["paths"]


@pytest.mark.skipif(not FOUND, reason="../shared/reviews/domain-services.yml is not there")
def test_a_decoder_that_embeds_has_a_kv_cache() -> None:
    """A6: 36 layers x 8 heads x 128 x 2 x 2 bytes a token, 4.5 GiB for one input of 32,768 tokens."""
    plan = plan_fleet(FOUND["emb"], LIBRARY, OF_RECIPES)
    kv = plan["services"]["e"]["kv"]
    assert kv["bytes_per_request"] == 36 * 8 * 128 * 2 * 2 * 32768
    assert kv["bytes"] >= kv["bytes_per_request"]
    words = plan["hosts"]["titan"]["services"][0]["container"]["arguments"]
    assert words[words.index("--runner") + 1] == "pooling"
