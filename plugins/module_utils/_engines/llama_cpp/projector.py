# SPDX-License-Identifier: GPL-3.0-or-later
"""What a projector (``mmproj``) makes a picture's tokens in, with flash attention: its graph, laid out.

Source: tools/mtmd/clip.cpp and models of llama.cpp, release 0.7.0 (build 11669).
"""

from collections.abc import Mapping
from typing import Any

from .graph import WEIGHT, Graph, Tensor, changed, leaf, made, view

_LLAVA, _GEMMA, _QWEN = "mlp", "gemma3", "qwen3vl_merger"
KNOWN = (_LLAVA, _GEMMA, _QWEN)
# Tokens of the largest picture where its size is free, unless an option says another number (clip.cpp, load_hparams).
_MOST_TOKENS = 4096
_F32, _COLOURS = 4, 3


def largest(facts: Mapping[str, Any], most_tokens: int | None) -> int:
    """Patches of the largest picture. facts: `_facts.models.gguf.projector_of`. most_tokens: as an option has it."""
    if facts["kind"] == _QWEN:
        return int((most_tokens or _MOST_TOKENS) * facts["merge"] ** 2)
    return int((facts["picture"] // facts["patch"]) ** 2)


def bytes_of(facts: Mapping[str, Any], patches: int) -> int:
    """For a picture of so many patches, of a kind that is `KNOWN`."""
    graph = Graph()
    row = _F32 * patches * facts["width"]
    raw = leaf(_F32 * _COLOURS * patches * facts["patch"] ** 2)
    positions = leaf(_F32 * patches * (4 if facts["kind"] == _QWEN else 1))
    cur = _embedded(facts, raw, positions, patches, row)
    token = _F32 * facts["into"] * patches // facts["merge"] ** 2
    features: Tensor | None = None
    # the last layer of LLaVA's transformer is not asked
    for layer in range(facts["layers"] - (facts["kind"] == _LLAVA)):
        cur = _layer(graph, facts, cur, positions)
        if layer in facts["deep"]:
            found = _linear(changed(_linear(_normed(view(cur)), row)), token)
            features = found if features is None else made(features.size + found.size, features, found)
    graph.add(_out(facts, cur, patches, features))
    return graph.bytes()


def _normed(tensor: Tensor) -> Tensor:
    """With a weight and a bias; the first step is never done in place."""
    return changed(changed(made(tensor.size, tensor), WEIGHT), WEIGHT)


def _linear(tensor: Tensor, size: int) -> Tensor:
    return changed(made(size, WEIGHT, tensor), WEIGHT)


def _embedded(facts: Mapping[str, Any], raw: Tensor, positions: Tensor, patches: int, row: int) -> Tensor:
    """Rows of patches with their places: a convolution, as a matrix of all patches' pixels."""

    def convolved() -> Tensor:
        pixels = made(patches * _COLOURS * facts["patch"] ** 2 * facts["pixel_bytes"], WEIGHT, raw)
        return made(row, view(view(made(row, view(pixels), view(WEIGHT)))))

    if facts["kind"] == _QWEN:
        both = changed(convolved(), convolved())
        merged = made(row, view(view(made(row, view(both)))))
        scaled = made(row, view(made(row, view(made(row, view(view(WEIGHT)))))))
        return changed(changed(merged, WEIGHT), made(row, view(view(made(row, scaled)))))
    rows = made(row, view(view(convolved())))
    if facts["kind"] == _GEMMA:
        return changed(changed(rows, WEIGHT), WEIGHT)
    if facts["first"]:
        row += _F32 * facts["width"]
        rows = made(row, rows, WEIGHT)
    rows = changed(rows, made(row, WEIGHT, positions))
    return _normed(rows) if facts["normed_first"] else rows


def _layer(graph: Graph, facts: Mapping[str, Any], cur: Tensor, positions: Tensor) -> Tensor:
    row, normed = cur.size, _normed(cur)
    if facts["kind"] == _QWEN:
        whole = _linear(normed, 3 * row)
        query, key, value = (view(whole, row) for _ in range(3))
        query, key = made(row, query, positions), made(row, key, positions)
    else:
        query, key, value = (view(_linear(normed, row)) for _ in range(3))
    graph.add(query, key, value)
    halves = (made(row // 2, view(projection)) for projection in (key, value))
    seen = view(made(row, view(query), *halves))
    out = changed(_linear(seen, row), cur)
    wide = row // facts["width"] * facts["feed_forward"]
    mixed = _linear(changed(_linear(_normed(out), wide)), row)
    return changed(out, mixed)


def _out(facts: Mapping[str, Any], cur: Tensor, patches: int, features: Tensor | None) -> Tensor:
    """In the model's embedding."""
    row, into = cur.size, _F32 * patches * facts["into"]
    if facts["kind"] == _LLAVA:
        chosen = made(_F32 * patches * facts["width"], view(cur), leaf(_F32 * patches))
        return _linear(changed(_linear(chosen, into)), into)
    cur = _normed(cur)
    fewer = facts["merge"] ** 2
    if facts["kind"] == _GEMMA:
        pooled = made(row // fewer, view(made(row // fewer, made(row, view(cur)))))
        turned = made(facts["projection"], view(WEIGHT))
        return made(into // fewer, turned, changed(changed(pooled), WEIGHT))
    out = _linear(changed(_linear(view(cur), row)), into // fewer)
    return out if features is None else made(out.size + features.size, out, features)
