# SPDX-License-Identifier: GPL-3.0-or-later
"""What of vLLM a search may change to make a service faster. What doesn't go with a model, an image or a host, the
catalogue and the rules refuse before it is tried, so that nothing of that is here."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..interface import Choice
from .sizing import BATCHED_TOKENS, SEQUENCES

_BATCHED_RANGE = (1024, 32768)
_ATTENTION = ("FLASHINFER", "FLASH_ATTN", "TRITON_ATTN")
# vllm/config/speculative.py, 0.32: the one method that needs no weights of its own.
_NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
_GUESSES = "random prompts are guessed worse than real texts: also ask it your own questions"
_ANSWERS = "keys and values are rounded, so that answers may differ: compare some of your own"
_BEGINNINGS = "the gain grows with the part that prompts share, which the goal gives"


def choices(flags: Mapping[str, object], release: str | None, users: int, shared: bool) -> list[Choice]:
    """`Engine.choices`. Which releases know what, the catalogue says of each candidate."""
    found = [_batched(flags), _sequences(flags, users), _attention(flags), _graphs(flags), _guessing(flags), _kv(flags)]
    return [*found, _prefix(flags)] if shared else found


def _batched(flags: Mapping[str, object]) -> Choice:
    now = _whole(flags.get("max-num-batched-tokens"), BATCHED_TOKENS)
    least, most = _BATCHED_RANGE
    others = [value for value in (now // 2, now * 2, now * 4) if least <= value <= most]
    return _number("batched tokens", now, others, lambda value: {"flags": {"max-num-batched-tokens": value}})


def _sequences(flags: Mapping[str, object], users: int) -> Choice:
    now = _whole(flags.get("max-num-seqs"), SEQUENCES)
    others = sorted({users, max(1, users // 2), max(1, users // 4)} - {now})
    return _number("requests at a time", now, others, lambda value: {"workload": {"max_num_seqs": value}})


def _number(name: str, now: int, others: Sequence[int], written: Any) -> Choice:
    """Steps of a number count by how often it doubles."""
    places = [math.log2(value / now) for value in (now, *others)]
    return Choice(name, [{}, *map(written, others)], [f"{value}" for value in (now, *others)], places)


def _attention(flags: Mapping[str, object]) -> Choice:
    now = flags.get("attention-backend")
    others = [backend for backend in _ATTENTION if backend != now]
    return Choice(
        "attention",
        [{}, *({"flags": {"attention-backend": other}} for other in others)],
        [str(now or "vLLM's own choice"), *others],
    )


def _graphs(flags: Mapping[str, object]) -> Choice:
    if flags.get("enforce-eager") is True:
        return Choice("CUDA graphs", [{}, {"flags": {"enforce-eager": None}}], ["none", "vLLM's own choice"])
    compilation = flags.get("compilation-config")
    values: list[dict[str, Any]] = [{}, {"flags": {"enforce-eager": True}}]
    words = ["as they are", "none"]
    if compilation is None or isinstance(compilation, Mapping):
        values.append({"flags": {"compilation-config": {**(compilation or {}), "cudagraph_mode": "PIECEWISE"}}})
        words.append("piecewise")
    return Choice("CUDA graphs", values, words)


def _guessing(flags: Mapping[str, object]) -> Choice:
    now = flags.get("speculative-config")
    if not isinstance(now, Mapping):
        return Choice(
            "speculative decoding", [{}, {"flags": {"speculative-config": _NGRAM}}], ["none", "n-grams"], note=_GUESSES
        )
    tokens = _whole(now.get("num_speculative_tokens"), 1)
    more = [count for count in (tokens - 1, tokens + 1) if count > 0]
    values = [{"flags": {"speculative-config": {**now, "num_speculative_tokens": count}}} for count in more]
    words = [f"{count} tokens" for count in more]
    return Choice(
        "speculative decoding",
        [{}, *values, {"flags": {"speculative-config": None}}],
        [f"{tokens} tokens", *words, "none"],
        note=_GUESSES,
    )


def _kv(flags: Mapping[str, object]) -> Choice:
    now = str(flags.get("kv-cache-dtype", "auto"))
    other = "auto" if now.startswith("fp8") else "fp8"
    return Choice("KV type", [{}, {"flags": {"kv-cache-dtype": other}}], [now, other], note=_ANSWERS)


def _prefix(flags: Mapping[str, object]) -> Choice:
    """By itself vLLM keeps the beginnings of prompts."""
    kept = flags.get("enable-prefix-caching") is not False
    words = ["kept", "not kept"] if kept else ["not kept", "kept"]
    return Choice(
        "beginnings of prompts", [{}, {"flags": {"enable-prefix-caching": not kept}}], words, note=_BEGINNINGS
    )


def _whole(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else otherwise
