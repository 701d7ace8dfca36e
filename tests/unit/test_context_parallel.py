# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decode context parallelism: each rank keeps its share of a request's tokens in full attention, and whole states."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv import size_pool
from unit.kv_cases import config

LATENT, HYBRID, HEADS = "mistral-small-4-119b", "qwen3.6-35b-a3b", "qwen3-8b"


def sized(name: str, version: str = "0.33.0", **flags: Any) -> dict[str, Any]:
    written = {"max-model-len": 131072, "max-num-seqs": 4, **{key.replace("_", "-"): flags[key] for key in flags}}
    return size_pool({"config": config(name), "flags": written, "available_kv_gib": 40, "vllm_version": version})


def ranks(tensor: int, context: int) -> dict[str, int]:
    return {"tensor_parallel_size": tensor, "decode_context_parallel_size": context}


@pytest.mark.parametrize("version", ["0.22.0", "0.28.0", "0.33.0"])
@pytest.mark.parametrize("context", [2, 4])
def test_a_latent_cache_is_divided(version: str, context: int) -> None:
    """vllm/v1/kv_cache_interface.py, max_memory_usage_bytes: the length by the ranks, rounded up, in whole blocks."""
    whole, divided = sized(LATENT, version, **ranks(4, 1)), sized(LATENT, version, **ranks(4, context))
    assert divided["bytes_per_request"] * context == whole["bytes_per_request"]
    assert divided["max_concurrency"] == pytest.approx(whole["max_concurrency"] * context, rel=0.001)
    assert divided["tokens"] == pytest.approx(whole["tokens"] * context, rel=0.001)


def test_a_length_that_is_no_multiple_is_rounded_up() -> None:
    odd = sized(LATENT, max_model_len=131073, **ranks(4, 4))
    assert odd["bytes_per_request"] == sized(LATENT, max_model_len=131076, **ranks(4, 4))["bytes_per_request"]
    assert odd["bytes_per_request"] > sized(LATENT, max_model_len=131072, **ranks(4, 4))["bytes_per_request"]


def test_states_stay_whole() -> None:
    whole, divided = sized(HYBRID, **ranks(4, 1)), sized(HYBRID, **ranks(4, 2))
    assert whole["bytes_per_request"] / 2 < divided["bytes_per_request"] < whole["bytes_per_request"]


@pytest.mark.parametrize(
    ("name", "version", "flags", "words"),
    [
        (LATENT, "0.33.0", ranks(2, 4), "tp_size=2 must be divisible by dcp_size=4"),
        (HEADS, "0.33.0", ranks(2, 2) | {"max_model_len": 32768}, "8 KV heads"),
        (HYBRID, "0.24.0", ranks(4, 2), "do not support context parallelism"),
        ("gemma-4-26b-a4b", "0.33.0", ranks(16, 2), "DCP not support sliding window"),
    ],
)
def test_what_vllm_refuses(name: str, version: str, flags: dict[str, Any], words: str) -> None:
    assert words in sized(name, version, **flags)["error"]


def test_a_drafter_beside_it_is_not_sized() -> None:
    answer = sized(HYBRID, speculative_config={"method": "mtp", "num_speculative_tokens": 2}, **ranks(4, 2))
    assert answer["findings"][0]["rule"] == "kv-unknown"
