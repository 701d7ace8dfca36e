# SPDX-License-Identifier: GPL-3.0-or-later
"""From a workload back to memory: the least bytes, and the least --gpu-memory-utilization, that hold it."""

import math

from ..catalogue.version import Version
from .pool import Layout, block_refusal, least_bytes_to_start
from .release import requested_bytes
from .trouble import bad_input, not_sized

_STEPS = 10_000


def least_bytes(layout: Layout, sequences: int, tokens: int) -> int:
    """The least --kv-cache-memory-bytes that vLLM starts with and that holds so many sequences of so many tokens.

    One block more than they take is needed: the null block is never handed out. Raises FleetError for sequences longer
    than --max-model-len, or more of them than --max-num-seqs.
    """
    settings = layout.settings
    if tokens > settings.max_model_len:
        expected = f"at most --max-model-len, {settings.max_model_len}"
        remedy = "lower it, or raise --max-model-len"
        raise bad_input("kv-workload", "case.tokens_per_sequence", value=tokens, expected=expected, remedy=remedy)
    if sequences > settings.max_num_seqs:
        expected = f"at most --max-num-seqs, {settings.max_num_seqs}"
        raise bad_input(
            "kv-workload", "case.sequences", value=sequences, expected=expected, remedy="raise --max-num-seqs"
        )
    if settings.blocks_override is not None:
        remedy = "leave --num-gpu-blocks-override out: it sets the number of blocks itself"
        found = "--num-gpu-blocks-override set"
        raise not_sized("flags.num_gpu_blocks_override", found=found, expected="left out", remedy=remedy)
    blocks = sequences * layout.request_blocks(tokens) + 1
    return max(blocks * layout.bytes_per_block, least_bytes_to_start(layout))


def least_bytes_to_serve(layout: Layout, sequences: int, tokens: int) -> int:
    """least_bytes, and FleetError too for a start that vLLM refuses with any memory."""
    if block := block_refusal(layout):
        raise block
    return least_bytes(layout, sequences, tokens)


def least_utilization(total: int, non_kv: int, kv_bytes: int, release: Version) -> float:
    """The least --gpu-memory-utilization, in steps of 0.0001, that leaves so many bytes for the cache.

    total: what the GPU reports. non_kv: what weights, runtime and graphs take, from a boot or predicted
    (docs/explanation/memory.md). Raises FleetError if more than everything would be needed.
    """
    step = max(0, math.ceil((non_kv + kv_bytes) * _STEPS / total) - 1)
    while step <= _STEPS and requested_bytes(total, step / _STEPS, release) - non_kv < kv_bytes:
        step += 1
    if step > _STEPS:
        found = f"{non_kv + kv_bytes} bytes of {total}"
        expected = "a workload that fits beside the weights"
        raise bad_input(
            "kv-workload", "case.total_memory_bytes", value=found, expected=expected, remedy="ask for less context"
        )
    return step / _STEPS
