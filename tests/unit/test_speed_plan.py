# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan says of speed: a forecast before anything is there, and whose figures a recipe names."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils import api
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.observed import Observed
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.speed import forecast as speed
from ansible_collections.gb10.fleet.plugins.module_utils._engines.speed.of_model import shape_of
from ansible_collections.gb10.fleet.plugins.module_utils._engines.speed.served import expected_total
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.text import as_text
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring.prometheus import RULES
from tools.golden import inventory_of, with_variables

LIBRARY, _ = load_all([SHIPPED_RECIPES])
ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "recipes" / "configs"
MODELS = yaml.safe_load((ROOT / "data" / "speed_rows.yml").read_text("utf-8"))["models"]
RECIPES = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / "recipes").glob("*.yml")}


@functools.cache
def planned(recipe: str, hosts: int = 1) -> Any:
    where = ["titan"] if hosts == 1 else ["spark-2", "spark-3"]
    service = {"recipe": recipe, "hosts": where, "port": 8000, "trust": ["code"]}
    example: Any = inventory_of(ROOT / "inventories" / "example")
    inventory: Any = with_variables(example, {"fleet_services": {"s": service}})
    return api.plan(inventory)


@functools.cache
def lines(recipe: str, hosts: int = 1) -> str:
    plan = planned(recipe, hosts)
    return as_text(plan, plan["services"]["s"]["hosts"], width=400)


@pytest.mark.parametrize("name", sorted({*MODELS} & {path.stem for path in CONFIGS.glob("*.json")}))
def test_a_model_is_counted_by_what_a_step_reads(name: str) -> None:
    """Against geometries that somebody else has worked out."""
    shape, other = shape_of(json.loads((CONFIGS / f"{name}.json").read_text("utf-8")), None), MODELS[name]
    assert shape is not None
    for part, key in (
        (shape.attention, "attn"),
        (shape.dense, "mlp"),
        (shape.routed, "experts"),
        (shape.output, "head"),
    ):
        assert part.count / 1e9 == pytest.approx(other.get(key, 0), rel=0.005), key
    assert (shape.experts, shape.top_k, shape.layers) == tuple(
        other.get(k, 0) for k in ("n_experts", "top_k", "layers")
    )
    assert sorted([one.layers, one.elements, one.window] for one in shape.caches) == sorted(other["kv"])
    assert shape.state / 1e6 == pytest.approx(other.get("state_mb", 0), rel=0.001)
    assert shape.prediction / 1e9 == pytest.approx(other.get("mtp", 0), rel=0.01)


def test_bytes_follow_the_files_and_not_a_name() -> None:
    """An NVFP4 checkpoint whose attention is left in 16 bits is larger, and nothing else says so."""
    config = json.loads((CONFIGS / "qwen3.6-35b-a3b.json").read_text("utf-8"))
    small, large = (shape_of(config, int(size * 1e9), "a/b-NVFP4") for size in (23.5, 25.5))
    assert small is not None and large is not None
    assert small.attention.each < large.attention.each <= 2 and small.routed.each == large.routed.each
    assert shape_of({"architectures": ["X"]}, None) is None


def test_a_file_that_explains_too_little_gives_no_forecast() -> None:
    """Falcon 7B, whose config.json leaves its MLP and its single KV head unnamed: 14.4 GB, 6 GB of them explained."""
    config = {
        **{"architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 4544, "vocab_size": 65024},
        **{"num_attention_heads": 71, "num_hidden_layers": 32, "multi_query": True, "parallel_attn": True},
    }
    assert shape_of(config, 14_400_000_000) is None
    assert shape_of({**config, "torch_dtype": "float32"}, 14_400_000_000) is not None
    assert shape_of(config, None) is not None


def test_the_plan_shows_what_to_expect() -> None:
    of = planned("qwen3.6-27b-nvfp4")["services"]["s"]["speed"]
    assert of["alone"]["low"] < of["alone"]["decode"] < of["alone"]["high"] and of["together"]["requests"] == 8
    text = lines("qwen3.6-27b-nvfp4")
    assert f"speed      {of['alone']['decode']:.0f} tok/s, " in text and "the memory's limit" in text
    assert f"drafts pay from {of['pays']:.2g} on" in text
    assert planned("qwen3-vl-reranker-8b")["services"]["s"]["speed"] is None


def test_figures_of_other_hosts_are_not_this_plans() -> None:
    one, two = lines("qwen3.6-27b-nvfp4"), lines("qwen3.6-27b-nvfp4", 2)
    assert "measured   decode 28.41" in one and "elsewhere  decode 43.58" in one
    assert "measured   decode 43.58" in two and "elsewhere  decode 28.41" in two
    assert one.index("decode 28.41") < one.index("decode 43.58")


def test_a_figure_without_its_number_of_hosts_is_not_this_plans() -> None:
    plan = json.loads(json.dumps(planned("qwen3.6-27b-nvfp4")))
    for row in plan["services"]["s"]["measured"]:
        del row["hosts"]
    text = as_text(plan, ["titan"], width=400)
    assert "elsewhere  decode 28.41" in text and "number of hosts not stated" in text
    assert "measured   decode" not in text


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_each_figure_of_a_recipe_names_its_number_of_hosts(name: str) -> None:
    assert all("hosts" in row for row in RECIPES[name].get("measured") or ())


def test_figures_of_an_older_release_are_named_so() -> None:
    text = lines("nemotron-3-super-120b-a12b-nvfp4")
    assert "older      throughput 41.4" in text and "measured   decode 22.32" in text


def test_a_rate_without_acceptance_is_named_so() -> None:
    assert "SPEED-Bench; 3 drafts, no acceptance stated" in lines("nemotron-3-super-120b-a12b-nvfp4")
    assert "2.7 to 4.4 accepted tokens a step)" in lines("qwen3.6-35b-a3b-dflash")


@pytest.mark.parametrize("name", sorted(name for name, recipe in RECIPES.items() if recipe.get("measured")))
def test_a_recipes_figure_is_possible_or_doubted(name: str) -> None:
    """A rate that the memory's limit or the forecast of a prompt rules out does not stand as a fact."""
    recipe = RECIPES[name]
    model = recipe["model"]
    for row in recipe["measured"]:
        rated = row["what"] in ("decode", "throughput", "prefill") and {"hosts", "requests"} <= row.keys()
        if not rated or "doubtful" in row["conditions"] or not model.get("config"):
            continue
        case = {"config": json.loads((CONFIGS / f"{model['config']}.json").read_text("utf-8"))}
        case |= {"repository": model["repository"], "quantization": model.get("quantization"), "tensor": row["hosts"]}
        case |= {"requests": row["requests"], "prompt": row.get("prompt", 2048), "cache_bytes": 1}
        case |= {"kernel": str(recipe["flags"].get("moe-backend", ""))}
        if row.get("drafts"):
            case["drafts"] = {"count": row["drafts"], "accepted": row["drafts"] + 1}
        found = api.forecast(case)
        most = 1.5 * found["prefill"] if row["what"] == "prefill" else row["requests"] * found["limit"]
        assert row["value"] <= most, row


def test_no_recipe_denies_what_the_chip_has() -> None:
    reasons = [reason for recipe in RECIPES.values() for reason in recipe.get("reasons", {}).values()]
    assert not [reason for reason in reasons if "no native FP4" in reason]


def test_a_program_asks_for_a_forecast() -> None:
    config = json.loads((CONFIGS / "qwen3.6-27b.json").read_text("utf-8"))
    case = {"config": config, "repository": "nvidia/Qwen3.6-27B-NVFP4", "cache_bytes": 1}
    alone = api.forecast(case)
    assert alone["low"] == pytest.approx(0.65 * alone["decode"])
    own = api.forecast({**case, "depth": 30_000, "measured": [{"decode": 0.8 * alone["decode"]}]})
    assert own["decode"] == pytest.approx(0.8 * api.forecast({**case, "depth": 30_000})["decode"], rel=0.01)
    assert own["high"] / own["low"] < alone["high"] / alone["low"]
    assert api.forecast({"config": {}}) == {}
    with pytest.raises(FleetError, match="requests"):
        api.forecast({**case, "requests": 0})


def test_a_capped_clock_makes_all_slower() -> None:
    shape = shape_of(json.loads((CONFIGS / "qwen3-30b-a3b.json").read_text("utf-8")), None)
    assert shape is not None
    whole, capped = (speed.forecast(shape, speed.Setup(clock=clock), speed.Load()) for clock in (1.0, 0.73))
    assert 0.65 <= capped["decode"] / whole["decode"] <= 0.85 and capped["ttft_s"] > whole["ttft_s"]


def after_runs(recipe: str, rate: float | None, many: float | None = None, accepted: float | None = None) -> Any:
    """A plan that knows a benchmark of its service; without a rate, none."""
    before = planned(recipe)["services"]["s"]
    point, now = {"prompt": 512, "answer": 128, "depth": 0}, rate or 0.0
    points = [{**point, "requests": 1, "decode": [now, 1.01 * now, 0.99 * now, now]}]
    points += [{**point, "requests": 4, "decode": [many] * 4}] if many else []
    gpu = {"clock_mhz": None, "power_w": None, "heat_c": None}
    run = {"at": "2026-11-21T03:00:00Z", "accepted": accepted, **gpu, "points": points}
    record = {"service": "s", "runs": [run, run]}
    observed = Observed(speeds={"titan": {before["boot"]["key"]: record}} if rate else {})
    example: Any = inventory_of(ROOT / "inventories" / "example")
    service = {"recipe": recipe, "hosts": ["titan"], "port": 8000, "trust": ["code"]}
    of_fleet = {"fleet_services": {"s": service}, "fleet_monitoring": {"host": "titan"}}
    return plan_fleet(with_variables(example, of_fleet), LIBRARY, observed=observed)


def test_two_points_of_a_benchmark_calibrate_the_plan_and_decide_nothing() -> None:
    before, after = planned("gpt-oss-120b"), after_runs("gpt-oss-120b", 50.0, 30.0)
    was, now = (plan["services"]["s"]["speed"] for plan in (before, after))
    assert now["alone"] == was["alone"] and was["own"] is None  # both are shown
    assert now["own"]["sound"] and now["own"]["alone"]["decode"] == pytest.approx(50, rel=0.03)
    assert now["own"]["alone"]["low"] > was["alone"]["low"]
    text = as_text(after, ["titan"], width=400)
    assert f"speed      {was['alone']['decode']:.0f} tok/s" in text
    assert "benchmark  50 tok/s, 42 to 55" in text and "by its own of 2026-11-21" in text
    assert expected_total(now, 1) == pytest.approx(50, rel=0.03) and expected_total(was, 1) != expected_total(now, 1)
    assert expected_total(now, 4) == pytest.approx(120, rel=0.1)
    assert _commands(after) == _commands(after_runs("gpt-oss-120b", None))


def _commands(plan: Any) -> Any:
    """All of a plan but what it says of speed."""
    assert "gb10:expected_tokens:rate" in plan["hosts"]["titan"]["monitoring"]["files"][RULES]["content"]
    services = {name: {**one, "speed": None} for name, one in plan["services"].items()}
    return json.loads(json.dumps({**plan, "services": services, "findings": None}, default=str))


def test_a_slow_machine_is_not_its_own_measure() -> None:
    now = after_runs("gpt-oss-120b", 20.0)["services"]["s"]["speed"]
    assert not now["own"]["sound"] and expected_total(now, 1) == pytest.approx(now["alone"]["total"])
    text = as_text(after_runs("gpt-oss-120b", 20.0), ["titan"], width=400)
    assert "slower than a sound machine: doctor.yml says more" in text


def test_drafts_that_cost_more_than_they_give_are_a_hint() -> None:
    recipe = "qwen3.6-27b-nvfp4"
    pays = planned(recipe)["services"]["s"]["speed"]["pays"]
    for accepted, found in ((pays - 0.3, ["speed-drafts"]), (pays + 0.3, []), (None, [])):
        plan = after_runs(recipe, 20.0, accepted=accepted)
        rows = [row for row in plan["findings"] if row["rule"] == "speed-drafts"]
        assert [row["rule"] for row in rows] == found and all(row["severity"] == "hint" for row in rows)
    measured = after_runs(recipe, 20.0, accepted=2.2)["services"]["s"]["speed"]["own"]["alone"]
    assert measured["accepted"] == pytest.approx(2.2) and not measured["assumed"]
    assert "and gives 2.2 tokens" in as_text(after_runs(recipe, 20.0, accepted=2.2), ["titan"], width=400)
