# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan counted for nothing, or shown in figures that nobody asked for: drafters, online FP8, vLLM's defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._base.sizes import GIB
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.checkpoint import require
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


# what `--quantization` makes of a checkpoint in 16 bits, and between which parts of the whole it comes to: of a dense
# model, of which the embeddings are a fifth, and of a mixture, of which nearly all are experts
DENSE, MIXTURE = "qwen3-1.7b", "Qwen/Qwen3-30B-A3B"
ONLINE: list[tuple[str, dict[str, Any], tuple[float, float], tuple[float, float]]] = [
    ("fp8", {}, (0.47, 0.55), (0.5, 0.6)),
    ("fp8_per_block", {}, (0.47, 0.55), (0.5, 0.6)),
    ("mxfp8", {}, (0.47, 0.55), (0.5, 0.6)),
    ("mxfp4", {}, (0.3, 0.4), (0.27, 0.35)),
    ("int8_per_channel_weight_only", {}, (1, 1), (0.5, 0.6)),
    ("experts_int8", {}, (1, 1), (0.5, 0.6)),
    ("nvfp4_per_token", {}, (1, 1), (0.28, 0.4)),
    ("online", {"moe": "fp8_per_block"}, (1, 1), (0.5, 0.6)),
    ("online", {"linear": {"weight": "fp8_per_block_static"}, "moe": "mxfp4"}, (0.47, 0.55), (0.27, 0.4)),
    ("fp8_per_tensor", {"moe": {"weight": "mxfp4"}}, (0.47, 0.55), (0.27, 0.4)),
    ("online", {"targets": {"*.mlp.*": "fp8_per_block"}}, (1, 1), (1, 1)),
    ("torchao", {}, (1, 1), (1, 1)),
]


def mixture(flags: dict[str, Any]) -> dict[str, Any]:
    config = {
        **{"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_hidden_layers": 48},
        **{"hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128},
        **{"vocab_size": 151936, "num_experts": 128, "moe_intermediate_size": 768, "intermediate_size": 6144},
        **{"num_experts_per_tok": 8, "max_position_embeddings": 40960},
    }
    written = {"model": MIXTURE, "hosts": ["titan"], "port": 8000, "flags": flags}
    written["image"] = {"reference": "vllm/vllm-openai:v0.33.0"}
    read = require(
        {
            **{"repository": MIXTURE, "revision": "0" * 40, "config": config, "weights_bytes": 61_066_575_872},
            **{"source": "a test", "chat_template": True},
        },
        Place(),
    )
    library = replace(LIBRARY, checkpoints={MIXTURE: read})
    titan = {"address": "192.0.2.1", "port": 22, "variables": {"fleet_services": {"x": written}}}
    return plan_fleet({"hosts": {"titan": titan}, "folder": "."}, library)


@pytest.mark.parametrize(("quantization", "settings", "dense", "experts"), ONLINE)
def test_each_way_of_quantizing_while_loading_is_weighed(
    quantization: str, settings: dict[str, Any], dense: tuple[float, float], experts: tuple[float, float]
) -> None:
    """All but FP8's had been planned in 16 bits."""
    flags = {"quantization": quantization, **({"quantization-config": settings} if settings else {})}
    image = {"reference": "vllm/vllm-openai:v0.33.0"}
    whole, made = planned(DENSE, image=image), planned(DENSE, image=image, flags=flags)
    assert dense[0] <= weights(made) / weights(whole) <= dense[1]
    assert experts[0] <= weights(mixture(flags)) / weights(mixture({})) <= experts[1]


def test_layers_that_are_left_out_make_the_size_less_certain() -> None:
    lines = [
        mixture({"quantization": "online", "quantization-config": {"moe": "fp8_per_block", "ignore": ignored}})[
            "hosts"
        ]["titan"]["memory"]["x"]["weights"]
        for ignored in ([], ["*.layers.0.*"])
    ]
    assert lines[0]["high"] < 0.6 * 61_066_575_872 < 0.99 * 61_066_575_872 < lines[1]["high"]


@pytest.mark.parametrize("word", ["float32", "float"])
def test_weights_in_32_bits_take_twice_the_memory(word: str) -> None:
    """They had been planned as in 16."""
    plain, doubled = (mixture(flags)["hosts"]["titan"]["memory"]["x"] for flags in ({}, {"dtype": word}))
    assert doubled["weights"]["expected"] == pytest.approx(2 * plain["weights"]["expected"], rel=0.02)
    assert doubled["runtime"]["expected"] > plain["runtime"]["expected"]


@pytest.mark.parametrize("word", ["auto", "bfloat16", "half"])
def test_other_words_for_16_bits_change_nothing(word: str) -> None:
    assert weights(planned(DENSE, flags={"dtype": word})) == weights(planned(DENSE))


def test_copies_of_experts_are_weighed() -> None:
    """64 copies beside 256 experts are a fourth of them, in each layer; nothing was counted."""
    recipe, hosts = "qwen3.5-122b-a10b-fp8", ("spark-2", "spark-3")
    flags = {"enable-expert-parallel": True, "enable-eplb": True}

    def on_one(**more: Any) -> int:
        plan = planned(recipe, hosts, flags={**flags, **more})
        return int(plan["hosts"]["spark-2"]["memory"]["x"]["weights"]["expected"])

    by_map, dotted = (
        on_one(**{"eplb-config": {"num_redundant_experts": 64}}),
        on_one(**{"eplb-config.num_redundant_experts": 64}),
    )
    assert by_map == dotted
    assert 12 * GIB < by_map - on_one() < 15 * GIB


@pytest.mark.parametrize(("written", "each"), [("fp8", 1.0), ("nvfp4", 0.5625)])
def test_a_quantized_copy_of_the_output_layer_is_weighed(written: str, each: float) -> None:
    recipe, image = "qwen3.6-27b-nvfp4", {"reference": "vllm/vllm-openai:v0.33.0"}
    mtp = {"method": "mtp", "num_speculative_tokens": 3}
    plain = planned(recipe, image=image, flags={"speculative-config": mtp})
    copy = planned(recipe, image=image, flags={"speculative-config": {**mtp, "draft_lm_head_quantization": written}})
    assert weights(copy) - weights(plain) == pytest.approx(248320 * 5120 * each, rel=0.01)
