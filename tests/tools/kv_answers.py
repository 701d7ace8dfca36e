#!/usr/bin/env python3
# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of vLLM's own code for tests/data/kv-cases/autumn.json, autumn-families.json and context-ranks.json: its
classes make the spec of each layer of a model's config.json, its platform chooses the block that recurrent states and
attention share, and its planner divides the memory. No GPU: compute capability 12.1 and the ranks are stand-ins.

    pip download vllm==0.33.0 --no-deps -d DL && unzip -q DL/vllm-*.whl -d VLLM
    python -m venv V && V/bin/pip install torch --index-url https://download.pytorch.org/whl/cpu
    V/bin/pip install the rest that VLLM/vllm-*.dist-info/METADATA requires, without the CUDA packages
    V/bin/python tests/tools/kv_answers.py VLLM tests/data/kv-cases/autumn-families.json [--write]

Without --write it prints what differs from the file.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace as Stub
from typing import Any
from unittest.mock import MagicMock

ROOT = Path(__file__).resolve().parents[2]


def text_of(config: dict[str, Any]) -> dict[str, Any]:
    return dict(config.get("text_config") or config)


def start(config: dict[str, Any], flags: dict[str, Any]) -> Any:
    """As much of a VllmConfig as the classes and the planner ask for."""
    speculation = flags.get("speculative_config") or {}
    drafts, asynchronous = speculation.get("num_speculative_tokens", 0), flags.get("async_scheduling", True)
    sequences = flags.get("max_num_seqs", 256)
    length = flags["max_model_len"]
    batch = flags.get("max_num_batched_tokens", min(2048, sequences * length))
    mtp_layers = (config.get("mtp_config") or {}).get("num_nextn_predict_layers", 1)
    several = speculation.get("method") == "mtp" and min(mtp_layers, drafts) > 1
    cache = Stub(
        block_size=flags.get("block_size", 16),
        cache_dtype=flags.get("kv_cache_dtype", "auto"),
        kv_cache_layout=None,
        num_gpu_blocks_override=None,
        prefix_cache_retention_interval=None,
        skip_page_size_padded=None,
        swa_bounded_replay=True,
        enable_prefix_caching=flags.get("enable_prefix_caching", True),
        user_specified_block_size="block_size" in flags,
        mamba_cache_mode="align" if flags.get("enable_prefix_caching", True) else "none",
        mamba_cache_dtype="auto",
        mamba_ssm_cache_dtype=text_of(config).get("mamba_ssm_dtype", "auto"),
        mamba_block_size=None,
        mamba_page_size_padded=None,
        prefix_match_unit=None,
        use_replayssm=False,
        kv_cache_dtype_skip_layers=[],
    )
    cache.get_resolved_kv_cache_layout = lambda: KVCacheLayout[cache.kv_cache_layout]
    return Stub(
        cache_config=cache,
        scheduler_config=Stub(
            disable_hybrid_kv_cache_manager=False, max_num_batched_tokens=batch, max_num_seqs=sequences
        ),
        parallel_config=Stub(
            tensor_parallel_size=flags.get("tensor_parallel_size", 1),
            decode_context_parallel_size=flags.get("decode_context_parallel_size", 1),
            prefill_context_parallel_size=1,
        ),
        model_config=Stub(
            max_model_len=length, original_max_model_len=length, dtype=torch.bfloat16, supports_kv_cache_grouping=False
        ),
        attention_config=Stub(hisparse_config=None, indexer_sparse_logits=None),
        compilation_config=Stub(static_forward_context={}),
        kv_transfer_config=None,
        kv_events_config=None,
        additional_config={},
        lora_config=None,
        speculative_config=Stub(num_speculative_tokens=drafts, use_eagle_block_drop=lambda: False)
        if speculation
        else None,
        num_speculative_tokens=drafts,
        num_prefill_lookahead_tokens=(drafts if several else 1) if speculation else 0,
        max_in_flight_tokens=batch * (2 if asynchronous else 1),
    )


def with_this(module: Any, vllm: Any) -> None:
    """The functions by which a layer learns of its start and of its ranks."""
    module.get_current_vllm_config = lambda: vllm
    module.get_tensor_model_parallel_world_size = lambda: vllm.parallel_config.tensor_parallel_size


def attention(
    heads: int, width: int, window: int | None, vllm: Any, dtype: Any, backend: Any, value_width: int | None = None
) -> Any:
    own = Stub(
        attn_type="decoder",
        kv_cache_dtype=vllm.cache_config.cache_dtype,
        sliding_window=window,
        attn_backend=backend,
        num_kv_heads=max(1, heads // vllm.parallel_config.tensor_parallel_size),
        head_size=width,
        head_size_v=value_width or width,
        kv_cache_torch_dtype=dtype,
    )
    return layer.Attention.get_kv_cache_spec(own, vllm)


def plain(config: dict[str, Any], flags: dict[str, Any], vllm: Any) -> dict[str, Any]:
    """Laguna and Cohere's mixtures: full and sliding layers by name; a drafter with a config.json of its own."""
    eight = str(flags.get("kv_cache_dtype", "auto")).startswith("fp8")
    dtype = torch.uint8 if eight else torch.bfloat16
    backend = FlashInferBackend if eight else FlashAttentionBackend
    found = {}
    draft = (flags.get("speculative_config") or {}).get("draft_config")
    for name, one in [("model", text_of(config)), *([("draft", draft)] if draft else [])]:
        more = 1 if one["architectures"][0].startswith("Cohere2") else 0
        for at in range(one["num_hidden_layers"]):
            slides = (one.get("layer_types") or {}) and one["layer_types"][at] == "sliding_attention"
            window = one["sliding_window"] + more if slides else None
            spec = attention(one["num_key_value_heads"], one["head_dim"], window, vllm, dtype, backend)
            found[f"{name}.{at}"] = spec
    return found


def drafted(flags: dict[str, Any], vllm: Any) -> dict[str, Any]:
    """Layers of a drafter with a config.json of its own, whose windows its dflash_config may give."""
    draft: dict[str, Any] = (flags.get("speculative_config") or {}).get("draft_config") or {}
    found = {}
    for at in range(draft.get("num_hidden_layers", 0)):
        slides = draft.get("layer_types", [])[at : at + 1] == ["sliding_attention"]
        window = draft.get("dflash_config", {}).get("swa_window_size", draft.get("sliding_window")) if slides else None
        backend, dtype = TritonAttentionBackend, torch.uint8 if eight(flags) else torch.bfloat16
        found[f"draft.{at}"] = attention(draft["num_key_value_heads"], draft["head_dim"], window, vllm, dtype, backend)
    return found


def eight(flags: dict[str, Any]) -> bool:
    return str(flags.get("kv_cache_dtype", "auto")).startswith("fp8")


def mimo(config: dict[str, Any], flags: dict[str, Any], vllm: Any) -> dict[str, Any]:
    """Keys wider than values: the backend for both widths on compute capability 12."""
    found = {}
    for at, slides in enumerate(config["hybrid_layer_pattern"]):
        part = "swa_" if slides else ""
        heads, width = config[f"{part}num_key_value_heads"], config[f"{part}head_dim"]
        window, values = config["sliding_window_size"] if slides else None, config[f"{part}v_head_dim"]
        dtype = torch.uint8 if eight(flags) else torch.bfloat16
        backend = TritonAttentionDiffKVBackend
        backend.set_head_size_v(values)
        found[f"{at}"] = attention(heads, width, window, vllm, dtype, backend, values)
    return found | drafted(flags, vllm)


def minimax_m3(config: dict[str, Any], flags: dict[str, Any], vllm: Any) -> dict[str, Any]:
    """Full attention; sparse layers have a cache of the indexer's keys beside their own."""
    text = text_of(config)
    if "block_size" not in flags:
        vllm.cache_config.block_size = 128
    sparse, found = text["sparse_attention_config"], {}
    dtype = torch.uint8 if eight(flags) else torch.bfloat16
    for at, often in enumerate(sparse["sparse_attention_freq"]):
        heads, width = text["num_key_value_heads"], text["head_dim"]
        if not often:
            found[f"{at}"] = attention(heads, width, None, vllm, dtype, FlashInferBackend)
            continue
        own = Stub(
            num_kv_heads=max(1, heads // vllm.parallel_config.tensor_parallel_size),
            head_dim=width,
            kv_cache_dtype=vllm.cache_config.cache_dtype,
            kv_cache_torch_dtype=dtype,
        )
        found[f"{at}"] = minimax_model.MiniMaxM3SparseAttention.get_kv_cache_spec(own, vllm)
        keys = Stub(head_dim=sparse["sparse_index_dim"], dtype=torch.bfloat16)
        found[f"{at}.keys"] = minimax_indexer.MiniMaxM3IndexerCache.get_kv_cache_spec(keys, vllm)
    return found


def latent(config: dict[str, Any], flags: dict[str, Any], vllm: Any) -> dict[str, Any]:
    text, found = text_of(config), {}
    drafts = text.get("num_nextn_predict_layers", 0) if flags.get("speculative_config") else 0
    for at in range(text["num_hidden_layers"] + drafts):
        own = Stub(
            kv_cache_dtype=vllm.cache_config.cache_dtype,
            head_size=text["kv_lora_rank"] + text["qk_rope_head_dim"],
            sliding_window=None,
            topk_buffer_width=None,
            indexer=None,
            non_causal_multi_token_decode=False,
        )
        found[f"{at}"] = mla_attention.MLAAttention.get_kv_cache_spec(own, vllm)
    return found


def inkling(config: dict[str, Any], flags: dict[str, Any], vllm: Any) -> dict[str, Any]:
    text, after = text_of(config), config.get("mtp_config") or {}
    eight = str(flags.get("kv_cache_dtype", "auto")).startswith("fp8")
    with_this(sconv_swa_attn, vllm)
    drafts = (flags.get("speculative_config") or {}).get("num_speculative_tokens", 0)
    deep = [("model", at, at in text["local_layer_ids"]) for at in range(text["num_hidden_layers"])]
    count = min(after.get("num_nextn_predict_layers", 0), drafts)
    deep += [("mtp", at, at in after.get("local_layer_ids", [])) for at in range(count)]
    found = {}
    for name, at, local in deep:
        heads = text.get("swa_num_key_value_heads") if local else None
        heads = heads or text["num_key_value_heads"]
        width = (text.get("swa_head_dim") if local else None) or text["head_dim"]
        state = sconv_swa_attn.InklingConvState(
            num_kv_heads=heads,
            head_dim=width,
            hidden_size=text["hidden_size"],
            kernel_size=text["sconv_kernel_size"],
            prefix=f"{name}.{at}.conv",
        )
        own = Stub(
            is_local=local,
            local_extent=text["sliding_window_size"],
            num_kv_heads=max(1, heads // vllm.parallel_config.tensor_parallel_size),
            head_dim=width,
            kv_cache_torch_dtype=torch.uint8 if eight else torch.bfloat16,
        )
        found[f"{name}.{at}.conv"] = state.get_kv_cache_spec(vllm)
        found[f"{name}.{at}"] = inkling_attention.InklingAttention.get_kv_cache_spec(own, vllm)
    return found


def deepseek_v41(config: dict[str, Any], flags: dict[str, Any], vllm: Any) -> dict[str, Any]:
    """Its layers on compute capability 12: records of 584 bytes in pages of 576 (...SM120Attention)."""
    text = text_of(config)
    if "block_size" not in flags:
        vllm.cache_config.block_size = 128
    for module in (v41, compressor, sparse_swa):
        with_this(module, vllm)
    v41._use_v41_mxfp8_kv_record = lambda: False
    dtype_name, dtype = v41._resolve_dsv4_kv_cache_dtype(True, vllm.cache_config.cache_dtype, vllm.cache_config)
    found = {}
    stages = text.get("num_nextn_predict_layers") or 3
    drafts = stages if (flags.get("speculative_config") or {}).get("method") == "dspark" else 0
    for at in range(text["num_hidden_layers"] + drafts):
        backbone = at < text["num_hidden_layers"]
        ratio = text["compress_ratios"][at] if backbone else 0
        source = backbone and at in text["kv_source_layer_ids"] and ratio > 0
        window = sparse_swa.DeepseekV4SWACache(
            head_dim=text["head_dim"],
            window_size=text["sliding_window"],
            dtype=dtype,
            prefix=f"{at}.swa",
            cache_config=vllm.cache_config,
            block_size=32,
            packed_bytes_per_token=584,
            packed_page_alignment=576,
            bounded_replay=vllm.cache_config.swa_bounded_replay,
        )
        found[f"{at}.swa"] = window.get_kv_cache_spec(vllm)
        if not source:
            continue
        own = Stub(
            is_kv_source=True,
            kv_cache_dtype=dtype_name,
            kv_cache_torch_dtype=dtype,
            head_dim=text["head_dim"],
            compress_ratio=ratio,
            kv_page_alignment=576,
            compressed_bytes_per_token=584,
        )
        found[f"{at}.latents"] = v41.DeepseekV4Attention.get_kv_cache_spec(own, vllm)
        keys = v41.DeepseekV4IndexerCache(
            head_dim=v41._indexer_k_cache_head_dim(text["index_head_dim"], False),
            dtype=torch.uint8,
            prefix=f"{at}.keys",
            cache_config=vllm.cache_config,
            compress_ratio=ratio,
        )
        found[f"{at}.keys"] = keys.get_kv_cache_spec(vllm)
        if ratio > 1:
            ring = compressor.CompressorStateCache(2 * text["head_dim"], torch.float32, f"{at}.ring")
            found[f"{at}.ring"] = ring.get_kv_cache_spec(vllm)
    return found


def made(kind: Any, **own: Any) -> Any:
    """An instance of a layer without its weights."""
    one = kind.__new__(kind)
    torch.nn.Module.__init__(one)
    for name, value in own.items():
        setattr(one, name, value)
    return one


def hybrid(config: dict[str, Any], vllm: Any, layers: dict[str, Any], model: Any) -> dict[str, Any]:
    """The specs of layers beside recurrent states, after vLLM's platform has chosen their common block."""
    text = text_of(config)
    vllm.compilation_config.static_forward_context = layers
    vllm.model_config.hf_text_config = Stub(**text)
    vllm.model_config.is_hybrid, vllm.model_config.architecture = True, config["architectures"][0]
    models.ModelRegistry.resolve_model_cls = lambda *_, **__: (model, None)
    vllm_config.set_current_vllm_config = lambda *_, **__: contextlib.nullcontext()
    cuda.CudaPlatformBase.update_block_size_for_backend(vllm)
    if vllm.cache_config.mamba_cache_mode != "align":
        vllm.cache_config.mamba_block_size = vllm.model_config.max_model_len
    found = {}
    for name, one in layers.items():
        spec = one.get_kv_cache_spec(vllm)
        if isinstance(spec, kv_cache_interface.AttentionSpec):
            spec = worker_utils.customize_attention_spec(one.get_attn_backend(), spec)
        found[name] = spec
    return found


def glm_next(config: dict[str, Any], flags: dict[str, Any], vllm: Any) -> dict[str, Any]:
    """Kimi Delta Attention by FlashKDA, and latents of FlashInfer's sparse kernels for compute capability 12."""
    text, linear, cache = text_of(config), text_of(config)["linear_attn_config"], vllm.cache_config
    for module in (glm_attention, deepseek_v2):
        with_this(module, vllm)
    indexer.get_current_vllm_config = lambda: vllm
    indexer.get_paged_mqa_page_sizes = lambda: [64]
    backend = kda._resolve_kda_prefill_backend("auto", linear["head_dim"], torch.bfloat16, -5.0)
    dtype = mla_attention._canonicalize_sparse_mla_kv_cache_dtype(FlashInferMLASparseSM120Backend, cache.cache_dtype)
    cache.cache_dtype = dtype
    drafts = text.get("num_nextn_predict_layers", 0) if flags.get("speculative_config") else 0
    kinds = text["layer_types"][: text["num_hidden_layers"]] + ["deepseek_sparse_attention"] * drafts
    layers = {}
    for at, kind in enumerate(kinds):
        if kind == "linear_attention":
            layers[f"{at}.kda"] = made(
                kda.Glm5NextLinearAttention,
                model_config=vllm.model_config,
                cache_config=cache,
                tp_size=vllm.parallel_config.tensor_parallel_size,
                num_heads=linear["num_heads"],
                head_dim=linear["head_dim"],
                conv_size=linear["short_conv_kernel_size"],
                num_spec=vllm.num_speculative_tokens,
                kda_prefill_backend=backend,
            )
            continue
        layers[f"{at}.latents"] = made(
            mla_attention.MLAAttention,
            kv_cache_dtype=dtype,
            head_size=text["kv_lora_rank"] + text["qk_rope_head_dim"],
            sliding_window=None,
            topk_buffer_width=None,
            indexer=True,
            non_causal_multi_token_decode=False,
            attn_backend=FlashInferMLASparseSM120Backend,
        )
        width = text["index_head_dim"]
        common = {"cache_config": cache, "index_kpool": text["index_kpool"]}
        layers[f"{at}.keys"] = glm_attention.Glm5NextIndexerCache(
            head_dim=width + width // 128 * 4, dtype=torch.uint8, prefix=f"{at}.k_cache", **common
        )
        layers[f"{at}.tail"] = glm_attention.Glm5NextTailCache(
            head_dim=width, dtype=torch.bfloat16, prefix=f"{at}.tail_cache", **common
        )
    vllm.model_config.use_mla = True
    vllm.model_config.get_num_kv_heads = lambda _: 1
    vllm.model_config.get_head_size = lambda: text["kv_lora_rank"] + text["qk_rope_head_dim"]
    text.update(
        linear_num_heads=linear["num_heads"],
        linear_head_dim=linear["head_dim"],
        linear_conv_kernel_dim=linear["short_conv_kernel_size"],
    )
    return hybrid({**config, "text_config": text}, vllm, layers, glm_model.Glm5NextForCausalLM)


def qwen_sparse(config: dict[str, Any], flags: dict[str, Any], vllm: Any) -> dict[str, Any]:
    """Gated DeltaNet by FlashInfer's kernels, QSA with its keys, and the convolution behind the table of n-grams."""
    text, cache = text_of(config), vllm.cache_config
    vllm.model_config.hf_text_config = Stub(**text)
    with_this(qsa_cache, vllm)
    backend = qwen_gdn._resolve_gdn_prefill_backend(vllm)[1]
    ranks = vllm.parallel_config.tensor_parallel_size
    several = text.get("full_attention_interval", 4)
    kinds = ["full" if (at + 1) % several == 0 else "linear" for at in range(text["num_hidden_layers"])]
    kinds += ["full"] * (1 if (flags.get("speculative_config") or {}).get("method") == "mtp" else 0)
    layers: dict[str, Any] = {}
    state = {"model_config": vllm.model_config, "cache_config": cache}
    for at, kind in enumerate(kinds):
        if kind == "linear":
            layers[f"{at}.gdn"] = made(
                qwen_gdn.QwenGatedDeltaNetAttention,
                **state,
                tp_size=ranks,
                num_k_heads=text["linear_num_key_heads"],
                num_v_heads=text["linear_num_value_heads"],
                head_k_dim=text["linear_key_head_dim"],
                head_v_dim=text["linear_value_head_dim"],
                conv_kernel_size=text["linear_conv_kernel_dim"],
                num_spec=vllm.num_speculative_tokens,
                vllm_config=vllm,
                _checkpoint_alignment=64 if cache.mamba_cache_mode == "align" and backend == "flashinfer" else None,
            )
            continue
        layers[f"{at}.qsa"] = made(
            qsa.Qwen4ExpQSAAttention,
            num_kv_heads=max(1, text["num_key_value_heads"] // ranks),
            head_dim=text["head_dim"],
            kv_cache_torch_dtype=torch.float8_e4m3fn if eight(flags) else torch.bfloat16,
            kv_cache_dtype=cache.cache_dtype,
            attn_backend=qsa.Qwen4ExpQSAFlashAttentionBackend,
        )
        if text.get("indexer_n_heads") is None:
            continue
        common = {"cache_config": cache, "compress_ratio": text["indexer_compress_ratio"], "vllm_config": vllm}
        width = text["indexer_head_dim"]
        positions = config["architectures"][0].endswith("ForConditionalGeneration")
        layers[f"{at}.raw"] = qsa_cache.QSAKeyStateCache(
            head_size=width, dtype=torch.bfloat16, cache_rope_positions=positions, prefix=f"{at}.raw_key", **common
        )
        layers[f"{at}.keys"] = qsa_cache.QSACompressedKeyCache(
            head_size=width, dtype=torch.bfloat16, prefix=f"{at}.compressed_key", **common
        )
    for at in text.get("ple_layer_ids") or []:
        layers[f"{at}.ple"] = made(
            ple_layer.Qwen4ExpPLELayer,
            **state,
            hc_hidden_size=text["hidden_size"] * text["hc_count"],
            conv_state_len=(text["ple_conv_kernel_size"] - 1) * text["ngram_size"],
            num_spec_tokens=vllm.num_speculative_tokens,
        )
    vllm.model_config.use_mla = False
    vllm.model_config.get_num_kv_heads = lambda _: max(1, text["num_key_value_heads"] // ranks)
    vllm.model_config.get_head_size = lambda: text["head_dim"]
    return hybrid(config, vllm, layers, qwen_model.Qwen4ExpForCausalLM)


FAMILIES = {
    **dict.fromkeys(("Ernie4_5ForCausalLM", "Ernie4_5_MoeForCausalLM", "Gemma3ForCausalLM", "Glm4ForCausalLM"), plain),
    **dict.fromkeys(("MixtralForCausalLM", "Qwen2MoeForCausalLM"), plain),
    "Cohere2MoeForCausalLM": plain,
    "Cohere2VisionForConditionalGeneration": plain,
    "DeepseekV41ForCausalLM": deepseek_v41,
    "DeepseekV3ForCausalLM": latent,
    "Glm4MoeForCausalLM": plain,
    **dict.fromkeys(("Glm5NextForCausalLM", "Glm5NextForConditionalGeneration"), glm_next),
    **dict.fromkeys(("Qwen4ExpForCausalLM", "Qwen4ExpForConditionalGeneration"), qwen_sparse),
    "Glm4MoeLiteForCausalLM": latent,
    "InklingForCausalLM": inkling,
    "InklingForConditionalGeneration": inkling,
    "LagunaForCausalLM": plain,
    "LlamaForCausalLM": plain,
    "MiMoV2FlashForCausalLM": mimo,
    "MiMoV2ForCausalLM": mimo,
    "MiniMaxM2ForCausalLM": plain,
    "MiniMaxM3SparseForCausalLM": minimax_m3,
    "MiniMaxM3SparseForConditionalGeneration": minimax_m3,
    "MistralLarge3ForCausalLM": latent,
    "Qwen3MoeForCausalLM": plain,
}


def answer(config: dict[str, Any], flags: dict[str, Any], available: int) -> dict[str, Any]:
    vllm = start(config, flags)
    family = FAMILIES[config["architectures"][0]]
    if "text_config" in config:
        config["text_config"].setdefault("architectures", config["architectures"])
    try:
        specs = family(config, flags, vllm)
        layouts = [one.name for one in utils._DEFAULT_LAYOUT_PREFERENCE]
        if family is deepseek_v41:  # its indexer asks for blocks outermost
            layouts = ["BLHNC", "BLNHC"]
        elif layers := vllm.compilation_config.static_forward_context:
            backends = {one.get_attn_backend(): None for one in layers.values()}
            layouts = [one.name for one in utils.get_supported_kv_cache_layouts(backends)]
        utils.resolve_kv_cache_layout(vllm, [layouts], specs.values())
        groups = planning.get_global_kv_cache_groups(vllm, [specs])
        (made,) = planning.get_kv_cache_configs(vllm, [specs], [available], groups)
    except (ValueError, AssertionError) as refused:
        return {"error": str(refused)}
    tokens, at_once = kv_cache_utils.get_kv_cache_capacity(vllm, made)
    return {
        "num_blocks": made.num_blocks,
        "tokens": tokens,
        "max_concurrency": round(at_once, 2),
        "max_concurrency_exact": at_once,
        "max_model_len": vllm.model_config.max_model_len,
        "resolved": {
            "max_num_batched_tokens": vllm.scheduler_config.max_num_batched_tokens,
            "max_num_seqs": vllm.scheduler_config.max_num_seqs,
        },
    }


def main() -> int:
    path = Path(sys.argv[2])
    known = json.loads(path.read_text("utf-8"))
    version = next(Path(sys.argv[1]).glob("vllm-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    wrong = 0
    for case in known["cases"]:
        config = json.loads((ROOT / "recipes" / "configs" / f"{case['model']}.json").read_text("utf-8"))
        flags = json.loads(json.dumps(case["flags"]))
        if "draft" in case:
            draft = (ROOT / "recipes" / "configs" / f"{case['draft']}.json").read_text("utf-8")
            flags["speculative_config"]["draft_config"] = json.loads(draft)
        found = answer({**config, **case.get("changes", {})}, flags, case["available_kv_bytes"])
        if case.get("truth", {}).get(version) != found:
            wrong += 1
            print(case["id"], json.dumps(found))
        case.setdefault("truth", {})[version] = found
    if "--write" in sys.argv:
        rows = ",\n".join(json.dumps(case) for case in known["cases"])
        path.write_text(f'{{"about": {json.dumps(known["about"])}, "cases": [\n{rows}\n]}}\n', "utf-8")
        return 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    import torch
    from vllm.model_executor.layers.attention import attention as layer
    from vllm.model_executor.layers.attention import mla_attention
    from vllm.models.deepseek_v41 import attention as v41
    from vllm.models.deepseek_v41 import compressor
    from vllm.models.inkling.nvidia import attention as inkling_attention
    from vllm.models.inkling.nvidia import sconv_swa_attn
    from vllm.v1.attention.backends import utils
    from vllm.v1.attention.backends.flash_attn import FlashAttentionBackend
    from vllm.v1.attention.backends.mla import sparse_swa
    from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend
    from vllm.v1.attention.backends.triton_attn_diffkv import TritonAttentionDiffKVBackend
    from vllm.v1.core import kv_cache_planning as planning
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.kv_cache_layout import KVCacheLayout

    gb10 = MagicMock()
    gb10.is_cuda.return_value, gb10.get_cuda_runtime_major.return_value = True, 13
    gb10.get_device_capability.return_value = Stub(major=12, minor=1)
    gb10.is_device_capability.return_value = gb10.is_rocm.return_value = gb10.is_xpu.return_value = False
    gb10.is_device_capability_family.side_effect = lambda family: family == 120
    pictures = ["vllm.models.minimax_m3.common.mm_preprocess"]  # which need torchvision
    pictures += [f"transformers.models.{name}.image_processing_{name}" for name in ("glm4v", "qwen2_vl")]
    for name in (*pictures, "vllm._C_stable_libtorch"):
        sys.modules[name] = MagicMock()
    from vllm.models.glm5next.common import model as glm_model  # isort: skip
    from vllm.model_executor import models
    from vllm.model_executor.layers.mamba.gdn import qwen_gdn_linear_attn as qwen_gdn
    from vllm.model_executor.models import deepseek_v2
    from vllm.models.glm5next.common import attention as glm_attention
    from vllm.models.glm5next.common import kda
    from vllm.models.qwen4_exp.common import qsa_cache
    from vllm.models.qwen4_exp.nvidia import model as qwen_model
    from vllm.models.qwen4_exp.nvidia import ple_layer, qsa
    from vllm.v1 import kv_cache_interface
    from vllm.v1.attention.backends.mla import indexer
    from vllm.v1.attention.backends.mla.flashinfer_mla_sparse import FlashInferMLASparseSM120Backend
    from vllm.v1.worker import utils as worker_utils

    vllm_config: Any = importlib.import_module("vllm.config.vllm")
    cuda: Any = importlib.import_module("vllm.platforms.cuda")
    for module in (kda, qwen_gdn, indexer):
        module.current_platform = gb10
    for name in ("flashinfer", "flashinfer.decode", "flashinfer.prefill", "flashinfer.utils", "flashinfer.cascade"):
        sys.modules.setdefault(name, MagicMock())  # kernels, which no answer needs
    from vllm.models.minimax_m3.common import indexer as minimax_indexer
    from vllm.models.minimax_m3.nvidia import model as minimax_model
    from vllm.v1.attention.backends.flashinfer import FlashInferBackend

    sys.exit(main())
