# SPDX-License-Identifier: GPL-3.0-or-later
"""Each layer's page: how many tokens a block holds and how many bytes that takes on one rank.

vllm/v1/kv_cache_interface.py holds the page sizes; the block of a hybrid model is made in
vllm/model_executor/models/config.py (HybridAttentionMambaModelConfig) up to 0.19, in vllm/platforms/interface.py
(_align_hybrid_block_size) from 0.20.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

from . import backends, states
from .model import Attention, DeltaNet, Model
from .settings import DEFAULT_BLOCK, Settings
from .trouble import not_sized, refusal

Kind = Literal["FullAttention", "MLAAttention", "SlidingWindow", "Mamba", "CircularBuffer"]
# An indexer's key is in 16 bits whatever --kv-cache-dtype is (vllm/models/minimax_m3/common/indexer.py).
_INDEX_BYTES = 2
# DeepSeek-V4's latent of 512 elements under an FP8 cache: 448 in 8 bits, 64 in 16, 8 bytes of scales; pages are
# multiples of the second number (vllm/models/deepseek_v4/attention.py).
_PACKED_LATENT, _PACKED_ALIGNMENT = 584, 576
# Bytes of an indexer's key of 128 elements in 8 bits, with its scale.
_INDEX_KEY = 132
# FlashInfer's DeltaNet kernels export states inside a prefill at multiples of these tokens (0.33).
_DELTA_CHECKPOINT = 64
# A block of latents beside states is a multiple of the first, and of so many pooled keys (0.33).
_LATENT_UNIT, _POOLED_KEYS = 128, 64


@dataclass(frozen=True)
class Page:
    """One layer's block. Two layers of equal pages can share a group.

    block: tokens. bytes: of one block on one rank, padding included. heads: shape of an attention layer's heads, since
    other heads of as many bytes are another kind. window: of a sliding layer, in tokens.
    kernel_block: tokens that the attention backend needs whole (from 0.32; 1 where that doesn't matter).
    """

    kind: Kind
    block: int
    bytes: int
    heads: tuple[int, int, int] | None = None
    window: int | None = None
    kernel_block: int = 1


@dataclass(frozen=True)
class Hybrid:
    """The common page of a hybrid model: tokens of an attention block, of a state's block, and bytes of both."""

    block: int
    state_block: int
    bytes: int


def ceil_div(amount: int, unit: int) -> int:
    return -(-amount // unit)


def pages_by_stage(model: Model, settings: Settings) -> list[list[Page]]:
    """The pages of each pipeline stage's layers, in order; the drafter's come last, on the last stage."""
    common = hybrid(model, settings)
    stages: list[list[Page]] = []
    if settings.packs_groups and settings.pipeline_parallel > 1:
        found, expected = f"{settings.pipeline_parallel} stages", "one stage for a model whose latents are compressed"
        remedy = "use tensor parallel alone"
        raise not_sized("flags.pipeline_parallel_size", found=found, expected=expected, remedy=remedy)
    first = 0
    for count in split_layers(len(model.layers), settings.pipeline_parallel):
        layers = model.layers[first : first + count]
        kept = [layer for layer in layers if layer is not None]
        stages.append([page for layer in kept for page in _pages(layer, settings, common, settings.backend)])
        first += count
    if common is not None and model.convolution:
        stages[0].append(Page("Mamba", common.state_block, common.bytes, heads=(1, 0, 0)))
    if not all(stages):
        remedy = "use fewer stages"
        found = f"a stage of {settings.pipeline_parallel} without attention or recurrent layers"
        raise not_sized(
            "flags.pipeline_parallel_size", found=found, expected="layers with a cache on each stage", remedy=remedy
        )
    drafters = [_pages(layer, settings, common, settings.draft_backend) for layer in settings.drafters]
    stages[-1] += [page for pages in drafters for page in pages]
    return stages


def split_layers(layers: int, stages: int) -> list[int]:
    """Layers by stage: the remainder goes to the later middle ones (vllm/distributed/utils.py, get_pp_indices)."""
    counts = [layers // stages] * stages
    for extra in range(layers % stages):
        counts[-(extra + 2)] += 1
    return counts


def hybrid(model: Model, settings: Settings) -> Hybrid | None:
    """The page that attention and recurrent layers share; None for a model without recurrent layers."""
    recurrent, state = model.recurrent, settings.state
    if recurrent is None or state is None:
        return None
    release, latent = settings.release, model.attention.latent
    state_bytes = states.page_bytes(recurrent, settings.tensor_parallel, settings.speculative_tokens, state.dtypes)
    if model.convolution:
        elements, kept = model.convolution
        width = backends.dtype_bytes(state.dtypes[0])
        state_bytes = max(state_bytes, elements * (kept + settings.speculative_tokens) * width)
    # the platform counts a packed latent by its width in 8 bits, also where --kv-cache-dtype is auto
    token = model.attention.key_width if model.attention.packed else token_bytes(model.attention, settings)
    unit = _LATENT_UNIT if latent else DEFAULT_BLOCK
    if settings.user_block is not None and release.counts_user_block_as_alignment:
        unit = max(unit, settings.user_block)
    if state.mode == "all":
        unit = math.lcm(model.chunk, unit)
    elif state.mode == "align" and release.delta_net_exports_checkpoints and isinstance(recurrent, DeltaNet):
        unit = math.lcm(_DELTA_CHECKPOINT, unit)
    least = unit * ceil_div(state_bytes, unit * token)
    if latent and settings.pooled:
        least = ceil_div(least, _POOLED_KEYS * settings.pooled.tokens) * _POOLED_KEYS * settings.pooled.tokens
    block = max(least, settings.user_block or 0)
    state_block = {"none": settings.max_model_len, "align": block, "all": least}[state.mode]
    return Hybrid(block, state_block, block * token)


def _heads(layer: Attention, ranks: int) -> tuple[int, int, int]:
    """KV heads on one rank, and their widths; with fewer heads than ranks, each keeps one."""
    return 1 if layer.latent else max(1, layer.kv_heads // ranks), layer.key_width, layer.value_width


def token_bytes(layer: Attention, settings: Settings) -> int:
    """Bytes that one attention layer keeps of a token on one rank."""
    if layer.packed:
        return backends.latent_bytes(layer.packed, settings.cache_dtype)
    heads, *widths = _heads(layer, settings.tensor_parallel)
    kept = heads * sum(backends.cell_bytes(width, settings.cache_dtype, settings.dtype) for width in widths)
    return kept + layer.index_width * _INDEX_BYTES


def _pages(layer: object, settings: Settings, common: Hybrid | None, backend: str) -> list[Page]:
    if isinstance(layer, Attention) and layer.compressed is not None:
        return _compressed(layer, layer.compressed, settings)
    page = _page(layer, settings, common, backend)
    if isinstance(layer, Attention) and layer.convolved:
        tokens, width = layer.convolved
        heads = max(1, layer.kv_heads // settings.tensor_parallel)
        held = Page("SlidingWindow", tokens, heads * tokens * width * 2, heads=(heads, width, 0), window=tokens)
        return [held, page]
    if not isinstance(layer, Attention) or layer.pooled is None:
        return [page]
    pooled = layer.pooled
    times = ceil_div(pooled.tokens + settings.speculative_tokens, pooled.tokens)
    ring = pooled.tokens * (1 << (times - 1).bit_length() if pooled.doubles else times)
    if page.block % ring:
        raise refusal(
            "kv-pages",
            "flags.speculative_config",
            words=f"AssertionError: QSA ring capacity {ring} must divide the attention block size {page.block}",
            remedy=f"draft fewer tokens, or write --block-size {math.lcm(ring, DEFAULT_BLOCK)}",
            source="vllm/models/qwen4_exp/common/qsa_cache.py, QSAKeyStateCache",
        )
    keys = page.block // pooled.tokens * pooled.key
    return [page, replace(page, bytes=keys), Page("CircularBuffer", ring, ring * pooled.open)]


def _compressed(layer: Attention, ratio: int, settings: Settings) -> list[Page]:
    """What a layer of DeepSeek-V4 keeps: latents of its window, one of each `ratio` tokens, an indexer's keys of the
    sparse layers, and in float32 what a compression has begun (vllm/models/deepseek_v4 and deepseek_v41: attention.py,
    compressor.py; vllm/v1/attention/backends/mla/sparse_swa.py)."""
    block = settings.user_block or settings.model_block or DEFAULT_BLOCK
    tokens = 32 if settings.shares_latents else 64
    pages = [Page("SlidingWindow", tokens, _aligned(tokens * _PACKED_LATENT), window=layer.window)]
    if not ratio:
        return pages
    if settings.shares_latents:
        held = [Page("MLAAttention", block, _aligned(block // ratio * kept)) for kept in (_PACKED_LATENT, _INDEX_KEY)]
        ring = max(8, 1 << (settings.speculative_tokens + 1).bit_length())
        open_pairs = [Page("CircularBuffer", ring, ring * 2 * layer.key_width * 4)] if ratio > 1 else []
        return [*pages, *held, *open_pairs]
    overlap = 2 if layer.index_width else 1
    begun = 4 if layer.index_width else 8
    widths = [(layer.key_width, _PACKED_LATENT)]
    if layer.index_width:
        widths.append((layer.index_width, layer.index_width + 4 * (layer.index_width // 128)))
    for width, kept in widths:
        pages.append(Page("MLAAttention", block, _aligned(block // ratio * kept)))
        pages.append(Page("SlidingWindow", begun, _aligned(begun * 2 * overlap * width * 4), window=overlap * ratio))
    return pages


def _aligned(amount: int) -> int:
    return ceil_div(amount, _PACKED_ALIGNMENT) * _PACKED_ALIGNMENT


def _page(layer: object, settings: Settings, common: Hybrid | None, backend: str) -> Page:
    if not isinstance(layer, Attention):
        assert common is not None
        return Page("Mamba", common.state_block, common.bytes)
    block = settings.user_block or settings.model_block or DEFAULT_BLOCK
    if common is not None:
        block = common.block
    if layer.window is not None and not layer.convolved:
        block = backends.window_block(backend, block, settings.release)
    kernel_block = backends.kernel_block(backend) if settings.release.aligns_block_strides else 1
    kind: Kind = "FullAttention"
    if layer.latent:
        kind = "MLAAttention"
    elif layer.window is not None and not settings.one_kind_of_group:
        kind = "SlidingWindow"
    window = layer.window if kind == "SlidingWindow" else None
    heads = _heads(layer, settings.tensor_parallel)
    return Page(kind, block, block * token_bytes(layer, settings), heads, window, kernel_block)
