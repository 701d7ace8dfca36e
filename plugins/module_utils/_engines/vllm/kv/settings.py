# SPDX-License-Identifier: GPL-3.0-or-later
"""What vLLM makes of the options: every default filled in, every dtype, mode and backend decided, or its refusal."""

from dataclasses import dataclass

from . import backends, drafting, states
from .flags import Flags
from .model import Attention, Model, Pooled
from .release import Release
from .trouble import not_sized, refusal

DEFAULT_BLOCK = 16
# The items of one request that Gemma 4 can't split: a video of 32 frames (vLLM 0.33.0 on the model's defaults).
_GEMMA_ITEM_TOKENS = 2496


@dataclass(frozen=True)
class Settings:
    """A start's decided values. user_block: --block-size, None without. model_block: the one that a model takes.

    packs_groups: pages of unequal size share a block. pooled: what an indexer keeps beside the attention layers.
    shares_latents: layers read the latents of one below (DeepSeek-V4.1). retained: tokens behind a sliding window that
    prediction layers may read again.

    cache_dtype: of attention layers. speculative_tokens: drafted per step. drafters: attention layers that the drafter
    adds; assumed without its config. windows_in_flight: batches whose tokens a sliding window holds. fits_length:
    max_model_len is still to be shortened to what fits. context_parallel: ranks that divide full attention's tokens.
    """

    release: Release
    max_model_len: int
    fits_length: bool
    tensor_parallel: int
    pipeline_parallel: int
    context_parallel: int
    user_block: int | None
    model_block: int | None
    packs_groups: bool
    pooled: Pooled | None
    shares_latents: bool
    retained: int
    dtype: str
    cache_dtype: str
    prefix_caching: bool
    state: states.StateSettings | None
    max_num_batched_tokens: int
    max_num_seqs: int
    async_scheduling: bool
    windows_in_flight: int
    speculative_tokens: int
    drafters: tuple[Attention, ...]
    drafter_assumed: bool
    backend: str
    draft_backend: str
    cudagraph_mode: str
    one_kind_of_group: bool
    blocks_override: int | None


def resolve(flags: Flags, model: Model, release: Release, long_allowed: bool = False) -> Settings:
    """The values that a start with these options uses. Raises FleetError where vLLM would refuse.

    long_allowed: whether a length beyond the model's own is taken (VLLM_ALLOW_LONG_MAX_MODEL_LEN).
    """
    length = _length(flags, model, release, long_allowed)
    _check_ranks(flags, model)
    _check_block(flags, release)
    cache_dtype = backends.cache_dtype(flags, model, release)
    draft = drafting.resolve(flags, model, release)
    own = (model.attention.pooled or model.recurrent is None) and not draft.external
    _check_context_ranks(flags, model, release, drafts=bool(draft.layers) and not own)
    prefix_caching = _prefix_caching(flags, model, release)
    state = states.resolve(flags, model, release, prefix_caching, draft.tokens > 0)
    if state is not None and not release.since("0.15") and state.mode == "none":
        prefix_caching = False
    tokens, sequences = _batch(flags, model, release, length)
    asynchronous = _asynchronous(flags, release, draft.method)
    dtype = model.dtype if flags.dtype == "auto" else flags.dtype
    backend = backends.attention(flags, model, release, cache_dtype)
    draft_backend = backends.of_draft(flags, cache_dtype) if draft.external else backend
    return Settings(
        release=release,
        max_model_len=length,
        fits_length=flags.max_model_len == -1,
        tensor_parallel=flags.tensor_parallel_size,
        pipeline_parallel=flags.pipeline_parallel_size,
        context_parallel=flags.decode_context_parallel_size,
        user_block=flags.block_size,
        model_block=model.block,
        packs_groups=model.attention.compressed is not None,
        pooled=model.attention.pooled,
        shares_latents=model.architecture == "DeepseekV41ForCausalLM",
        retained=draft.tokens - 1 if draft.method == "mtp" and len(draft.layers) > 1 else 0,
        dtype=dtype,
        cache_dtype=cache_dtype,
        prefix_caching=prefix_caching,
        state=state,
        max_num_batched_tokens=tokens,
        max_num_seqs=sequences,
        async_scheduling=asynchronous,
        windows_in_flight=_in_flight(release, asynchronous, flags.pipeline_parallel_size, model, draft.method),
        speculative_tokens=draft.tokens,
        drafters=draft.layers,
        drafter_assumed=draft.assumed,
        backend=backend,
        draft_backend=draft_backend,
        cudagraph_mode=backends.cudagraph_mode(flags, release, (backend, draft_backend), draft.tokens),
        one_kind_of_group=flags.disable_hybrid_kv_cache_manager,
        blocks_override=flags.num_gpu_blocks_override,
    )


def _length(flags: Flags, model: Model, release: Release, long_allowed: bool) -> int:
    wanted = flags.max_model_len
    if wanted is None:
        return model.longest
    if wanted == -1:
        if release.fits_length_to_memory:
            return model.longest
        words = f"ValueError: --max-model-len -1 is not known to vLLM {release.text}"
        remedy = "write a length, or use vLLM 0.14 or newer"
        raise refusal("kv-length", "flags.max_model_len", words=words, remedy=remedy, source="vllm/config/model.py")
    if wanted > model.longest and not long_allowed:
        words = (
            f"ValidationError: 1 validation error for ModelConfig Value error, User-specified max_model_len ({wanted}) "
            f"is greater than the derived max_model_len (max_position_embeddings={model.longest}.0 or "
            "model_max_length=None in model's config.json)."
        )
        remedy = (
            f"write at most {model.longest}, or lengthen the context by hf-overrides (YaRN), or set "
            'VLLM_ALLOW_LONG_MAX_MODEL_LEN: "1" in env'
        )
        source = "vllm/config/model.py, _get_and_verify_max_len"
        raise refusal("kv-length", "flags.max_model_len", words=words, remedy=remedy, source=source)
    return wanted


def _check_ranks(flags: Flags, model: Model) -> None:
    tensor, pipeline = flags.tensor_parallel_size, flags.pipeline_parallel_size
    if model.attention_heads % tensor:
        words = (
            f"ValidationError: 1 validation error for VllmConfig Value error, Total number of attention heads "
            f"({model.attention_heads}) must be divisible by tensor parallel size ({tensor})."
        )
        remedy = "use a number of ranks that divides the heads"
        source = "vllm/config/model.py, verify_with_parallel_config"
        raise refusal("kv-ranks", "flags.tensor_parallel_size", words=words, remedy=remedy, source=source)
    _check_shares(model, tensor)
    if pipeline > len(model.layers):
        words = f"{pipeline} stages for {len(model.layers)} layers"
        remedy = "use at most one stage a layer"
        raise refusal(
            "kv-ranks", "flags.pipeline_parallel_size", words=words, remedy=remedy, source="vllm/distributed/utils.py"
        )


def _check_shares(model: Model, ranks: int) -> None:
    """Each rank takes as many heads as the next, or, with more ranks than KV heads, whole copies of one."""
    shared = {layer.kv_heads for layer in model.layers if isinstance(layer, Attention) and not layer.latent}
    uneven = [heads for heads in shared if heads % ranks and ranks % heads]
    if model.recurrent is not None and states.heads(model.recurrent) % ranks:
        uneven.append(states.heads(model.recurrent))
    if uneven:
        words = f"AssertionError: {uneven[0]} is not divisible by {ranks}"
        remedy = f"use a number of ranks that divides {uneven[0]} heads"
        raise refusal(
            "kv-ranks", "flags.tensor_parallel_size", words=words, remedy=remedy, source="vllm/distributed/utils.py"
        )


def _check_context_ranks(flags: Flags, model: Model, release: Release, *, drafts: bool) -> None:
    """Ranks that divide the tokens of full attention among them (--decode-context-parallel-size)."""
    tensor, ranks = flags.tensor_parallel_size, flags.decode_context_parallel_size
    if ranks == 1:
        return
    place, heads = "flags.decode_context_parallel_size", model.attention.kv_heads
    words, source = "", "vllm/config/model.py, verify_with_parallel_config"
    if tensor % ranks:
        words, source = (
            f"ValueError: tp_size={tensor} must be divisible by dcp_size={ranks}.",
            "vllm/config/parallel.py",
        )
    elif not model.attention.latent and ranks > tensor // heads:
        words = f"ValueError: decode context parallelism over {ranks} for {tensor} ranks and {heads} KV heads"
    elif not model.attention.latent and (model.attention_heads // heads) % ranks:
        words = f"ValueError: {model.attention_heads // heads} query heads per KV head for {ranks} ranks"
    elif any(isinstance(layer, Attention) and layer.window is not None for layer in model.layers):
        words, source = "AssertionError: DCP not support sliding window.", "vllm/v1/kv_cache_interface.py"
    elif model.recurrent is not None and not release.divides_context_of_hybrids:
        words = "ValueError: Hybrid KV cache groups with multiple block sizes do not support context parallelism"
        source = "vllm/v1/core/kv_cache_utils.py, resolve_kv_cache_block_sizes"
    if words:
        remedy = "leave decode-context-parallel-size out, or write a number of ranks that the KV heads leave room for"
        raise refusal("kv-ranks", place, words=words, remedy=remedy, source=source)
    if drafts:
        found, remedy = f"--decode-context-parallel-size {ranks} with a model that drafts", "size it by a first boot"
        raise not_sized(place, found=found, expected="one of the two", remedy=remedy)


def _check_block(flags: Flags, release: Release) -> None:
    block = flags.block_size
    if block is None:
        return
    allowed = (1, 8, 16, 32, 64, 128, 256)
    if not release.since("0.18") and block not in allowed:
        words = f"ValidationError: 1 validation error for CacheConfig block_size Input should be one of {allowed}"
        raise refusal(
            "kv-block",
            "flags.block_size",
            words=words,
            remedy="write one of these",
            source="vllm/config/cache.py, BlockSize",
        )
    if block % DEFAULT_BLOCK:
        words = f"ValueError: No valid attention backend found for cuda: block_size {block} not supported"
        source = "vllm/v1/attention/backends, get_supported_kernel_block_sizes"
        raise refusal("kv-block", "flags.block_size", words=words, remedy="write a multiple of 16", source=source)


def _prefix_caching(flags: Flags, model: Model, release: Release) -> bool:
    if flags.enable_prefix_caching is not None:
        return flags.enable_prefix_caching
    return model.recurrent is None or release.caches_hybrid_prefixes


def _batch(flags: Flags, model: Model, release: Release, length: int) -> tuple[int, int]:
    """Batched tokens and sequences (vllm/engine/arg_utils.py, _set_default_max_num_seqs_and_batched_tokens_args)."""
    tokens, sequences = (2048, 256) if release.small_batches_on_gb10 else (8192, 1024)
    sequences = flags.max_num_seqs or sequences
    if flags.max_num_batched_tokens is None:
        if flags.enable_chunked_prefill is False:
            tokens = max(length, tokens)
        takes_images = model.architecture == "Gemma4ForConditionalGeneration" and not flags.language_model_only
        if takes_images and release.raises_batch_for_images:
            tokens = max(tokens, _GEMMA_ITEM_TOKENS)
        tokens = min(sequences * length, tokens)
    else:
        tokens = flags.max_num_batched_tokens
    if flags.max_num_seqs is None:
        sequences = min(sequences, tokens)
    if tokens < sequences:
        words = (
            f"ValidationError: 1 validation error for SchedulerConfig Value error, max_num_batched_tokens ({tokens}) "
            f"must be greater than or equal to max_num_seqs ({sequences})."
        )
        remedy = f"write at most {tokens} sequences, or at least {sequences} tokens"
        raise refusal(
            "kv-batch", "flags.max_num_batched_tokens", words=words, remedy=remedy, source="vllm/config/scheduler.py"
        )
    return tokens, sequences


def _asynchronous(flags: Flags, release: Release, method: str | None) -> bool:
    if flags.async_scheduling is not None:
        return flags.async_scheduling
    if not release.schedules_asynchronously or flags.distributed_executor_backend == "ray":
        return False
    if flags.runner == "pooling":
        return False
    if flags.pipeline_parallel_size > 1 and not release.since("0.15"):
        return False
    if method == "suffix":
        return False
    return method != "ngram" or release.ngram_schedules_asynchronously


def _in_flight(release: Release, asynchronous: bool, stages: int, model: Model, method: str | None) -> int:
    """Batches whose tokens aren't settled (vllm/config/vllm.py, max_concurrent_batches)."""
    if not release.counts_batches_in_flight:
        return 1
    runner_v2 = release.runs_all_models_on_v2 or (release.runs_dense_models_on_v2 and not model.experts)
    if method in ("ngram", "suffix") and not release.ngram_schedules_asynchronously:
        runner_v2 = False
    if asynchronous and (runner_v2 or stages == 1):
        return stages + 1
    return stages
