# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.image_facts import image_of
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.config import ConfigJson
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.facts import drafter_fits, model_of

CONFIGS = Path(__file__).resolve().parents[2] / "recipes" / "configs"


@pytest.mark.parametrize(
    "name, kinds",
    [
        ("nemotron-3-nano-30b-a3b", {"moe", "hybrid", "ssm"}),
        ("nemotron-3-super-120b-a12b", {"moe", "hybrid", "ssm"}),
        ("qwen3.6-35b-a3b", {"moe", "hybrid", "vision"}),
        ("qwen3.6-27b", {"hybrid", "vision"}),
        ("qwen3-coder-next", {"moe", "hybrid"}),
        ("qwen3-vl-235b-a22b", {"moe", "vision"}),
        ("gemma-4-26b-a4b", {"moe", "vision"}),
        ("gemma-4-31b", {"vision"}),
        ("gpt-oss-120b", {"moe"}),
        ("deepseek-v3", {"moe", "mla"}),
        ("llama-3.3-70b", set()),
    ],
)
def test_what_a_configuration_shows(name: str, kinds: set[str]) -> None:
    model = model_of({"config": json.loads((CONFIGS / f"{name}.json").read_text())}, None)
    assert {kind for kind in ("moe", "hybrid", "ssm", "mla", "vision", "audio") if getattr(model, kind)} == kinds
    assert model.native_length
    assert model.architecture


@pytest.mark.parametrize("nested", ["", "text_config", "llm_config", "language_config"])
def test_the_language_model_is_found_wherever_a_configuration_keeps_it(nested: str) -> None:
    text = json.loads((CONFIGS / "nemotron-3-nano-30b-a3b.json").read_text())
    config = {"architectures": ["A"], "vision_config": {}, nested: text} if nested else text
    model = model_of({"config": config}, None)
    assert (model.moe, model.hybrid, model.ssm) == (True, True, True)
    assert model.native_length == text["max_position_embeddings"]
    assert ConfigJson(config).vocabulary == text["vocab_size"]


@pytest.mark.parametrize(
    "values", [{}, {"num_experts": None}, {"num_experts": "8"}, {"architectures": [], "text_config": 1}]
)
def test_a_configuration_may_be_silent(values: dict[str, Any]) -> None:
    config = ConfigJson(values)
    assert (config.architecture, config.vocabulary, config.positions, config.is_mixture) == (None, 0, None, False)


@pytest.mark.parametrize(
    "written, expected",
    [
        ({"quant_method": "compressed-tensors"}, ("compressed-tensors", None)),
        ({"quantization": "modelopt", "quant_algo": "nvfp4"}, ("modelopt", "NVFP4")),
        ({"quant": "nvfp4"}, (None, "NVFP4")),
        ({"nvfp4_moe": True}, (None, "NVFP4")),
        (
            {"quantization_config": {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}},
            ("modelopt", "MIXED_PRECISION"),
        ),
        (
            {
                "config": {
                    "quantization_config": {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}
                }
            },
            ("compressed-tensors", "NVFP4"),
        ),
        ({"config": {"quantization_config": {"quant_method": "fp8"}}}, ("fp8", "FP8")),
        ({"quant_method": 5}, (None, None)),
    ],
)
def test_quantization(written: dict[str, Any], expected: tuple[str | None, str | None]) -> None:
    model = model_of(written, None)
    assert (model.quant_method, model.quant_algo) == expected


def test_what_is_written_comes_before_what_is_known() -> None:
    known = model_of({}, "nvidia/Qwen3.6-35B-A3B-NVFP4")
    assert (known.family, known.moe, known.quant_method) == ("qwen3.6", True, "modelopt")
    written = model_of({"moe": False, "repository": "nvidia/Qwen3.6-35B-A3B-NVFP4"}, "/models/own")
    assert (written.family, written.moe) == ("qwen3.6", False)


@pytest.mark.parametrize(
    "repository, parsers",
    [
        ("nvidia/Gemma-4-31B-IT-NVFP4", ("gemma4",)),
        ("nvidia/Gemma-4-26B-A4B-NVFP4", ("gemma4", "pythonic")),
        ("Qwen/Qwen3-Coder-Next-FP8", ("qwen3_coder",)),
        ("someone/own", ()),
    ],
)
def test_tool_parsers(repository: str, parsers: tuple[str, ...]) -> None:
    assert model_of({}, repository).tool_parsers == parsers


def test_drafters() -> None:
    model = model_of({}, "nvidia/Qwen3.6-35B-A3B-NVFP4")
    assert drafter_fits("z-lab/Qwen3.6-35B-A3B-DFlash", model) is True
    assert drafter_fits("z-lab/Qwen3.6-27B-DFlash", model) is False
    assert drafter_fits("someone/own-DFlash", model) is None


@pytest.mark.parametrize(
    "reference, family, vllm, moving",
    [
        ("vllm/vllm-openai:v0.24.0", "upstream", "0.24.0", False),
        ("docker.io/vllm/vllm-openai:v0.19.1-cu130", "upstream", "0.19.1", False),
        ("vllm/vllm-openai:nightly", "upstream", None, True),
        ("vllm/vllm-openai:nightly-aarch64", "upstream", None, True),
        ("vllm/vllm-openai:latest-cu130", "upstream", None, True),
        ("eugr/spark-vllm:nightly-20260704", "eugr", None, False),
        ("vllm/vllm-openai:nightly-0123456789abcdef0123456789abcdef01234567", "upstream", None, False),
        ("vllm/vllm-openai", "upstream", None, True),
        ("vllm/vllm-openai:cu130-nightly", "upstream", "0.19.2rc1.dev134+gfe9c3d6c5", True),
        ("vllm/vllm-openai:gemma4-cu130", "upstream", "0.19.1.dev6+g6d4a8e6d2", False),
        ("vllm/vllm-openai@sha256:" + "0" * 64, "upstream", None, True),
        ("nvcr.io/nvidia/vllm:26.04-py3", "ngc", "0.19.0", False),
        ("nvcr.io/nvidia/vllm:27.01-py3", "ngc", None, False),
        ("vllm-node:latest", "eugr", None, True),
        ("ghcr.io/eugr/spark-vllm:1", "eugr", None, False),
        ("localhost:5000/own/vllm:1", "custom", None, False),
        ("localhost:5000/own/vllm", "custom", None, True),
    ],
)
def test_images(reference: str, family: str, vllm: str | None, moving: bool) -> None:
    image = image_of(reference)
    assert (image.family, image.vllm, image.moving) == (family, vllm, moving)
