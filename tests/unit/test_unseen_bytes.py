# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan counted for nothing, or shown in figures that nobody asked for: drafters, online FP8, vLLM's defaults."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.sizes import GIB
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.parameters import drafter_bytes
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet

LIBRARY, _ = load_all([SHIPPED_RECIPES])
VLLM_28 = {"reference": "vllm/vllm-openai:v0.28.0"}


def planned(recipe: str, hosts: tuple[str, ...] = ("titan",), **service: Any) -> dict[str, Any]:
    written = {"recipe": recipe, "hosts": list(hosts), "port": 8000, "trust": ["code"], **service}
    fabric = {"cables": [["spark-2:1", "spark-3:1"]]} if len(hosts) > 1 else {}
    variables = {"fleet_services": {"x": written}, "fleet_fabric": fabric}
    addresses = {host: f"192.0.2.{at}" for at, host in enumerate(hosts, 1)}
    rows = {host: {"address": address, "port": 22, "variables": variables} for host, address in addresses.items()}
    return plan_fleet({"hosts": rows, "folder": "."}, LIBRARY)


def weights(plan: dict[str, Any]) -> int:
    return int(plan["hosts"]["titan"]["memory"]["x"]["weights"]["expected"])


def text_of(plan: dict[str, Any], rule: str) -> str:
    rows = [row for row in plan["findings"] if row["rule"] == rule]
    return " ".join(f"{row['found']} {row['expected']} {row['remedy']}" for row in rows)


def drafting(method: str, model: str) -> dict[str, Any]:
    return {"speculative-config": {"method": method, "model": model, "num_speculative_tokens": 4}}


def test_a_draft_model_of_known_shape_is_sized_and_weighs() -> None:
    alone = planned("qwen3-32b-nvfp4", image=VLLM_28)
    both = planned("qwen3-32b-nvfp4", image=VLLM_28, flags=drafting("draft_model", "Qwen/Qwen3-0.6B"))
    assert both["services"]["x"]["kv"]["tokens"]
    assert 1.0 * GIB < weights(both) - weights(alone) < 1.6 * GIB


def test_a_drafter_that_shares_the_models_embeddings_weighs_its_layers() -> None:
    shape = {
        **{"vocab_size": 248320, "hidden_size": 2048, "num_hidden_layers": 1, "intermediate_size": 6144},
        **{"num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128, "architectures": ["Qwen3ForCausalLM"]},
    }
    alone, shared = drafter_bytes(shape, "a/model"), drafter_bytes(shape, "a/model-DFlash")
    assert alone - shared > 2 * 2 * 248320 * 2048 * 0.99
    assert 0 < shared < 0.2 * GIB
    assert drafter_bytes({"architectures": ["X"]}, "a/b-DFlash") == 0


def test_a_drafter_without_a_config_is_assumed() -> None:
    plan = planned("qwen3-8b-fp8", image=VLLM_28, flags=drafting("eagle3", "AngelSlim/Qwen3-8B_eagle3"))
    kv = plan["services"]["x"]["kv"]
    assert not kv["exact"] and "one layer like the model's" in kv["assumed"]


def test_a_drafter_of_unknown_size_is_named() -> None:
    plan = planned("qwen3-8b-fp8", image=VLLM_28, flags=drafting("eagle3", "AngelSlim/Qwen3-8B_eagle3"))
    assert "AngelSlim/Qwen3-8B_eagle3" in text_of(plan, "memory-drafter-unknown")
    known = planned("qwen3-32b-nvfp4", image=VLLM_28, flags=drafting("draft_model", "Qwen/Qwen3-0.6B"))
    ngram = {"speculative-config": {"method": "ngram", "num_speculative_tokens": 4}}
    assert not text_of(known, "memory-drafter-unknown")
    assert not text_of(planned("qwen3-8b-fp8", flags=ngram), "memory-drafter-unknown")


@pytest.mark.parametrize("quantization", ["fp8", "fp8_per_tensor"])
def test_weights_that_vllm_quantizes_while_it_loads_are_half(quantization: str) -> None:
    whole, half = planned("qwen3-1.7b"), planned("qwen3-1.7b", flags={"quantization": quantization})
    assert 0.45 < weights(half) / weights(whole) < 0.75


def test_nobody_has_to_find_memory_for_the_default_number_of_requests() -> None:
    plan = planned("qwen3.6-35b-a3b-nvfp4", flags={"max-num-seqs": None})
    shown = text_of(plan, "memory-pool-small")
    assert "default of vLLM" in shown and "workload.max_num_seqs" in shown and "3178" not in shown


def test_expert_parallelism_is_not_answered_with_replicas() -> None:
    flags = {"data-parallel-size": 2, "enable-expert-parallel": True}
    shown = text_of(planned("gpt-oss-120b", ("spark-2", "spark-3"), flags=flags), "group-data-parallel")
    assert "replicas: 2 in the service" not in shown and "spreads the experts" in shown
    plain = planned("gpt-oss-120b", ("spark-2", "spark-3"), flags={"data-parallel-size": 2})
    assert "write replicas: 2 in the service" in text_of(plain, "group-data-parallel")
