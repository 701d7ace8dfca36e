# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests of the OpenAI API and of those that engines put beside it, by what a model is for."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._base.plan import ServiceSpeed
from .._base.sizes import quantity
from .._base.slice import Question
from .._facts.models.purpose import CHAT, TRANSCRIBE
from .._on_host.rank.probes import Request
from .interface import Example

_SOUND_S = 1.0
_WORD, _WARM_TOKENS = "word ", 16  # a tokenizer of bytes makes five tokens of it
_WITHOUT_ANSWER = (8, 64)  # words of what is embedded or compared, which some engines take in one batch or not at all
# What engines read of a prompt at once, by their options, and where none is written.
_BATCHES = ("max-num-batched-tokens", "chunked-prefill-size", "max-num-tokens", "batch-size")
_BATCH = 8192
# Where they name the longest request that they take.
_CONTEXTS = ("max-model-len", "context-length", "max-seq-len", "ctx-size")
# An answer and the words around a prompt.
_ANSWER, _AROUND = 24, 128
# For kernels that a first request compiles, whatever is forecast; how often a fault exceeds the slow end of a forecast;
# and without one the slowest prefill that is no fault, words a second.
_COMPILES_S, _FAULT, _SLOWEST = 120, 2, 50
_TOOLS = ("enable-auto-tool-choice", "tool-call-parser")
# 64 x 64 points of one grey.
_IMAGE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAAAAACPAi4CAAAAKUlEQVR42u3M"
    "QREAAAwCIKMb3RD77SAA6VEEAoFAIBAIBAKBQCAQfA8G320AeXC6efoAAAAASUVORK5CYII="
)
_CLOCK = {
    "type": "function",
    "function": {"name": "clock", "description": "The time", "parameters": {"type": "object", "properties": {}}},
}


def request(kind: str, model: str, text: str, max_tokens: int = 1) -> Request:
    """The smallest request that makes a model of this kind compute. text: what it computes on, where it takes text.
    max_tokens: of an answer, where it generates one."""
    pair: dict[str, Any] = {"model": model, "text_1": text, "text_2": text}
    match kind:
        case "embed":
            return Request("/v1/embeddings", {"model": model, "input": text}, ["data", 0, "embedding"])
        case "rerank":
            body: dict[str, Any] = {"model": model, "query": text, "documents": [text]}
            return Request("/rerank", body, ["results", 0, "relevance_score"])
        case "score":
            return Request("/score", pair, ["data", 0, "score"])
        case "classify":
            return Request("/classify", {"model": model, "input": text}, ["data", 0, "probs"])
        case "transcribe":
            # of silence there may be no text; its seconds are counted once the model has heard them
            return Request("/v1/audio/transcriptions", {"model": model}, ["usage", "seconds"], _SOUND_S)
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": max_tokens, "temperature": 0}
    return Request("/v1/chat/completions", body, ["usage", "completion_tokens"])


def example(kind: str, model: str) -> Example:
    """A reasoning parser moves the text to `reasoning_content` or, in newer engines, `reasoning`: an answer too."""
    asked = request(kind, model, "Say hello in five words.", _ANSWER)
    answers: list[Sequence[str | int]] = [asked.answer]
    if kind == CHAT:
        answers = [["choices", 0, "message", name] for name in ("content", "reasoning_content", "reasoning")]
    elif kind == TRANSCRIBE:
        answers = [["text"], asked.answer]
    return Example(asked.path, asked.body, answers, asked.sound_s)


def sees(flags: Mapping[str, object], config: Mapping[str, object] | None) -> bool:
    """Whether its model takes images here. config: of the checkpoint."""
    limits = flags.get("limit-mm-per-prompt")
    refused = isinstance(limits, Mapping) and limits.get("image") == 0
    return not refused and not flags.get("language-model-only") and "vision_config" in (config or {})


def warm_up(kind: str, model: str, flags: Mapping[str, object], words: Sequence[int], sees: bool) -> list[Request]:
    """What takes compilation and setting up, which a first client would wait for otherwise: prompts of so many words,
    where 0 is more than the engine reads at once, and where the service has them a call of a tool and an image. n-gram
    drafts come with each, since their words repeat. A prompt fits into the context, however its words are divided.
    """
    context = _whole(flags, _CONTEXTS, 0) // _whole(flags, ("parallel",), 1)
    room = (context - _WARM_TOKENS) // (2 * len(_WORD)) if context else max(words)
    parts = _whole(flags, _BATCHES, _BATCH) + 1
    counts = [count or parts for count in (words if kind == CHAT else _WITHOUT_ANSWER) if count or parts <= room]
    asked = [request(kind, model, _WORD * max(1, min(count, room)), _WARM_TOKENS) for count in counts]
    for _name, content, more in _beyond_text(flags, sees) if kind == CHAT else ():
        messages = [{"role": "user", "content": content}]
        asked.append(replace(asked[0], body={**asked[0].body, **more, "messages": messages}))
    return asked


def _beyond_text(flags: Mapping[str, object], sees: bool) -> Iterator[tuple[str, object, dict[str, Any]]]:
    """(name, content, more of the body) of what a plain text does not take."""
    if any(flags.get(name) for name in _TOOLS):
        yield "a call of a tool", "What time is it? Use the tool.", {"tools": [_CLOCK]}
    if sees:
        picture = [{"type": "text", "text": "Which color?"}, {"type": "image_url", "image_url": {"url": _IMAGE}}]
        yield "an image", picture, {}


def limit_s(speed: ServiceSpeed | None, words: int, context: int) -> int:
    """Seconds that a question of so many words may take, by the slow end of what is forecast: it waits for the prompts
    of a full service or for a prompt of the whole context, and is answered beside others. A word is two tokens at the
    most."""
    if speed is None:
        return _COMPILES_S + words // _SLOWEST
    alone, full = speed["alone"], speed["together"] or speed["alone"]
    waits, reads = (alone["ttft_high"] * max(1.0, tokens / speed["prompt"]) for tokens in (context, 2 * words))
    return _COMPILES_S + math.ceil(_FAULT * (max(waits, full["ttft_high"]) + reads + _ANSWER / full["low"]))


def questions(
    model: str, flags: Mapping[str, object], context: int | None, sees: bool, speed: ServiceSpeed | None
) -> Iterator[Question]:
    """``{name, request, limit_s, times}`` of what breaks where a short question is answered: a prompt longer than the
    engine reads at once, the same again, which its prefix cache answers, a call of a tool where the service has tools,
    an image where its model takes images. flags: of the engine. context: of one request, None where the plan does not
    know the model's shape: then what the flags say. speed: what is forecast. times: its text is sent so often, one
    after the other.
    """
    batch = _whole(flags, _BATCHES, _BATCH)
    # a word is one token, or two of a tokenizer of bytes
    longest = context or _whole(flags, _CONTEXTS, _BATCH)
    words = min(batch + batch // 4, (longest - _AROUND) // 2)
    long_s, short_s = limit_s(speed, words, longest), limit_s(speed, 0, longest)
    if words > 0:
        yield _question("a long prompt", model, "a b ", long_s, words)
        yield _question("the same prompt again", model, "a b ", long_s, words)
    for name, content, more in _beyond_text(flags, sees):
        yield _question(name, model, content, short_s, **more)


def _whole(flags: Mapping[str, object], names: Sequence[str], otherwise: int) -> int:
    """The first of these options that is set to a number above 0."""
    return next((value for name in names if (value := quantity(flags.get(name))) and value > 0), otherwise)


def _question(name: str, model: str, content: object, limit_s: int, words: int = 0, **more: Any) -> Question:
    asked = example(CHAT, model)
    body = {**asked.body, **more, "messages": [{"role": "user", "content": content}]}
    computed: list[Sequence[str | int]] = [["choices", 0, "message", "tool_calls"], ["usage", "completion_tokens"]]
    request = Example(asked.path, body, [*asked.answers, *computed]).as_data()
    return {"name": name, "request": request, "limit_s": limit_s, "times": max(1, words // 2)}
