# SPDX-License-Identifier: GPL-3.0-or-later
"""TensorRT-LLM's memory: a pool of so many tokens, and a part of what is free once the model has computed a batch.

Source: tensorrt_llm/_torch/pyexecutor/_util.py, `_cal_max_tokens` of 1.0 and `_cal_max_memory` after it: what is free
beside the peak of a batch, times kv_cache_config.free_gpu_memory_fraction, and kv_cache_config.max_tokens at the most.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..._base.findings import Finding
from ..._base.layers import Layer
from ..._base.sizes import MIB, quantity
from .. import paged
from ..kept import keeps_of
from ..memory.budget import Share
from ..options import first_of
from ..placed import Placed
from .catalogue import AT_ONCE, BATCHED, EXTRA, PIPELINE, TENSOR, WITHOUT_MEMORY

_KV, _FRACTION, _TOKENS = "kv_cache_config", "free_gpu_memory_fraction", "max_tokens"
_VALUE_BYTES = {"fp8": 1, "bfloat16": 2, "float16": 2}
_SOURCE = "tensorrt_llm/llmapi/llm_args.py, release 1.2"
_KEEPS = keeps_of("trtllm")
# By itself 64 tokens in the PyTorch backend's older releases, 32 since 1.0 (kv_cache_config.tokens_per_block).
_PAGE = 64
# The most that a batched token took of the profiling pass of another engine (data/gb10.yml, activation_mib_per_token):
# no start of this one was read on a GB10.
_MIB_A_TOKEN = 0.65


def size_service(placed: Placed) -> tuple[paged.PagedSizing, list[Finding]]:
    values = {name: decided.value for name, decided in placed.flags.items()}
    in_file = {**(values.get(EXTRA) or {}), **{f"{_KV}.{name}": value for name, value in cache_options(values).items()}}
    settings = _settings(placed, values)
    return paged.size_service(placed, settings, f"{EXTRA}: {_KV}.{_FRACTION}", WITHOUT_MEMORY, in_file)


def sequences(values: Mapping[str, object]) -> int:
    """Requests that it works on at once."""
    return quantity(values.get("max-batch-size")) or AT_ONCE


def cache_options(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """`kv_cache_config` of the written options."""
    found = (values.get(EXTRA) or {}).get(_KV)
    return found if isinstance(found, Mapping) else {}


def _settings(placed: Placed, values: Mapping[str, object]) -> paged.Settings:
    batched = quantity(values.get("max-num-tokens")) or BATCHED
    return paged.Settings(
        context=quantity(values.get("max-seq-len")),
        at_once=sequences(values),
        value_bytes=paged.value_bytes(placed, str(cache_options(values).get("dtype", "auto")), _VALUE_BYTES),
        keeps=_KEEPS,
        keeps_source=_SOURCE,
        tensor=first_of(values, TENSOR) or 1,
        pipeline=first_of(values, PIPELINE) or 1,
        page=_PAGE,
        aside=int(batched * _MIB_A_TOKEN * MIB),
        aside_is="the most that a batch took in another engine",
        batched="max-num-tokens",
        tokens=f"{EXTRA}: {_KV}.{_TOKENS}",
    )


def memory_flags(placed: Placed, shares: Sequence[Share]) -> Layer:
    """The written map with what the memory plan adds to its `kv_cache_config`; what an owner writes there stays. A
    group has one file, so that its least host counts."""
    values = {name: decided.value for name, decided in placed.flags.items()}
    written, pool, (sized, _) = cache_options(values), paged.pool_bytes(shares), size_service(placed)
    aside = sized.demand.activations or 0
    planned: dict[str, Any] = {_FRACTION: max(_fraction(share, pool, aside) for share in shares)}
    if pool is not None and sized.token_bytes:
        planned[_TOKENS] = sized.tokens(pool)
    whole = {**(values.get(EXTRA) or {}), _KV: {**planned, **written}}
    return Layer("computed", {EXTRA: whole}, {EXTRA: "as written, and the pool's part of what is free and its tokens"})


def _fraction(share: Share, pool: int | None, aside: int) -> float:
    """The pool, of what is free at the least beside weights and the peak of a batch; where they aren't known, the part
    that leaves the host what it needs."""
    if share.non_kv is None or pool is None:
        return paged.free_part(int(share.utilization * share.total) - aside, share)
    free = share.free - share.processes.high - share.non_kv.weights - share.non_kv.runtime.high
    return 0.99 if free <= pool else min(0.99, -(-pool * 10_000 // free) / 10_000)
