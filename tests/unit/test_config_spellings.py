# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Families of models that no recipe has: their config.json spells sizes, layers and quantization in ways of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.speed.of_model import shape_of
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.parameters import parameters, size_of_weights

# Keys of published files that make the shape, and the billions of parameters of the model's card, all and active.
MODELS = json.loads((Path(__file__).parents[1] / "data" / "config_spellings.json").read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_family_is_counted_whatever_its_file_calls_things(name: str) -> None:
    """Cards round, and some count the embedding as active."""
    total, active, config = (MODELS[name][key] for key in ("total", "active", "config"))
    counted, shape = parameters(config), shape_of(config, None)
    assert counted is not None and shape is not None
    assert counted.total / 1e9 == pytest.approx(total, rel=0.05)
    parts = (shape.attention.count, shape.dense.count, shape.output.count, shape.routed.count * shape.chosen)
    assert sum(parts) / 1e9 == pytest.approx(active, rel=0.22)


@pytest.mark.parametrize(
    ("name", "caches"),
    [
        ("Gemma 3 27B", {(52, 1024), (10, 0)}),
        ("Gemma 2 9B", {(21, 4096), (21, 0)}),
        ("Mistral 7B 0.1", {(32, 4096)}),
        ("Llama 4 Scout", {(36, 8192), (12, 0)}),
        ("EXAONE 4.0 32B", {(48, 4096), (16, 0)}),
        ("Command R7B", {(24, 4096), (8, 0)}),
        ("Trinity Mini", {(24, 2048), (8, 0)}),
        ("Granite 4.0 H Small", {(4, 0)}),
        ("LFM2 8B A1B", {(6, 0)}),
        ("Kimi Linear 48B A3B", {(7, 0)}),
        ("Jamba 1.5 Mini", {(4, 0)}),
        ("MiniMax Text 01", {(10, 0)}),
        ("Falcon H1 1.5B", {(24, 0)}),
        ("Qwen2 57B A14B", {(28, 0)}),
    ],
)
def test_layers_that_look_back_on_a_window_or_not_at_all_are_known(name: str, caches: set[tuple[int, int]]) -> None:
    shape = shape_of(MODELS[name]["config"], None)
    assert shape is not None
    assert {(cache.layers, cache.window) for cache in shape.caches} == caches
    assert bool(shape.state) == (name.split(maxsplit=1)[0] in {"Granite", "Kimi", "Jamba", "MiniMax", "Falcon"})


def tensors(bits: int, kind: str, form: str | None = None, size: int | None = None) -> dict[str, Any]:
    """As llm-compressor writes it."""
    weights = {"num_bits": bits, "type": kind, "group_size": size, "strategy": "group", "actorder": None}
    group = {"weights": weights, "input_activations": None, "targets": ["Linear"]}
    cache = {"num_bits": 8, "type": "float"}
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "config_groups": {"0": group},
        "kv_cache_scheme": cache,
    }


QUANTIZED: list[tuple[str, dict[str, Any]]] = [
    ("fp8", {"quant_method": "fp8", "weight_block_size": [128, 128]}),
    ("fp8", {"quant_method": "fbgemm_fp8"}),
    ("fp8", tensors(8, "float", "float-quantized")),
    ("fp8", tensors(8, "float")),
    ("int8", tensors(8, "int", "pack-quantized")),
    ("int8", tensors(8, "int", "int-quantized")),
    ("int4", tensors(4, "int", "pack-quantized", 128)),
    ("int4", tensors(4, "int", "pack-quantized", 32)),
    ("nvfp4", tensors(4, "float", "nvfp4-pack-quantized", 16)),
    ("nvfp4", tensors(4, "float", None, 16)),
    ("mxfp4", tensors(4, "float", "mxfp4-pack-quantized", 32)),
    ("mxfp4", tensors(4, "float", None, 32)),
    ("mxfp4", {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}),
    ("mxfp4", {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}}}),
    ("fp8", {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}}),
    ("nvfp4", {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
    ("nvfp4", {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": {"quant_algo": "NVFP4"}}}),
    ("nvfp4", {"quant_method": "modelopt_fp4", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}),
    ("fp8", {"quant_method": "modelopt", "quant_algo": "FP8"}),
    ("int4", {"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}),
    ("int4", {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False}),
    ("int8", {"quant_method": "bitsandbytes", "load_in_4bit": False, "load_in_8bit": True}),
    ("int8", {"quant_method": "gptq", "bits": 8}),
    ("int4", {"quant_method": "gptq", "bits": 4, "group_size": 32}),
    ("int4", {"quant_method": "intel/auto-round", "bits": 4}),
    ("int4", {"quant_method": "awq"}),
    ("int4", {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}}),
    ("fp8", {"quant_method": "torchao", "quant_type": {"default": {"_type": "Float8WeightOnlyConfig"}}}),
    ("int4", {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4}}}),
    ("int8", {"quant_method": "experts_int8"}),
    ("none", {"quant_method": "of_nobody", "modules_to_not_convert": ["fp8_gate"]}),
]


@pytest.mark.parametrize(("algorithm", "written"), QUANTIZED)
def test_a_quantization_config_is_read_in_each_spelling(algorithm: str, written: dict[str, Any]) -> None:
    config = {**MODELS["Mixtral 8x7B"]["config"], "quantization_config": written}
    sized = size_of_weights(config, "somebody/a-model")
    assert sized is not None and sized.quantized == algorithm


@pytest.mark.parametrize(("name", "algorithm"), [("m-MXFP4", "mxfp4"), ("m-FP4", "nvfp4"), ("m-GPTQ-Int8", "int8")])
def test_a_name_of_mxfp4_is_not_nvfp4(name: str, algorithm: str) -> None:
    sized = size_of_weights(MODELS["Mixtral 8x7B"]["config"], f"somebody/{name}")
    assert sized is not None and sized.quantized == algorithm
