# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import runpy
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES, default_layer, fact, facts
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library, Recipe, load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.releases import classes_of, load
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.version import parse
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv import size_pool
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.propose import own_code
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet

LIBRARY, FINDINGS = load_all([SHIPPED_RECIPES])
SIZED = {"max_model_len": 8192, "max_num_seqs": 1, "kv_cache_dtype": "fp8", "tensor_parallel_size": 4}
RECIPES = sorted(LIBRARY.recipes.values(), key=lambda recipe: recipe.name)
OF_VLLM = [recipe for recipe in RECIPES if recipe.data["engine"] == "vllm"]
# Whose report says that the engine does not read the checkpoint without its publisher's code.
NEEDS_CODE = {"laguna-s-2.1-nvfp4": "MiaAI-Lab/Laguna-S-2.1-DGX-Spark-RTX-6000-PRO"}
# Their tags move, and nobody has published which vLLM these hold today.
MOVING = {"eugr/spark-vllm-b12x:latest", "eugr/spark-vllm:latest"}
EXPECTED = {
    "command-a-plus-w4a4",
    "deepseek-v4.1-flash",
    "glm-5.2-nvfp4",
    "inkling-small-nvfp4",
    "laguna-s-2.1-nvfp4",
    "mimo-v2.6-flash",
    "mistral-small-4-119b-nvfp4",
    "qwen3.8-27b-nvfp4-nvidia",
    "deepseek-v4-flash-0731",
    "deepseek-v4-flash-vision-exp",
    "glm-5.3-flash-nvfp4",
    "minimax-m3-nvfp4",
    "qwen3.8-flash-next-nvfp4",
    "qwen3.8-flash-next-nvfp4-pair",
    "bge-base-en-v1.5",
    "diffusiongemma-26b-a4b-it-nvfp4",
    "gemma-4-12b-coder-mtp-nvfp4",
    "gemma-4-26b-a4b-it",
    "gemma-4-26b-a4b-it-nvfp4",
    "gemma-4-31b-it-nvfp4",
    "glm-4.7-flash-awq",
    "gpt-oss-120b",
    "gpt-oss-20b",
    "gpt-oss-20b-trtllm",
    "laguna-xs.2",
    "llama-3.1-8b-instruct-fp8",
    "llama-3.1-8b-instruct-nvfp4",
    "llama-3.1-8b-instruct-nvfp4-trtllm",
    "llama-3.3-70b-instruct-nvfp4",
    "minimax-m2-awq",
    "minimax-m2.5",
    "minimax-m2.5-awq",
    "minimax-m2.7-awq",
    "minimax-m2.7-nvfp4",
    "nemotron-3-nano-30b-a3b-fp8",
    "nemotron-3-nano-30b-a3b-nvfp4",
    "nemotron-3-nano-30b-a3b-nvfp4-ngc",
    "nemotron-3-nano-30b-a3b-nvfp4-sglang",
    "nemotron-3-nano-omni-30b-a3b-nvfp4",
    "nemotron-3-super-120b-a12b-nvfp4",
    "nemotron-3-ultra-550b-a55b-nvfp4",
    "nemotron-3.5-lightning-30b-a3b-nvfp4",
    "qwen3-1.7b",
    "qwen3-32b-nvfp4",
    "qwen3-8b-fp8",
    "qwen3-8b-nvfp4",
    "qwen3-8b-nvfp4-sglang",
    "qwen3-coder-next-fp8",
    "qwen3-coder-next-int4-autoround",
    "qwen3-vl-235b-a22b-instruct-awq",
    "qwen3-vl-235b-a22b-thinking-awq",
    "qwen3-vl-embedding-8b",
    "qwen3-vl-reranker-8b",
    "qwen3.5-122b-a10b-fp8",
    "qwen3.5-122b-a10b-int4-autoround",
    "qwen3.5-122b-a10b-nvfp4",
    "qwen3.5-35b-a3b-fp8",
    "qwen3.5-397b-a17b-fp8",
    "qwen3.5-397b-a17b-int4-autoround",
    "qwen3.6-27b-fp8",
    "qwen3.6-27b-fp8-dflash",
    "qwen3.6-27b-nvfp4",
    "qwen3.6-35b-a3b-dflash",
    "qwen3.6-35b-a3b-fp8",
    "qwen3.6-35b-a3b-fp8-dflash",
    "qwen3.6-35b-a3b-nvfp4",
    "qwen3.6-35b-a3b-nvfp4-dflash",
    "qwen3.8-27b-nvfp4-dflash2",
    "step-3.7-flash-fp8",
    "step-3.7-flash-nvfp4",
}


@pytest.fixture(params=OF_VLLM, ids=lambda recipe: recipe.name)
def recipe(request: pytest.FixtureRequest) -> Recipe:
    chosen: Recipe = request.param
    return chosen


@pytest.mark.parametrize("other", [one for one in RECIPES if one not in OF_VLLM], ids=lambda recipe: recipe.name)
def test_a_recipe_of_another_engine_is_somebody_elses_report_and_can_be_planned(other: Recipe) -> None:
    assert (other.data["status"]["state"], bool(other.data["status"]["when"])) == ("reported", True)
    for count in other.data["host_counts"]:
        assert [row for row in planned(other, count)["findings"] if row["severity"] == "error"] == []


def _listed(heading: str) -> list[list[str]]:
    """The cells of a table in docs/reference/models.md."""
    text = (SHIPPED_RECIPES.parent / "docs" / "reference" / "models.md").read_text("utf-8")
    lines = text.split(f"\n## {heading}\n")[1].split("\n## ")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")][2:]


def test_a_model_that_is_called_sized_is_sized() -> None:
    for _model, shapes, why in _listed("Without a recipe, with a known KV pool"):
        config, wrong = LIBRARY.config(shapes, "")
        assert config is not None and not wrong and why
        assert size_pool({"config": config, "flags": SIZED, "available_kv_gib": 60, "vllm_version": "0.33.0"})["tokens"]
    assert all(row[1] for row in _listed("Not sized"))


def test_every_expected_recipe_is_there_and_usable() -> None:
    assert set(LIBRARY.recipes) >= EXPECTED
    assert [finding.sentence() for finding in FINDINGS if finding.severity == "error"] == []


def test_what_a_recipe_names_is_there(recipe: Recipe) -> None:
    config = recipe.data["model"]["config"]
    if config is not None:
        assert LIBRARY.config(config, recipe.name)[1] == []
    for overlay in recipe.data["overlays"]:
        if "file" in overlay:
            assert LIBRARY.overlay(overlay, recipe.name)[1] == []


def test_a_recipe_has_what_a_plan_needs(recipe: Recipe) -> None:
    assert {"max-model-len", "max-num-seqs"} <= recipe.data["flags"].keys()
    assert not {"gpu-memory-utilization", "kv-cache-memory-bytes"} & recipe.data["flags"].keys(), "the plan computes it"
    assert recipe.data["status"]["when"]
    tools = {"tool-call-parser", "enable-auto-tool-choice"} & recipe.data["flags"].keys()
    assert len(tools) in (0, 2), "one without the other answers HTTP 400"


def test_a_publishers_code_runs_only_where_the_release_needs_it(recipe: Recipe) -> None:
    """By what decides for a model without a recipe; a recipe that has the flag says why."""
    if recipe.data["flags"].get("trust-remote-code"):
        config = LIBRARY.config(recipe.data["model"]["config"], recipe.name)[0]
        assert config is not None
        classes = classes_of(config["architectures"][0])
        near = [one.registries["architecture"] for one in load().nearest(recipe.data["image"]["release"])]
        knows = all(any(name in known for name in classes) for known in near)
        assert own_code(config, knows=knows) or NEEDS_CODE[recipe.name] in " ".join(recipe.data["sources"])
        assert "trust-remote-code" in recipe.data["reasons"]


def test_speculation_with_dflash_has_what_it_needs_on_gb10(recipe: Recipe) -> None:
    written = recipe.data["image"]["release"]
    release = parse(written or "")
    assert release is not None or recipe.data["image"]["reference"] in MOVING
    if (
        release
        and recipe.data["flags"].get("speculative-config", {}).get("method") == "dflash"
        and not release.since("0.28")
        and recipe.data["image"]["family"] != "custom"
    ):
        assert recipe.data["env"]["VLLM_USE_DEEP_GEMM"] == "0"
        assert "kv-cache-dtype" not in recipe.data["flags"]


def planned(recipe: Recipe, count: int, trust: Sequence[str] = ("code", "container")) -> dict[str, Any]:
    """On so many hosts of a switch."""
    hosts = [f"host-{number}" for number in range(count)]
    fabric = {"switches": {"switch": {"ports": {f"{host}:1": at for at, host in enumerate(hosts, 1)}}}}
    asks = bool(ENGINES[recipe.data["engine"]].spec.key.target)
    service = {"recipe": recipe.name, "hosts": hosts, "port": 8000, "trust": [*trust], "open": not asks}
    variables = {"fleet_services": {"s": service}, **({"fleet_fabric": fabric} if count > 1 else {})}
    inventory = {host: {"address": f"192.0.2.{at}", "variables": variables} for at, host in enumerate(hosts, 1)}
    return plan_fleet({"hosts": inventory, "folder": "/inventory"}, LIBRARY, FINDINGS)


def test_the_pool_of_a_recipe_is_known_on_each_number_of_hosts(recipe: Recipe) -> None:
    """But of an encoder, which has none."""
    for count in recipe.data["host_counts"]:
        plan = planned(recipe, count)
        assert [row for row in plan["findings"] if row["severity"] == "error"] == []
        kv = plan["services"]["s"]["kv"]
        assert kv["bytes_per_request"] or recipe.name == "bge-base-en-v1.5"


def test_system_calls_beyond_dockers_list_need_the_owners_word() -> None:
    """And are in the words of `docker run`; a build that reads by io_uring without them is warned of (X39)."""
    recipe = LIBRARY.recipes["qwen3.8-flash-next-nvfp4"]
    plan = planned(recipe, 1)
    container = plan["hosts"]["host-0"]["services"][0]["container"]
    assert container["security"] == ["no-new-privileges", "seccomp=unconfined"]
    assert "X39" not in {row["rule"] for row in plan["findings"]}
    refused = [row for row in planned(recipe, 1, trust=["code"])["findings"] if row["severity"] == "error"]
    assert [row["rule"] for row in refused] == ["service-trust-container"] and "io_uring" in refused[0]["found"]


def test_what_reads_by_io_uring_asks_for_it(recipe: Recipe) -> None:
    flags, env = recipe.data["flags"], recipe.data["env"]
    reads = flags.get("load-format") == "b12x" or env.get("VLLM_PLE_TABLE_MEMORY") == "disk"
    assert reads == ("seccomp" in recipe.data["container"])


def test_each_shape_without_a_recipe_has_its_reason() -> None:
    table = yaml.safe_load((SHIPPED_RECIPES.parent / "data" / "models_without.yml").read_text("utf-8"))
    listed = {row[1] for row in _listed("Without a recipe, with a known KV pool")}
    named = {recipe.data["model"].get("config") for recipe in LIBRARY.recipes.values()}
    assert not listed - table["sized"].keys(), "a row of data/models_without.yml is missing"
    # a new recipe names nothing else: a row that waited for it is left out of the list, and may stay
    assert table["sized"].keys() - listed <= named, "a row of data/models_without.yml has no shapes in recipes/configs"


def test_configs_belong_to_no_tool() -> None:
    library = Library({}, (SHIPPED_RECIPES,))
    for path in (SHIPPED_RECIPES / "configs").glob("*.json"):
        config, findings = library.config(path.stem, path.name)
        assert findings == []
        assert config is not None
        assert not [key for key in config if key.startswith("//")]


def test_every_gb10_fact_has_a_reason_and_a_source() -> None:
    for section, entries in facts().items():
        for key, entry in entries.items():
            assert set(entry) == {"value", "reason", "source"}, f"{section}.{key}"
    assert fact("hardware", "memory_total_kib") == 127_601_452
    assert default_layer("env").reasons["HF_HUB_OFFLINE"]


@pytest.fixture
def sitecustomize(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A torch and a transformers as small as the correction needs them, importable."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("from torch import backends")
    (tmp_path / "torch" / "backends.py").write_text("class cudnn:\n    enabled = True\n")
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").write_text("from . import tokenization_utils_base")
    tokenizer = "class PreTrainedTokenizerBase:\n    all_special_tokens = ['<s>']\n"
    (tmp_path / "transformers" / "tokenization_utils_base.py").write_text(tokenizer)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = set(sys.modules)
    yield SHIPPED_RECIPES / "overlays" / "ngc_25_11_sitecustomize.py"
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_the_overlay_for_ngc_25_11_corrects_both_modules(sitecustomize: Path) -> None:
    runpy.run_path(str(sitecustomize))
    torch = _imported("torch")
    transformers = _imported("transformers")
    assert torch.backends.cudnn.enabled is False
    assert transformers.tokenization_utils_base.PreTrainedTokenizerBase().all_special_tokens_extended == ["<s>"]


def _imported(name: str) -> Any:
    module: types.ModuleType = __import__(name)
    return module
