# SPDX-License-Identifier: GPL-3.0-or-later
"""SGLang's memory: a pool of so many tokens, and a part of free memory in which weights and pool find room.

Source: model_runner_kv_cache_mixin.py of 0.5.9 and mem_cache/kv_cache_configurator.py of 0.5.23. The pool is what is
free once the weights are loaded, less 1 - --mem-fraction-static of what was free before, and --max-total-tokens at the
most. On a memory that CPU and GPU share, free is MemAvailable (since 0.5.9).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._base import worded
from ..._base.findings import Finding
from ..._base.layers import Layer
from ..._base.sizes import MIB, quantity, size
from .. import paged
from ..kept import keeps_of
from ..memory.budget import Share
from ..options import first_of
from ..placed import Placed
from .catalogue import AT_ONCE, CHUNK, PIPELINE, TENSOR, WITHOUT_MEMORY

_FRACTION, _TOKENS = "mem-fraction-static", "max-total-tokens"
# model_runner.py, configure_kv_cache_dtype
_VALUE_BYTES = {"fp8_e5m2": 1, "fp8_e4m3": 1, "bf16": 2, "bfloat16": 2}
_SOURCE = "sglang/srt/server_args.py, release 0.5.23"
_KEEPS = keeps_of("sglang")
# Hosts whose free memory differs by more are refused (model_runner.py, 0.5.9; distributed/bootstrap.py, 0.5.23).
_ALIKE, _CHECK = 0.9, "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK"


class SglangSizing(paged.PagedSizing):
    """As of `_engines.paged`, and whether SGLang would refuse these hosts together."""

    def pool(self, placed: Placed, shares: Sequence[Share]) -> tuple[dict[str, Any], list[Finding]]:
        pool, findings = super().pool(placed, shares)
        return pool, [*findings, *_unbalanced(placed, shares)]


def size_service(placed: Placed) -> tuple[SglangSizing, list[Finding]]:
    values = {name: decided.value for name, decided in placed.flags.items()}
    sized, findings = paged.size_service(placed, _settings(placed, values), _FRACTION, WITHOUT_MEMORY, {})
    return SglangSizing(**vars(sized)), findings


def sequences(values: Mapping[str, object]) -> int:
    """Requests that it works on at once."""
    return quantity(values.get("max-running-requests")) or AT_ONCE


def _settings(placed: Placed, values: Mapping[str, Any]) -> paged.Settings:
    tensor, pipeline = first_of(values, TENSOR) or 1, first_of(values, PIPELINE) or 1
    chunk, at_once = values.get("chunked-prefill-size", CHUNK), sequences(values)
    # server_args.py, 0.5.9: what it sets aside by itself, in MiB
    aside = max(10 * 1024, 512 + 1.5 * max(chunk, 2048) + 2 * at_once + tensor * pipeline * 128)
    return paged.Settings(
        context=quantity(values.get("context-length")),
        at_once=at_once,
        value_bytes=paged.value_bytes(placed, values.get("kv-cache-dtype", "auto"), _VALUE_BYTES),
        keeps=_KEEPS,
        keeps_source=_SOURCE,
        tensor=tensor,
        pipeline=pipeline,
        page=values.get("page-size", 64),
        aside=int(aside * MIB),
        aside_is="what it sets aside itself",
        batched="chunked-prefill-size",
        tokens=_TOKENS,
    )


def memory_flags(placed: Placed, shares: Sequence[Share]) -> Layer:
    """What the memory plan adds to the written options; a group has one command line, so that its least host counts."""
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    pool = paged.pool_bytes(shares)
    sized, _ = size_service(placed)
    aside = sized.demand.activations or 0
    values[_FRACTION] = max(paged.free_part(_needed(share, pool, aside), share) for share in shares)
    reasons[_FRACTION] = "weights and pool, of what is free before them at the least"
    if pool is not None and sized.token_bytes:
        values[_TOKENS] = sized.tokens(pool)
        reasons[_TOKENS] = shares[0].reasons.get("kv-cache-memory-bytes", "the pool")
    return Layer("computed", {name: value for name, value in values.items() if name not in placed.flags}, reasons)


def _needed(share: Share, pool: int | None, aside: int) -> int:
    """Weights, what the process grows by meanwhile, and the pool; where they aren't known all that the service gets but
    for what it computes in, which SGLang leaves free."""
    if share.non_kv is None or pool is None:
        return int(share.utilization * share.total) - aside
    return share.non_kv.weights + share.non_kv.runtime.high + pool


def _unbalanced(placed: Placed, shares: Sequence[Share]) -> Iterator[Finding]:
    variable = placed.environments[placed.head.name].get(_CHECK)
    allowed = variable is not None and str(variable.value).lower() in ("0", "false")
    if allowed or (first_of({name: one.value for name, one in placed.flags.items()}, TENSOR) or 1) == 1:
        return
    least, most = min(share.free for share in shares), max(share.free for share in shares)
    if least < most * _ALIKE:
        yield worded.error(
            "sglang-memory-unbalanced", placed.place, kind="memory", least=size(least), most=size(most), check=_CHECK
        )
