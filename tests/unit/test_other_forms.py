# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service that names what is no model to serve: an adapter, a drafter, a pipeline, another program's files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.derive import derive
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.kept_models import read_folder
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.checkpoint import checkpoint_of
from lab.vllm.gguf_files import header
from unit.test_any_model import COMMIT, SMALL, one, planned

GB = 1_000_000_000
LORA = {"base_model_name_or_path": "Qwen/Qwen3-8B", "peft_type": "LORA", "r": 20}
ADAPTER = {"adapter_model.safetensors": GB // 10}


def read(sizes: dict[str, int], answer: dict[str, Any] | None = None, **texts: Any) -> Any:
    contents = {name.replace("_json", ".json"): json.dumps(value).encode() for name, value in texts.items()}
    lengths = {name: len(content) for name, content in contents.items()}
    return checkpoint_of("someone/it", COMMIT, {**lengths, **sizes}, contents, "the hub", answer or {})


def refused(*arguments: Any, **texts: Any) -> str:
    """The one error of what a service names."""
    try:
        found = derive(read(*arguments, **texts))[1]
    except FleetError as problem:
        found = problem.findings
    (error,) = [row for row in found if row.severity == "error"]
    return f"{error.found}: {error.expected}: {error.remedy}"


# the files, what the hub says, and what the refusal names
FORMS: list[tuple[dict[str, int], dict[str, Any], str]] = [
    ({"model_index.json": 500, "flux1-dev.safetensors": 23 * GB}, {"pipeline_tag": "text-to-image"}, "makes image"),
    ({"model_index.json": 500}, {"pipeline_tag": "text-to-video", "library_name": "diffusers"}, "makes video"),
    ({"model_index.json": 500}, {}, "pipeline of diffusers"),
    ({"unet/x.safetensors": GB}, {"library_name": "diffusers"}, "pipeline of diffusers"),
    ({"pytorch_lora_weights.safetensors": GB}, {"library_name": "diffusers"}, "pipeline of diffusers"),
    ({"parakeet.nemo": GB}, {"pipeline_tag": "automatic-speech-recognition"}, "NeMo"),
    ({"ggml-large-v3.bin": GB}, {"pipeline_tag": "automatic-speech-recognition"}, "whisper.cpp"),
    ({"onnx/model.onnx": GB}, {"library_name": "transformers.js"}, "ONNX"),
    ({"openvino_model.bin": GB, "openvino_model.xml": 9}, {}, "OpenVINO"),
    ({"rank0.engine": GB}, {}, "TensorRT"),
    ({"model.mlpackage/Data/weights.bin": GB}, {}, "Core ML"),
    ({"gemma.litertlm": GB}, {}, "LiteRT"),
    ({"tf_model.h5": GB}, {}, "TensorFlow"),
    ({"flax_model.msgpack": GB}, {}, "Flax"),
    ({"kokoro-v1_0.pth": GB}, {}, "PyTorch"),
    ({"README.md": 9}, {}, "no weights"),
    ({"training_args.bin": 9, "optimizer.bin": GB}, {}, "no weights"),
    ({"consolidated-00001-of-00002.safetensors": GB, "params.json": 9, "tekken.json": 9}, {}, "Mistral"),
]


@pytest.mark.parametrize(("sizes", "answer", "named"), FORMS)
def test_what_is_no_model_is_refused_by_its_own_name(sizes: dict[str, int], answer: dict[str, Any], named: str) -> None:
    assert named in refused(sizes, answer)


# a config.json beside them had made models of them, some with gigabytes of weights that vLLM does not read
@pytest.mark.parametrize(("sizes", "named"), [(one[0], one[2]) for one in FORMS[5:17]])
def test_a_config_json_beside_it_makes_no_model_of_it(sizes: dict[str, int], named: str) -> None:
    assert named in refused(sizes, config_json=SMALL)


@pytest.mark.parametrize("beside", [{}, {"config_json": SMALL}, {"tokenizer_config_json": {"chat_template": "x"}}])
def test_an_adapter_names_its_base_and_how_to_serve_it(beside: dict[str, Any]) -> None:
    """With a config.json beside it, it had been planned as a model with 0.09 GiB of weights."""
    text = refused(ADAPTER, {"library_name": "peft"}, adapter_config_json=LORA, **beside)
    assert "Qwen/Qwen3-8B" in text
    written = yaml.safe_load(re.search(r"\{.*\}$", text)[0])  # type: ignore[index]
    assert written["flags"] == {"enable-lora": True, "max-lora-rank": 32, "lora-modules": ["it=someone/it"]}
    # and what the refusal writes is planned
    plan = planned(
        one(written["model"], flags=written["flags"]),
        {
            "Qwen/Qwen3-8B": read(
                {"model.safetensors": 16 * GB}, config_json=SMALL, tokenizer_config_json={"chat_template": "x"}
            )
            | {"repository": "Qwen/Qwen3-8B"}
        },
    )
    assert not [row for row in plan["findings"] if row["severity"] == "error"]
    assert plan["hosts"]["host-1"]["memory"]["chat"]["adapters"]["expected"]
    assert "someone/it" in {row["repository"] for row in plan["hosts"]["host-1"]["models"]}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"peft_type": "LORA", "r": 8, "base_model_name_or_path": "/home/me/qwen"}, "does not name"),
        (
            {"peft_type": "LORA", "r": 8, "base_model_name_or_path": "a/b'}} {{ lookup('env', 'HOME') }}"},
            "does not name",
        ),
        ({"peft_type": "LORA"}, "does not name"),
        ({"peft_type": "IA3", "base_model_name_or_path": "Qwen/Qwen3-8B"}, "IA3"),
        ({**LORA, "use_dora": True}, "DoRA"),
        ({**LORA, "r": 900}, "rank 900"),
        ({**LORA, "r": "many"}, "Qwen/Qwen3-8B"),
    ],
)
def test_an_adapter_of_any_kind_is_refused_with_what_it_lacks(config: dict[str, Any], named: str) -> None:
    text = refused(ADAPTER, {}, adapter_config_json=config)
    assert named in text and "lookup" not in text


def test_an_adapter_is_known_by_its_weights_alone() -> None:
    assert "adapter" in refused(ADAPTER)


@pytest.mark.parametrize(
    "files", [{"model.safetensors": 16 * GB}, {"pytorch_model.bin": 16 * GB}, {"model.safetensors": GB, **ADAPTER}]
)
def test_a_model_with_an_adapter_beside_it_is_a_model(files: dict[str, int]) -> None:
    found = read(files, config_json=SMALL, adapter_config_json=LORA)
    assert found["weights_bytes"] == next(iter(files.values()))


def test_weights_are_those_that_vllm_loads() -> None:
    """Files of a training, of OpenVINO, and an adapter are no weights."""
    beside = {"training_args.bin": 9, "openvino_model.bin": 5 * GB, "optimizer.bin": 30 * GB, **ADAPTER}
    assert read({"pytorch_model.bin": 16 * GB, **beside}, config_json=SMALL)["weights_bytes"] == 16 * GB


# vLLM's own list of drafters, of 0.33.0, without those whose weights lie in the model's own files alone
DRAFTERS = [
    "EagleCohereForCausalLM",
    "EagleLlamaForCausalLM",
    "EagleLlama4ForCausalLM",
    "EagleMiniCPMForCausalLM",
    "DFlashDraftModel",
    "LiLiCorrDraftModel",
    "DFlash2DraftModel",
    "DFlash2BeamDraftModel",
    "MuseGlimmerAssistantModel",
    "DSparkDraftModel",
    "DSparkV41DraftModel",
    "Qwen3DSparkModel",
    "Qwen3OmniDSparkModel",
    "Qwen3XPressModel",
    "DFlashQwen3XPressModel",
    "K3DSparkModel",
    "MuseSparkDSparkModel",
    "DFlashLagunaForCausalLM",
    "Gemma4DSparkModel",
    "PEagleDraftModel",
    "PeagleLlamaForCausalLM",
    "Eagle3LlamaForCausalLM",
    "LlamaForCausalLMEagle3",
    "Eagle3Qwen3ForCausalLM",
    "EagleMistralForCausalLM",
    "Eagle3DeepseekV3ForCausalLM",
    "EagleDeepSeekMTPModel",
    "DeepSeekMTPModel",
    "MiMoMTPModel",
    "Gemma4MTPModel",
    "NemotronHMTPModel",
    "Qwen3NextMTP",
    "Qwen3_5MTP",
    "MiniMaxM3MTP",
    "Gemma4AssistantForCausalLM",
    "MedusaModel",
    "MLPSpeculatorPreTrainedModel",
]


@pytest.mark.parametrize("architecture", DRAFTERS)
def test_a_drafter_is_no_model_to_chat_with(architecture: str) -> None:
    """Each had been planned as a model of unknown shape, with a warning."""
    config = {**SMALL, "architectures": [architecture], "num_hidden_layers": 1}
    text = refused({"model.safetensors": GB}, {}, config_json=config)
    assert "drafter" in text and "speculative-config: {model: someone/it" in text


@pytest.mark.parametrize("architecture", ["Qwen3ForCausalLM", "Glm4MoeForCausalLM", "MiMoForCausalLM", "CLIPModel"])
def test_a_model_is_no_drafter(architecture: str) -> None:
    config = {**SMALL, "architectures": [architecture]}
    assert not [
        row for row in derive(read({"model.safetensors": GB}, {}, config_json=config))[1] if row.severity == "error"
    ]


@pytest.mark.parametrize(
    ("kind", "base", "named"),
    [
        ("adapter", {"general.base_model.0.repo_url": "https://huggingface.co/Qwen/Qwen3-8B"}, "of Qwen/Qwen3-8B"),
        ("adapter", {"general.base_model.0.repo_url": "{{ lookup('env', 'HOME') }}"}, "does not name"),
        ("adapter", {}, "does not name"),
        ("imatrix", {}, '"imatrix"'),
    ],
)
def test_a_gguf_file_of_another_type_is_no_model(tmp_path: Path, kind: str, base: dict[str, Any], named: str) -> None:
    """An adapter had been planned as a model, with all that was left of the host as its pool."""
    file = tmp_path / "it-F16.gguf"
    text, size = header({"general.architecture": "llama", "general.type": kind, **base}, {"x.lora_a": ("F32", [4, 4])})
    file.write_bytes(text + bytes(size))
    with pytest.raises(FleetError) as refusal:
        read_folder(tmp_path, "someone/it", "a folder")
    assert named in str(refusal.value) and "lookup" not in str(refusal.value)


SHARDS = {f"model-{at:05d}-of-00003.safetensors": 5 * GB for at in (1, 2, 3)}
WITHOUT_THIRD = {name: size for name, size in SHARDS.items() if "00003-of" not in name}


def index_of(*files: str) -> dict[str, Any]:
    return {"metadata": {}, "weight_map": {f"model.layers.{at}.w": name for at, name in enumerate(files)}}


@pytest.mark.parametrize("index", [{}, index_of(*SHARDS)])
def test_a_model_without_all_its_files_is_refused(index: dict[str, Any]) -> None:
    files = {"model.safetensors.index_json": index} if index else {}
    with pytest.raises(FleetError) as problem:
        read(WITHOUT_THIRD, config_json=SMALL, **files)
    assert problem.value.findings[0].found == "no model-00003-of-00003.safetensors"


def test_what_the_index_does_not_name_is_not_loaded() -> None:
    beside = {**SHARDS, "model-old.safetensors": 40 * GB, "optimizer.safetensors": 9 * GB}
    files = {"model.safetensors.index_json": index_of(*SHARDS)}
    assert read(beside, config_json=SMALL, **files)["weights_bytes"] == 15 * GB
    assert read(SHARDS, config_json=SMALL)["weights_bytes"] == 15 * GB


@pytest.mark.parametrize("folder", ["original/", "onnx/"])
def test_shards_below_a_folder_are_none_of_the_models(folder: str) -> None:
    other = {f"{folder}model-00001-of-00009.safetensors": GB, "model.safetensors": GB}
    assert read(other, config_json=SMALL)["weights_bytes"] == GB
