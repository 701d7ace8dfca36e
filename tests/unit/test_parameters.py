# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights' sizes counted from config.json, against what models are published with and what boots have loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.parameters import parameters, size_of_weights
from hypothesis import given
from hypothesis import strategies as st

CONFIGS = Path(__file__).parents[2] / "recipes" / "configs"
# Parameters in 1e9, as the publisher's card or the name has them.
PUBLISHED = {
    **{"bge-base-en-v1.5": 0.109, "deepseek-v3": 671, "deepseek-v4-flash": 284, "devstral-small-2-24b": 24},
    **{
        "gemma-4-12b": 11.96,
        "gemma-4-26b-a4b": 26,
        "gemma-4-31b": 31,
        "glm-4.5-air": 106,
        "glm-4.7-flash": 30,
        "glm-5.2": 744,
    },
    **{"gpt-oss-120b": 116.8, "gpt-oss-20b": 20.9, "llama-3.1-8b": 8.03, "llama-3.3-70b": 70.55, "mimo-v2-flash": 309},
    **{"minimax-m2.5": 229, "minimax-m3": 428, "nemotron-3-nano-30b-a3b": 31.6, "nemotron-3-super-120b-a12b": 120.6},
    **{"nemotron-3-ultra-550b-a55b": 550, "nemotron-3.5-lightning-30b-a3b": 31.6, "qwen3-0.6b": 0.6},
    **{"qwen3-1.7b": 1.7, "qwen3-8b": 8.19, "qwen3-32b": 32.76, "qwen3-30b-a3b": 30.53, "qwen3-235b-a22b": 235.1},
    **{"qwen3-coder-480b-a35b": 480.2, "qwen3-coder-next": 80, "qwen3-vl-2b": 2.13, "qwen3-vl-4b": 4.44},
    **{"qwen3-vl-8b": 8.77, "qwen3-vl-30b-a3b": 31.1, "qwen3-vl-32b": 33.4, "qwen3-vl-235b-a22b": 235.7},
    **{"qwen3.5-27b": 27.4, "qwen3.5-35b-a3b": 35, "qwen3.5-122b-a10b": 122, "qwen3.5-397b-a17b": 397},
    **{"qwen3.6-27b": 27.4, "qwen3.6-35b-a3b": 35},
}
# GiB that were loaded: recipes' records and boots of this project's. drafts: with the prediction layers.
# error: of what is expected, in per cent, at most; the 27B's 16.8 is a guide's "about 18 GB", less than its parameters
# take in four bits with 16 for what makes logits.
LOADED = [
    ("nemotron-3-nano-30b-a3b", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", "modelopt", False, 17.7, 4),
    ("nemotron-3-super-120b-a12b", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", "modelopt", True, 75.0, 4),
    ("qwen3.6-35b-a3b", "nvidia/Qwen3.6-35B-A3B-NVFP4", "modelopt", True, 21.94, 4),
    ("qwen3.6-27b", "unsloth/Qwen3.6-27B-NVFP4", "compressed-tensors", True, 16.8, 14),
    ("gemma-4-31b", "nvidia/Gemma-4-31B-IT-NVFP4", "modelopt", False, 19.6, 4),
    ("gemma-4-26b-a4b", "org/gemma-4-26B-A4B-it", "modelopt", False, 15.4, 4),
    ("qwen3.5-122b-a10b", "RedHatAI/Qwen3.5-122B-A10B-NVFP4", "compressed-tensors", False, 70.4, 4),
    ("qwen3.5-35b-a3b", "Qwen/Qwen3.5-35B-A3B-FP8", "fp8", False, 34.71, 4),
    ("qwen3.6-35b-a3b", "Qwen/Qwen3.6-35B-A3B", None, False, 65.2, 4),
    ("qwen3-coder-next", "Qwen/Qwen3-Coder-Next-FP8", "fp8", False, 74.9, 4),
    ("bge-base-en-v1.5", "BAAI/bge-base-en-v1.5", None, False, 0.2, 4),
    ("gpt-oss-120b", "openai/gpt-oss-120b", None, False, 60.8, 4),
    ("gpt-oss-20b", "openai/gpt-oss-20b", None, False, 12.8, 4),
]
# By rank, over two: cluster owner's notes.
OF_RANKS = [
    ("qwen3.5-122b-a10b", "Qwen/Qwen3.5-122B-A10B-FP8", "fp8", 59.1),
    ("qwen3-vl-235b-a22b", "QuantTrio/Qwen3-VL-235B-A22B-Instruct-AWQ", "awq", 58.0),
]


def config(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text("utf-8"))
    return read


@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIGS.glob("*.json")))
def test_a_config_has_the_parameters_that_its_model_is_published_with(name: str) -> None:
    counted = parameters(config(name))
    assert counted is not None
    if name in PUBLISHED:
        assert counted.total / 1e9 == pytest.approx(PUBLISHED[name], rel=0.015)


@pytest.mark.parametrize(("name", "repository", "quantization", "drafts", "loaded", "error"), LOADED)
def test_weights_are_within_their_bounds(
    name: str, repository: str, quantization: str | None, drafts: bool, loaded: float, error: int
) -> None:
    found = size_of_weights(config(name), repository, quantization, drafts=drafts)
    assert found is not None
    assert found.low <= loaded * 2**30 <= found.high
    assert found.expected / 2**30 == pytest.approx(loaded, rel=error / 100)


@pytest.mark.parametrize(("name", "repository", "quantization", "loaded"), OF_RANKS)
def test_a_rank_holds_its_share_and_what_is_copied(
    name: str, repository: str, quantization: str, loaded: float
) -> None:
    found = size_of_weights(config(name), repository, quantization)
    assert found is not None
    shares = [(size - found.copied) / 2 + found.copied for size in (found.low, found.expected, found.high)]
    assert shares[0] <= loaded * 2**30 <= shares[2]
    assert shares[1] / 2**30 == pytest.approx(loaded, rel=0.02)


@pytest.mark.parametrize(
    ("repository", "quantization", "written", "expected"),
    [
        ("a/b", None, None, "none"),
        ("a/b-NVFP4", None, None, "nvfp4"),
        ("a/b", "modelopt", None, "nvfp4"),
        ("a/b-FP8", "modelopt", None, "fp8"),
        ("a/b-AWQ", "compressed-tensors", None, "int4"),
        ("a/b", "gptq", None, "int4"),
        ("a/b-FP8", None, {"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ("a/b", None, {"quant_method": "compressed-tensors", "format": "pack-quantized"}, "int4"),
        ("a/b", None, {"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
    ],
)
def test_how_a_checkpoint_is_quantized(
    repository: str, quantization: str | None, written: dict[str, Any] | None, expected: str
) -> None:
    """What config.json says counts before the name, and the name before the recipe."""
    read = config("qwen3-8b") | ({"quantization_config": written} if written else {})
    found = size_of_weights(read, repository, quantization)
    assert found is not None
    assert found.quantized == expected


ANYTHING = st.integers(-(2**40), 2**40) | st.text(max_size=8) | st.none() | st.booleans() | st.lists(st.integers(0, 9))


@given(st.sampled_from(sorted(PUBLISHED)), st.data())
def test_any_value_in_a_config_ends_in_a_size_or_none(name: str, data: st.DataObject) -> None:
    read = config(name)
    part = next((read[key] for key in ("text_config",) if isinstance(read.get(key), dict)), read)
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(ANYTHING)
    found = size_of_weights(read, "a/b")
    assert found is None or found.low <= found.expected <= found.high
