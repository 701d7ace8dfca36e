# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""How much memory a service needs: from its decided flags and its model's config to a demand on each of its hosts."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._findings import Finding, FleetError, Severity
from ansible_collections.gb10.fleet.plugins.module_utils._kv import size_pool
from ansible_collections.gb10.fleet.plugins.module_utils._kv.config import read_model
from ansible_collections.gb10.fleet.plugins.module_utils._kv.flags import read_flags
from ansible_collections.gb10.fleet.plugins.module_utils._kv.inverse import least_bytes
from ansible_collections.gb10.fleet.plugins.module_utils._kv.pool import Layout, lay_out
from ansible_collections.gb10.fleet.plugins.module_utils._kv.release import parse_release
from ansible_collections.gb10.fleet.plugins.module_utils._kv.settings import resolve
from ansible_collections.gb10.fleet.plugins.module_utils._layers import Layer, Value
from ansible_collections.gb10.fleet.plugins.module_utils._memory.budget import Share
from ansible_collections.gb10.fleet.plugins.module_utils._memory.estimate import Demand, published_calibration
from ansible_collections.gb10.fleet.plugins.module_utils._plan.service import Placed
from ansible_collections.gb10.fleet.plugins.module_utils._recipes.recipe import Library

# vLLM's own choice for `vllm serve` on a GPU of this size up to 0.32, where the model isn't known well enough to ask
# `_kv` (vllm/engine/arg_utils.py, _set_default_max_num_seqs_and_batched_tokens_args).
BATCHED_TOKENS = 8192


@dataclass(frozen=True)
class Sizing:
    """What is known of a service's memory before its hosts are looked at.

    case: config, options and release as `_kv.size_pool` takes them, None where the pool can't be sized. config: the
    model's config.json, None where it isn't known.
    """

    demand: Demand
    case: Mapping[str, Any] | None
    config: Mapping[str, Any] | None

    def pool(self, shares: Sequence[Share]) -> dict[str, Any]:
        """The KV pool of a rank: {bytes, tokens, block_size, context, max_concurrency, bytes_per_request}.

        Exact where the bytes are given. Where the pool follows from the utilization, for the bytes that are expected.
        """
        given = [share.kv_cache_memory_bytes for share in shares]
        expected = [share.kv_pool.expected if share.kv_pool else None for share in shares]
        size = min((known or guess or 0 for known, guess in zip(given, expected, strict=True)), default=0)
        exact = all(known is not None for known in given)
        answer = size_pool({**self.case, "available_kv_bytes": size}) if self.case and size else {}
        return {
            "bytes": size or None,
            "exact": exact,
            "context": answer.get("max_model_len"),
            **{name: answer.get(name) for name in ("tokens", "block_size", "max_concurrency", "bytes_per_request")},
        }


def size_service(placed: Placed, flags: Mapping[str, Value], library: Library) -> tuple[Sizing, list[Finding]]:
    """The demand of one rank, from what is decided before memory is."""
    values = {name: decided.value for name, decided in flags.items()}
    config, findings = _config(placed, library)
    case = None
    if config is not None and placed.image["vllm"]:
        options = {**values, "tensor-parallel-size": len(placed.hosts)}
        case = {"config": config, "flags": options, "vllm_version": placed.image["vllm"]}
    layout, problems = _layout_of(placed, case)
    eager = values.get("enforce-eager") is True
    written = _whole(values.get("max-num-batched-tokens"), BATCHED_TOKENS)
    batched = layout.settings.max_num_batched_tokens if layout else written
    limits = placed.recipe["memory"].get("utilization", {"min": 0.0, "max": 1.0})
    records = placed.recipe["memory"].get("calibrations", [])
    demand = Demand(
        service=placed.name,
        release=_release(placed.image["vllm"]),
        ranks=len(placed.hosts),
        enforce_eager=eager,
        max_num_seqs=_whole(values.get("max-num-seqs"), 256),
        max_num_batched_tokens=batched,
        vocab_size=_vocabulary(config),
        weights_bytes=placed.model["weights_bytes"],
        calibration=published_calibration(records, len(placed.hosts), eager, batched),
        kv_bytes=_workload_bytes(placed, layout, values),
        utilization=values.get("gpu-memory-utilization"),
        kv_cache_memory_bytes=values.get("kv-cache-memory-bytes"),
        limits=(limits["min"], limits["max"]),
        load_format=values.get("load-format", "auto"),
        load_strategy=values.get("safetensors-load-strategy", "lazy"),
    )
    return Sizing(demand, case, config), [*findings, *problems]


def _config(placed: Placed, library: Library) -> tuple[Mapping[str, Any] | None, list[Finding]]:
    named = placed.model["config"]
    return library.config(named, f"{placed.place}.model.config") if named else (None, [])


def _vocabulary(config: Mapping[str, Any] | None) -> int:
    """Tokens that the sampler's logits are made for; a multimodal model keeps them with its text part."""
    if config is None:
        return 0
    text = config.get("text_config")
    return _whole(config.get("vocab_size", text.get("vocab_size") if isinstance(text, Mapping) else 0), 0)


def _layout_of(placed: Placed, case: Mapping[str, Any] | None) -> tuple[Layout | None, list[Finding]]:
    """How the release lays out the model's cache; None where that isn't known. A model that we can't size may be served
    all the same, from all the memory that is free: that is a warning."""
    if case is None:
        return None, []
    try:
        release = parse_release(case["vllm_version"])
        model = read_model(case["config"], release)
        return lay_out(model, resolve(read_flags(case["flags"]), model, release)), []
    except FleetError as problem:
        return None, [_at_service(placed, finding) for finding in problem.findings]


def _at_service(placed: Placed, finding: Finding) -> Finding:
    severity: Severity = "warning" if finding.rule == "kv-unknown" else finding.severity
    return replace(finding, place=f"{placed.place}: {finding.place}", severity=severity)


def _workload_bytes(placed: Placed, layout: Layout | None, values: Mapping[str, Any]) -> int | None:
    """The least pool that holds max-num-seqs requests of max-model-len tokens; None where it can't be known."""
    if placed.recipe["kind"] == "embed":
        return 0
    if layout is None or not values.get("max-model-len"):
        return None
    return least_bytes(layout, layout.settings.max_num_seqs, layout.settings.max_model_len)


def memory_flags(shares: Sequence[Share], written: Container[str]) -> Layer:
    """What the memory plan adds to the written flags; a group has one command line, so its least host counts."""
    values: dict[str, Any] = {"gpu-memory-utilization": min(share.utilization for share in shares)}
    pools = [share.kv_cache_memory_bytes for share in shares if share.kv_cache_memory_bytes is not None]
    if pools:
        values["kv-cache-memory-bytes"] = min(pools)
    added = {name: value for name, value in values.items() if name not in written}
    return Layer("computed", added, shares[0].reasons)


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _release(version: str | None) -> tuple[int, ...]:
    """``0.17.2rc1`` -> (0, 17, 2); without a version the newest rules hold."""
    return tuple(int(part) for part in re.findall(r"\d+", (version or "1.0.0"))[:3])
