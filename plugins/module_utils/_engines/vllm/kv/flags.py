# SPDX-License-Identifier: GPL-3.0-or-later
"""The vLLM options that decide the KV pool, checked; all other options are let through unread."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...._base.findings import FleetError
from ...._base.schema import Spec, check, option, options_of
from ...._base.sizes import is_bytes, quantity
from .trouble import bad_input, not_sized, with_remedy

_BIG = 2**62
_RANKS: Spec = {"type": "int", "min": 1, "max": 4096}
_TOKENS: Spec = {"type": "int", "min": 1, "max": 2**40}
_DTYPE: Spec = {"type": "str", "choices": ["auto", "half", "float16", "bfloat16", "float", "float32"]}
_STATE: Spec = {"type": "str", "choices": ["auto", "float32", "float16", "bfloat16"]}
_SWITCH: Spec = {"type": "bool"}
_WORD: Spec = {"type": "str", "min": 1, "max": 80}
# Options that change the pool in ways that are not known here, with the value that leaves it alone.
_NEUTRAL: dict[str, Any] = {
    "disable_sliding_window": False,
    "kv_cache_dtype_skip_layers": [],
    "mamba_block_size": None,
    "prefill_context_parallel_size": 1,
}
# `vllm serve` reads these as 32k (x 1000) or 32K (x 1024) (vllm/engine/arg_utils.py, human_readable_int).
_HUMAN = ("kv_cache_memory_bytes", "max_model_len", "max_num_batched_tokens")


@dataclass(frozen=True)
class Flags:
    """Options as given; None where they are left to vLLM. speculative: the map of --speculative-config."""

    async_scheduling: bool | None = option(_SWITCH)
    attention_backend: str | None = option(_WORD)
    block_size: int | None = option({"type": "int", "min": 1, "max": 2**31 - 1})
    decode_context_parallel_size: int = option(_RANKS, default=1)
    disable_hybrid_kv_cache_manager: bool = option(_SWITCH, default=False)
    distributed_executor_backend: str | None = option(_WORD)
    dtype: str = option(_DTYPE, default="auto")
    enable_chunked_prefill: bool | None = option(_SWITCH)
    enable_prefix_caching: bool | None = option(_SWITCH)
    enforce_eager: bool = option(_SWITCH, default=False)
    kv_cache_dtype: str = option(_WORD, default="auto")
    kv_cache_memory_bytes: int | None = option({"type": "int", "min": 0, "max": _BIG})
    language_model_only: bool = option(_SWITCH, default=False)
    mamba_cache_dtype: str = option(_STATE, default="auto")
    mamba_cache_mode: str | None = option({"type": "str", "choices": ["none", "align", "all"]})
    mamba_ssm_cache_dtype: str = option(_STATE, default="auto")
    max_model_len: int | None = option({"type": "int", "min": -1, "max": 2**40})
    max_num_batched_tokens: int | None = option(_TOKENS)
    max_num_seqs: int | None = option({"type": "int", "min": 1, "max": 2**31 - 1})
    num_gpu_blocks_override: int | None = option({"type": "int", "min": 1, "max": 2**31 - 1})
    pipeline_parallel_size: int = option(_RANKS, default=1)
    runner: str = option(_WORD, default="auto")
    tensor_parallel_size: int = option(_RANKS, default=1)
    speculative: Mapping[str, Any] | None = None


_SPECS = options_of(Flags)


def read_flags(flags: object, place: str = "flags") -> Flags:
    """Options by their vLLM names, with underscores or dashes. Raises FleetError with every wrong value."""
    if flags is None:
        flags = {}
    if not isinstance(flags, Mapping):
        raise bad_input("kv-flags", place, value=flags, expected="a map of vLLM options", remedy="write option: value")
    named = {key.lstrip("-").replace("-", "_"): value for key, value in flags.items() if isinstance(key, str)}
    known = {key: _plain_number(key, named[key]) for key in _SPECS if named.get(key) is not None}
    values, findings = check({"type": "map", "options": _SPECS}, known, place)
    if values.get("max_model_len") == 0:
        expected = "a number of tokens, or -1 for as many as fit"
        remedy = "write a length or leave it out"
        findings += bad_input("kv-flags", f"{place}.max_model_len", value=0, expected=expected, remedy=remedy).findings
    for key, neutral in _NEUTRAL.items():
        value = named.get(key)
        if value is not None and value != neutral:
            remedy = "size it by a first boot"
            found = f"--{key.replace('_', '-')} set"
            findings += not_sized(f"{place}.{key}", found=found, expected="left out", remedy=remedy).findings
    if findings:
        raise FleetError(*with_remedy(findings, remedy="correct the value or leave it out"))
    speculative = _speculative(named.get("speculative_config"), f"{place}.speculative_config")
    return Flags(**values, speculative=speculative)


def _plain_number(key: str, value: object) -> Any:
    """The words auto and 32k as numbers, where vLLM's command line takes them; anything else as it is."""
    if key == "max_model_len" and value == "auto":
        return -1
    if key in _HUMAN and isinstance(value, str) and not is_bytes(value):
        return value if (number := quantity(value)) is None else number
    return value


def from_json(value: object) -> object:
    """What a text of an option with parts says; anything else as it is."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _speculative(value: object, place: str) -> Mapping[str, Any] | None:
    """The map of --speculative-config; a text is read as its JSON."""
    if value is None:
        return None
    value = from_json(value)
    if not isinstance(value, Mapping):
        remedy = 'write {"method": "ngram", "num_speculative_tokens": 1}, or leave it out'
        raise bad_input("kv-flags", place, value=value, expected="a map", remedy=remedy)
    spec: Spec = {
        "type": "map",
        "options": {
            "method": _WORD,
            "num_speculative_tokens": {"type": "int", "min": 1, "max": 4096},
            "model": {"type": "str", "max": 1000},
            "draft_config": {"type": "map"},
        },
    }
    known = {key: value[key] for key in spec["options"] if value.get(key) is not None}
    values, findings = check(spec, known, place)
    if findings:
        raise FleetError(*with_remedy(findings, remedy="correct the value or leave it out"))
    return dict(values)
