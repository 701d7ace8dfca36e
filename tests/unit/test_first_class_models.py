# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Models that are no chat model of a known shape: small ones, tables of rows on the disk, forms that no vLLM loads."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.sizes import GIB
from unit.kv_cases import config
from unit.test_any_model import MODEL, QWEN, SMALL, checkpoint, one, planned

GEMMA = {
    **{"architectures": ["Gemma3TextModel"], "model_type": "gemma3_text", "hidden_size": 768, "num_hidden_layers": 24},
    **{"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 256, "max_position_embeddings": 2048},
    **{"vocab_size": 262144, "intermediate_size": 1152, "use_bidirectional_attention": True},
}
WHISPER = {
    **{"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 1280},
    **{"encoder_layers": 32, "decoder_layers": 4, "vocab_size": 51866, "num_hidden_layers": 32},
}
FLASH_NEXT, TABLE = "RadixArk/Qwen3.8-Flash-Next-NVFP4", 51200245760
QWEN4 = {**QWEN, "architectures": ["Qwen4ExpForConditionalGeneration"], "model_type": "qwen4_exp"}


def rules(plan: dict[str, Any]) -> dict[str, str]:
    return {row["rule"]: row["severity"] for row in plan["findings"]}


def taken(plan: dict[str, Any], line: str, host: str = "host-1") -> int:
    return int(plan["hosts"][host]["memory"]["chat"][line]["expected"])


@pytest.mark.parametrize(
    ("config", "known"),
    [
        (GEMMA, {"task": "sentence-similarity"}),
        (GEMMA, {"library": "sentence-transformers"}),
        (WHISPER, {"task": "automatic-speech-recognition"}),
        ({**GEMMA, "architectures": ["ModernBertForSequenceClassification"]}, {"task": "text-ranking"}),
    ],
)
def test_a_small_model_of_unknown_shape_takes_a_small_pool(config: dict[str, Any], known: dict[str, Any]) -> None:
    plan = planned(one(), {MODEL: checkpoint(config, weights_bytes=1 << 30, **known)})
    assert (plan["services"]["chat"]["kv"]["bytes"] or 0) <= 8 * GIB
    assert taken(plan, "left") > 95 * GIB


OCR = {
    "DeepseekOCRForCausalLM": {"model_type": "deepseek_vl_v2", "language_config": {"hidden_size": 1280}},
    "PaddleOCRVLForConditionalGeneration": {"model_type": "paddleocr_vl", "vision_config": {}},
    "DotsOCRForCausalLM": {"model_type": "dots_ocr", "vision_config": {}},
    "VoxtralForConditionalGeneration": {"model_type": "voxtral", "audio_config": {}, "text_config": {}},
}


@pytest.mark.parametrize("architecture", OCR)
@pytest.mark.parametrize("task", ["image-text-to-text", "text-generation", None])
def test_a_small_model_that_can_not_be_sized_leaves_the_host_to_others(architecture: str, task: str | None) -> None:
    """DeepSeek-OCR and PaddleOCR-VL had taken 95 GiB."""
    config = {"architectures": [architecture], "max_position_embeddings": 8192, **OCR[architecture]}
    plan = planned(one(), {MODEL: checkpoint(config, weights_bytes=7 << 30, task=task)})
    assert plan["services"]["chat"]["kv"]["bytes"] == 5 * GIB
    assert taken(plan, "left") > 90 * GIB


def test_a_large_reader_of_pages_takes_a_small_pool_too() -> None:
    config = {"architectures": ["DotsOCRForCausalLM"], "model_type": "dots_ocr", "max_position_embeddings": 8192}
    name = "someone/big-OCR-2"
    plan = planned(one(name), {name: checkpoint(config, name, weights_bytes=30 << 30)})
    assert plan["services"]["chat"]["kv"]["bytes"] == 5 * GIB


def test_its_owner_gives_it_another_pool() -> None:
    known = {MODEL: checkpoint(WHISPER, weights_bytes=1 << 30, task="automatic-speech-recognition")}
    plan = planned(one(workload={"pool": "2GiB"}), known)
    assert plan["services"]["chat"]["kv"]["bytes"] == 2 * GIB
    assert planned(one(workload={"pool": "rest"}), known)["services"]["chat"]["kv"]["bytes"] > 80 * GIB


def flash_next(hosts: int = 1, **more: Any) -> dict[str, Any]:
    known = {FLASH_NEXT: checkpoint(QWEN4, FLASH_NEXT, weights_bytes=135291469824)}
    return planned(one(FLASH_NEXT, hosts, **more), known, hosts)


def test_a_table_that_nothing_leaves_on_the_disk_is_warned_of() -> None:
    found = rules(flash_next())
    assert found["memory-table-on-disk"] == "warning" and "error" not in found.values()
    assert taken(flash_next(), "weights") == 135291469824 - TABLE


@pytest.mark.parametrize(
    "variables", [{"VLLM_PLE_TABLE_MEMORY": "disk"}, {"VLLM_PLE_MMAP": "1"}, {"VLLM_PLE_DISK_OFFLOAD_DIR": "/ple"}]
)
def test_a_build_that_leaves_it_there_is_known_by_its_variable(variables: dict[str, str]) -> None:
    image = {"reference": "me/mine:1", "family": "custom", "release": "0.30.0"}
    plan = flash_next(image=image, env=variables)
    assert rules(plan)["memory-table-on-disk"] == "hint"
    assert not any(row["remedy"] == "drop it" for row in plan["findings"])


def test_a_variable_that_moves_it_within_the_memory_does_not_count() -> None:
    image = {"reference": "vllm/vllm-openai:v0.30.0"}
    found = rules(flash_next(image=image, env={"VLLM_PLE_CPU_OFFLOAD": "1"}))
    assert found["memory-table-on-disk"] == "warning" and found["X24"] == "warning"


def test_over_two_hosts_it_is_in_memory() -> None:
    plan = flash_next(2)
    assert "memory-table-on-disk" not in rules(plan)
    assert taken(plan, "weights") == pytest.approx(135291469824 / 2, rel=0.02)


@pytest.mark.parametrize(
    "form",
    [
        {"quantization": {"group_size": 64, "bits": 4}},
        {"quantization": {"group_size": 32, "bits": 8}, "quantization_config": {"group_size": 32, "bits": 8}},
        {"quantization_config": {"quant_method": "exl3", "bits": 3.0}},
        {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}},
    ],
)
def test_a_checkpoint_that_no_release_loads_is_refused(form: dict[str, Any]) -> None:
    image = {"reference": "vllm/vllm-openai:v0.33.0"}
    found = rules(planned(one(image=image), {MODEL: checkpoint({**SMALL, **form})}))
    assert found["X23"] == "error"


@pytest.mark.parametrize(
    "form",
    [
        {"quantization_config": {"quant_method": "auto-round", "bits": 4, "group_size": 128}},
        {"quantization_config": {"quant_method": "compressed_tensors"}},
        {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}},
        {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}},
        {},
    ],
)
def test_a_checkpoint_of_a_known_form_is_not(form: dict[str, Any]) -> None:
    assert "X23" not in rules(planned(one(), {MODEL: checkpoint({**SMALL, **form})}))


def test_a_build_of_others_may_load_more() -> None:
    image = {"reference": "me/vllm-exl3:1", "family": "custom", "release": "0.33.0"}
    form = {"quantization_config": {"quant_method": "exl3", "bits": 3.0}}
    assert rules(planned(one(image=image), {MODEL: checkpoint({**SMALL, **form})}))["X23"] == "warning"


def test_a_table_on_the_disk_is_a_line() -> None:
    image = {"reference": "me/mine:1", "family": "custom", "release": "0.30.0"}
    lines = flash_next(image=image, env={"VLLM_PLE_TABLE_MEMORY": "disk"})["hosts"]["host-1"]["memory"]["chat"]
    assert (lines["on_disk"]["expected"], lines["on_disk"]["high"]) == (0, 0)
    assert "47.7 GiB" in lines["on_disk"]["source"]
    assert "on_disk" not in flash_next(2)["hosts"]["host-1"]["memory"]["chat"]


@pytest.mark.parametrize("table", ["disk", "ram"])
def test_engram_tables_stay_on_the_disk_by_an_option(table: str) -> None:
    name, whole, tables = "deepseek-ai/DeepSeek-V4.1-Flash", 510313353565, 202758032400
    known = {name: checkpoint(config("deepseek-v4.1-flash"), name, weights_bytes=whole)}
    flags = {"engram-config": {"cpu_offload": False, "table_memory": table}}
    image = {"reference": "me/mine:1", "family": "custom", "release": "0.33.0"}
    service = one(name, 4, flags=flags, image=image)
    plan = planned(service, known, 4)
    lines, found = plan["hosts"]["host-1"]["memory"]["chat"], rules(plan)
    assert found["memory-table-on-disk"] == ("hint" if table == "disk" else "warning")
    assert "188.8 GiB" in lines["on_disk"]["source"]
    assert (whole - tables) / 4 <= lines["weights"]["expected"] < whole / 4
