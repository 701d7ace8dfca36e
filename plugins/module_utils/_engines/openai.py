# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Requests of the OpenAI API, which most engines answer."""

from __future__ import annotations

from ansible_collections.gb10.fleet.plugins.module_utils._engines.interface import Example
from ansible_collections.gb10.fleet.plugins.module_utils._rank.probes import Request


def request(kind: str, model: str, text: str, max_tokens: int = 1) -> Request:
    """A model of kind `chat` generates up to max_tokens tokens; one of kind `embed` makes an embedding."""
    if kind == "embed":
        return Request("/v1/embeddings", {"model": model, "input": text}, ["data", 0, "embedding"])
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": max_tokens, "temperature": 0}
    return Request("/v1/chat/completions", body, ["usage", "completion_tokens"])


def example(kind: str, model: str) -> Example:
    """A reasoning parser moves the text to `reasoning_content` or, in newer engines, `reasoning`: an answer too."""
    asked = request(kind, model, "Say hello in five words.", 24)
    texts = [["choices", 0, "message", name] for name in ("content", "reasoning_content", "reasoning")]
    return Example(asked.path, asked.body, [asked.answer] if kind == "embed" else texts)
