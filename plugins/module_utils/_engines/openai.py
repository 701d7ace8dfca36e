# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests of the OpenAI API and of those that engines put beside it, by what a model is for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._base.slice import Question
from .._facts.models.purpose import CHAT, TRANSCRIBE
from .._on_host.rank.probes import Request
from .interface import Example

_SOUND_S = 1.0
# What engines read of a prompt at once, by their options, and where none is written.
_BATCHES = ("max-num-batched-tokens", "chunked-prefill-size", "max-num-tokens", "batch-size")
_BATCH = 8192
# Where they name the longest request that they take.
_CONTEXTS = ("max-model-len", "context-length", "max-seq-len", "ctx-size")
# An answer and the words around a prompt; and the slowest prefill that is no fault, tokens a second.
_AROUND, _SLOWEST, _LIMIT_S = 128, 50, 120
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
    asked = request(kind, model, "Say hello in five words.", 24)
    answers: list[Sequence[str | int]] = [asked.answer]
    if kind == CHAT:
        answers = [["choices", 0, "message", name] for name in ("content", "reasoning_content", "reasoning")]
    elif kind == TRANSCRIBE:
        answers = [["text"], asked.answer]
    return Example(asked.path, asked.body, answers, asked.sound_s)


def questions(model: str, flags: Mapping[str, object], context: int | None, sees: bool) -> Iterator[Question]:
    """``{name, request, limit_s, times}`` of what breaks where a short question is answered: a prompt longer than the
    engine reads at once, the same again, which its prefix cache answers, a call of a tool where the service has tools,
    an image where its model takes images. flags: of the engine. context: of one request, None where the plan does not
    know the model's shape: then what the flags say. times: its text is sent so often, one after the other.
    """
    batch = _whole(flags, _BATCHES, _BATCH)
    # a word is one token, or two of a tokenizer of bytes
    longest = context or _whole(flags, _CONTEXTS, _BATCH)
    words = min(batch + batch // 4, (longest - _AROUND) // 2)
    if words > 0:
        yield _question("a long prompt", model, "a b ", words)
        yield _question("the same prompt again", model, "a b ", words)
    if any(flags.get(name) for name in _TOOLS):
        yield _question("a call of a tool", model, "What time is it? Use the tool.", tools=[_CLOCK])
    if sees:
        picture = [{"type": "text", "text": "Which color?"}, {"type": "image_url", "image_url": {"url": _IMAGE}}]
        yield _question("an image", model, picture)


def _whole(flags: Mapping[str, object], names: Sequence[str], otherwise: int) -> int:
    """The first of these options that is set to a number above 0."""
    return next((value for name in names if isinstance(value := flags.get(name), int) and value > 0), otherwise)


def _question(name: str, model: str, content: object, words: int = 0, **more: Any) -> Question:
    asked = example(CHAT, model)
    body = {**asked.body, **more, "messages": [{"role": "user", "content": content}]}
    computed: list[Sequence[str | int]] = [["choices", 0, "message", "tool_calls"], ["usage", "completion_tokens"]]
    request = Example(asked.path, body, [*asked.answers, *computed]).as_data()
    return {"name": name, "request": request, "limit_s": _LIMIT_S + words // _SLOWEST, "times": max(1, words // 2)}
