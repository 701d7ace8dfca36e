#!/usr/bin/env python3
# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of vLLM's own code for tests/data/kv-cases/autumn-families.json and context-ranks.json: its classes make the
spec of each layer of a model's config.json, and its planner divides the memory. No GPU: compute capability 12.1 and the
ranks are stand-ins.

    pip download vllm==0.33.0 --no-deps -d DL && unzip -q DL/vllm-*.whl -d VLLM
    python -m venv V && V/bin/pip install torch --index-url https://download.pytorch.org/whl/cpu
    V/bin/pip install the rest that VLLM/vllm-*.dist-info/METADATA requires, without the CUDA packages
    V/bin/python tests/tools/kv_answers.py VLLM tests/data/kv-cases/autumn-families.json [--write]

Without --write it prints what differs from the file.
"""

from __future__ import annotations

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
        speculative_config=None,
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


FAMILIES = {
    **dict.fromkeys(("Ernie4_5ForCausalLM", "Ernie4_5_MoeForCausalLM", "Gemma3ForCausalLM", "Glm4ForCausalLM"), plain),
    **dict.fromkeys(("MixtralForCausalLM", "Qwen2MoeForCausalLM"), plain),
    "Cohere2MoeForCausalLM": plain,
    "Cohere2VisionForConditionalGeneration": plain,
    "DeepseekV41ForCausalLM": deepseek_v41,
    "DeepseekV3ForCausalLM": latent,
    "Glm4MoeForCausalLM": plain,
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
    specs = family(config, flags, vllm)
    packed = family is deepseek_v41  # its indexer asks for blocks outermost
    layouts = ["BLHNC", "BLNHC"] if packed else [one.name for one in utils._DEFAULT_LAYOUT_PREFERENCE]
    utils.resolve_kv_cache_layout(vllm, [layouts], specs.values())
    groups = planning.get_global_kv_cache_groups(vllm, [specs])
    try:
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

    for name in ("flashinfer", "flashinfer.decode", "flashinfer.prefill", "flashinfer.utils", "flashinfer.cascade"):
        sys.modules.setdefault(name, MagicMock())  # kernels, which no answer needs
    sys.modules["vllm.models.minimax_m3.common.mm_preprocess"] = MagicMock()  # pictures, which need torchvision
    from vllm.models.minimax_m3.common import indexer as minimax_indexer
    from vllm.models.minimax_m3.nvidia import model as minimax_model
    from vllm.v1.attention.backends.flashinfer import FlashInferBackend

    sys.exit(main())
