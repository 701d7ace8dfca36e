# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests of the OpenAI API and of those that engines put beside it, by what a model is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._facts.models.purpose import CHAT, TRANSCRIBE
from .._on_host.rank.probes import Request
from .interface import Example

_SOUND_S = 1.0


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
