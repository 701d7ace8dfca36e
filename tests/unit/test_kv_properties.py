# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds of the KV pool for every model, option and release: monotony, the inverse, sharing out, no traceback."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.version import Version
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv import (
    kv_for_service,
    least_utilization,
    size_pool,
)
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv.release import parse_release, requested_bytes
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.kv_cases import CASES, config

MODELS = sorted({entry["model"] for entry in CASES["cases"]})
HYBRIDS = [name for name in MODELS if name.startswith(("nemotron", "qwen3.", "qwen3-coder"))]
VERSIONS = [f"0.{minor}.0" for minor in range(11, 34)] + ["0.20.1", "0.20.2"]
GIB = 2**30

flags = st.fixed_dictionaries(
    {"max_model_len": st.sampled_from([-1, 100, 4096, 5000, 32768])},
    optional={
        "kv_cache_dtype": st.sampled_from(["auto", "fp8"]),
        "block_size": st.sampled_from([16, 32, 128]),
        "tensor_parallel_size": st.sampled_from([1, 2, 4]),
        "pipeline_parallel_size": st.sampled_from([1, 2, 3]),
        "max_num_seqs": st.sampled_from([1, 4, 64]),
        "max_num_batched_tokens": st.sampled_from([4096, 16384]),
        "enable_prefix_caching": st.booleans(),
        "mamba_cache_mode": st.sampled_from(["none", "align", "all"]),
        "async_scheduling": st.booleans(),
        "enforce_eager": st.booleans(),
        "disable_hybrid_kv_cache_manager": st.booleans(),
        "speculative_config": st.sampled_from(
            [{"method": "mtp", "num_speculative_tokens": 2}, {"method": "ngram", "num_speculative_tokens": 3}]
        ),
    },
)
questions = st.tuples(st.sampled_from(MODELS), flags, st.sampled_from(VERSIONS))


def asked(question: tuple[str, dict[str, Any], str], **rest: Any) -> dict[str, Any]:
    model, options, version = question
    return size_pool({"config": config(model), "flags": options, "vllm_version": version, **rest})


@given(questions, st.integers(GIB, 90 * GIB), st.integers(1, 8 * GIB))
def test_more_bytes_never_hold_less(question: tuple[str, dict[str, Any], str], low: int, more: int) -> None:
    less, larger = (asked(question, available_kv_bytes=size) for size in (low, low + more))
    if "error" in less:
        return
    assert "error" not in larger
    assert larger["num_blocks"] >= less["num_blocks"]
    assert larger["max_model_len"] >= less["max_model_len"]
    if question[1]["max_model_len"] != -1:
        assert larger["tokens"] >= less["tokens"]


@given(questions, st.integers(1, 64), st.integers(1, 32768))
def test_the_inverse_is_a_left_inverse(question: tuple[str, dict[str, Any], str], sequences: int, tokens: int) -> None:
    """The least bytes hold the workload, and one byte less doesn't, or doesn't start."""
    model, options, version = question
    try:
        service = kv_for_service(config(model), options, version)
        least = service.bytes_for(sequences, tokens)
    except FleetError:
        return
    blocks = sequences * service.layout.request_blocks(tokens) + 1
    got = asked(question, available_kv_bytes=least)
    assert "error" not in got
    assert got["num_blocks"] >= blocks
    assert got["max_model_len"] >= tokens
    assert "exceeds available Mamba cache blocks" not in got.get("later_startup_error", "")
    smaller = asked(question, available_kv_bytes=least - 1)
    refused = "error" in smaller or "exceeds available Mamba" in smaller.get("later_startup_error", "")
    assert refused or smaller["num_blocks"] < blocks


@pytest.mark.parametrize("model", [name for name in MODELS if name not in HYBRIDS])
@pytest.mark.parametrize("version", ["0.12.0", "0.23.0", "0.33.0"])
def test_two_ranks_halve_what_attention_takes(model: str, version: str) -> None:
    """Heads are shared out; one latent vector (MLA) is kept whole by each rank."""
    try:
        one, two = (
            kv_for_service(config(model), {"max_model_len": 4096, "tensor_parallel_size": ranks}, version)
            for ranks in (1, 2)
        )
    except FleetError:
        return
    latent = one.layout.groups[0].page.kind == "MLAAttention"
    assert one.layout.request_bytes(4096) == two.layout.request_bytes(4096) * (1 if latent else 2)


@given(st.sampled_from(HYBRIDS), st.sampled_from(VERSIONS), st.booleans())
def test_more_ranks_never_take_more_each(model: str, version: str, caching: bool) -> None:
    wanted = {"max_model_len": 32768, "enable_prefix_caching": caching}
    try:
        one, two = (
            kv_for_service(config(model), wanted | {"tensor_parallel_size": ranks}, version) for ranks in (1, 2)
        )
    except FleetError:
        return
    assert two.layout.request_bytes(32768) <= one.layout.request_bytes(32768)


@given(questions, st.integers(GIB, 90 * GIB))
def test_concurrency_tokens_and_blocks_agree(question: tuple[str, dict[str, Any], str], size: int) -> None:
    got = asked(question, available_kv_bytes=size)
    if "error" in got:
        return
    assert got["max_concurrency"] == float(f"{got['max_concurrency_exact']:.2f}")
    assert got["block_size"] == min(group["block_size"] for group in got["groups"])
    if question[2] >= "0.20.1":
        assert got["tokens"] == int(got["max_concurrency_exact"] * got["max_model_len"])


RELEASES = st.sampled_from([parse_release(text) for text in ("0.13.0", "0.14.0", "0.33.0")])


@given(st.integers(GIB, 200 * GIB), st.integers(0, 100 * GIB), st.integers(1, 100 * GIB), RELEASES)
def test_least_utilization(total: int, non_kv: int, kv_bytes: int, release: Version) -> None:
    try:
        least = least_utilization(total, non_kv, kv_bytes, release)
    except FleetError:
        assert requested_bytes(total, 1.0, release) - non_kv < kv_bytes
        return
    assert requested_bytes(total, least, release) - non_kv >= kv_bytes
    below = round(least * 10_000 - 1) / 10_000
    assert below < 0 or requested_bytes(total, below, release) - non_kv < kv_bytes


odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 2**70, 10**500]),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def keys_below(config: dict[str, Any]) -> list[tuple[str, ...]]:
    inner = [("text_config", key) for key in config.get("text_config", {})]
    return [*((key,) for key in config if not key.startswith("//")), *inner]


@settings(max_examples=300)
@given(st.data())
def test_bent_configs_end_in_an_answer(data: st.DataObject) -> None:
    """Any key of any model's config, with any value or gone: an answer or an error with place and remedy."""
    bent = config(data.draw(st.sampled_from(MODELS)))
    for path in data.draw(st.lists(st.sampled_from(keys_below(bent)), min_size=1, max_size=3)):
        holder = bent if len(path) == 1 else bent.get("text_config")
        if not isinstance(holder, dict):
            continue
        if data.draw(st.booleans()):
            holder[path[-1]] = data.draw(odd)
        else:
            holder.pop(path[-1], None)
    check_form(size_pool({"config": bent, "vllm_version": "0.23.0", "available_kv_gib": 40}))


@settings(max_examples=300)
@given(
    st.dictionaries(
        st.sampled_from(["config", "flags", "vllm_version", "available_kv_bytes", "available_kv_gib", "sequences"])
        | st.integers(),
        odd,
    ),
    st.dictionaries(
        st.sampled_from(
            [
                "max_model_len",
                "block_size",
                "tensor_parallel_size",
                "pipeline_parallel_size",
                "kv_cache_dtype",
                "dtype",
                "max_num_seqs",
                "max_num_batched_tokens",
                "speculative_config",
                "attention_backend",
                "mamba_cache_mode",
            ]
        ),
        odd,
    ),
    st.sampled_from(MODELS),
)
def test_bent_cases_end_in_an_answer(bent: dict[Any, Any], options: dict[str, Any], model: str) -> None:
    check_form(size_pool(bent))
    check_form(
        size_pool({"config": config(model), "flags": options, "vllm_version": "0.33.0", "available_kv_gib": 40, **bent})
    )


@given(odd)
def test_bent_questions_end_in_an_answer(bent: Any) -> None:
    check_form(size_pool(bent))


def test_cyclic_structures_end_in_an_answer() -> None:
    cycle: dict[str, Any] = config("qwen3-30b-a3b")
    cycle["text_config"] = cycle
    cycle["architectures"] = [cycle]
    loop: list[Any] = []
    loop.append(loop)
    cycle["layer_types"] = loop
    check_form(size_pool({"config": cycle, "flags": cycle, "vllm_version": "0.23.0", "available_kv_gib": 40}))
    cycle["architectures"] = ["Qwen3MoeForCausalLM"]
    check_form(size_pool({"config": cycle, "flags": cycle, "vllm_version": "0.23.0", "available_kv_gib": 40}))


def check_form(got: dict[str, Any]) -> None:
    json.dumps(got)
    if "error" in got:
        assert got["error"] and all(finding["place"] and finding["remedy"] for finding in got["findings"])
    else:
        assert got["num_blocks"] >= 0 and got["groups"]
