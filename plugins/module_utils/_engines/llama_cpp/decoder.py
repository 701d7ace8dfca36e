# SPDX-License-Identifier: GPL-3.0-or-later
"""What llama.cpp computes a batch of tokens in, with flash attention: the graph of an architecture, laid out.

The order of tensors is that of release 0.7.0 (build 11669), as it prints it with GGML_SCHED_DEBUG=2; another order is
another buffer. Source: src/llama-graph.cpp, src/models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .graph import WEIGHT, Graph, Tensor, changed, leaf, made, view, written

_F32, _INDEX, _F16 = 4, 8, 2
# Layers repeat: behind these the buffer grows no more.
_FIRST_LAYERS = 12
# Keys and values that are quantized are rotated first, where a head has a multiple of so many numbers.
_ROTATED = 64


@dataclass(frozen=True)
class Batch:
    """tokens: of one batch. outputs: of them, those whose logits are wanted. cells: of all streams that a token looks
    at, and of those behind a window, 0 without one. keys, values: whether they are quantized."""

    tokens: int
    outputs: int
    cells: int
    windowed: int
    keys: bool
    values: bool


@dataclass(frozen=True)
class _Cache:
    """What a kind of cache is asked by: where keys and values go, who sees whom, rotations."""

    keys: Tensor
    values: Tensor
    mask: Tensor
    turn_keys: Tensor | None
    turn_values: Tensor | None


def bytes_of(
    facts: Mapping[str, Any], batch: Batch, layers: Sequence[int], windowed: Sequence[int], looks_up: bool
) -> int:
    """Of one device. facts: `_facts.models.gguf.facts_of`. layers: those that it has, by number; the one behind the
    last is the output. windowed: layers that see a window. looks_up: whether it makes tokens into rows itself, instead
    of getting rows."""
    graph, positions = Graph(), leaf(_F32 * batch.tokens)
    row = _F32 * batch.tokens * _whole(facts, "embedding")
    caches = {seen: _cache(facts, batch, seen) for seen in {layer in windowed for layer in layers}}
    wanted = leaf(_F32 * batch.outputs)
    cur = _looked_up(graph, facts, batch, row) if looks_up else leaf(row)
    here = [layer for layer in layers if layer < len(facts["blocks"])]
    repeated = here if len(here) <= _FIRST_LAYERS else [*here[:_FIRST_LAYERS], here[-1]]
    for layer in repeated:
        last = layer == len(facts["blocks"]) - 1
        cur = _layer(graph, facts, batch, cur, caches[layer in windowed], positions, layer, wanted if last else None)
    if len(facts["blocks"]) in layers:
        normed = _normed(cur)
        graph.add(normed, made(_F32 * batch.outputs * _whole(facts, "vocabulary"), WEIGHT, normed))
    else:
        graph.add(cur)
    return graph.bytes()


def bytes_of_lookup(facts: Mapping[str, object], batch: Batch, windowed: bool) -> int:
    """Of the processor that makes tokens into rows for another device, and has what all of them are asked by."""
    graph = Graph()
    row = _F32 * batch.tokens * _whole(facts, "embedding")
    graph.add(_looked_up(graph, facts, batch, row), leaf(_F32 * batch.tokens), leaf(_F32 * batch.outputs))
    for kind in (True, False) if windowed else (False,):
        cache = _cache(facts, batch, kind)
        turns = [rotation for rotation in (cache.turn_keys, cache.turn_values) if rotation]
        graph.add(cache.keys, cache.values, cache.mask, *turns)
    return graph.bytes()


def _cache(facts: Mapping[str, object], batch: Batch, windowed: bool) -> _Cache:
    cells = batch.windowed if windowed else batch.cells
    turns = [
        leaf(_F32 * size * size) if quantized and length % _ROTATED == 0 else None
        for quantized, length, size in (
            (batch.keys, _whole(facts, "key_length"), _power_of_two(_whole(facts, "key_length"))),
            (batch.values, _whole(facts, "value_length"), _ROTATED),
        )
    ]
    index = _INDEX * batch.tokens
    return _Cache(leaf(index), leaf(index), leaf(_F16 * batch.tokens * cells), *turns)


def _power_of_two(length: int) -> int:
    """The largest that divides it."""
    return length & -length


def _looked_up(graph: Graph, facts: Mapping[str, object], batch: Batch, row: int) -> Tensor:
    """Rows of tokens. Beside them stand those that a request may bring itself, all or some of a batch (build_inp_embd):
    set up in any case."""
    rows = made(row, WEIGHT, leaf(_F32 * batch.tokens))
    graph.add(rows, leaf(row))
    own = made(row, WEIGHT, leaf(_F32 * batch.tokens))
    graph.add(written(made(row, leaf(row)), own, leaf(_INDEX * batch.tokens)))
    return changed(rows, leaf(_F32 * batch.tokens)) if facts["architecture"] == "gemma3" else rows


def _normed(tensor: Tensor) -> Tensor:
    return changed(changed(tensor), WEIGHT)


def _layer(
    graph: Graph,
    facts: Mapping[str, object],
    batch: Batch,
    cur: Tensor,
    cache: _Cache,
    positions: Tensor,
    layer: int,
    wanted: Tensor | None,
) -> Tensor:
    """wanted: in the last layer, which tokens' rows go on."""
    row, gemma = cur.size, facts["architecture"] == "gemma3"
    out = _attention(graph, facts, batch, cur, cache, positions, layer)
    if wanted is not None:
        row = _F32 * batch.outputs * _whole(facts, "embedding")
        out, cur = made(row, out, wanted), made(row, cur, wanted)
    out = changed(_normed(out) if gemma else out, cur)
    tokens = batch.tokens if wanted is None else batch.outputs
    mixed = _feed_forward(graph, facts, _normed(out), tokens)
    return changed(_normed(mixed) if gemma else mixed, out)


def _attention(
    graph: Graph, facts: Mapping[str, Any], batch: Batch, cur: Tensor, cache: _Cache, positions: Tensor, layer: int
) -> Tensor:
    architecture, per = facts["architecture"], _F32 * batch.tokens
    queries = per * _whole(facts, "heads") * _whole(facts, "key_length")
    answers = per * _whole(facts, "heads") * _whole(facts, "value_length")
    kept = [per * facts["kv_heads"][layer] * _whole(facts, name) for name in ("key_length", "value_length")]
    normed = _normed(cur)
    query, key, value = (view(made(size, WEIGHT, normed)) for size in (queries, *kept))
    if architecture != "llama":
        query, key = _normed(query), _normed(key)
    query, key = changed(query, positions), changed(key, positions)
    if architecture == "gemma3":
        query = changed(query)
    if cache.turn_keys:
        query, key = (view(made(projection.size, cache.turn_keys, view(projection))) for projection in (query, key))
    if cache.turn_values:
        value = view(made(value.size, cache.turn_values, view(value)))
    graph.add(*((query, key, value) if architecture == "gemma3" else (query, value, key)))
    graph.add(written(WEIGHT, view(key), cache.keys), written(WEIGHT, view(value), cache.values))
    seen = view(made(answers, view(query), cache.mask))
    graph.add(seen)
    if cache.turn_values:
        seen = view(made(answers, cache.turn_values, view(seen)))
    return made(cur.size, WEIGHT, seen)


def _feed_forward(graph: Graph, facts: Mapping[str, object], normed: Tensor, tokens: int) -> Tensor:
    used = _whole(facts, "experts_used")
    if not used:
        wide = _F32 * tokens * _whole(facts, "feed_forward")
        gate, up = made(wide, WEIGHT, normed), made(wide, WEIGHT, normed)
        return made(normed.size, WEIGHT, made(wide, gate, up))
    scores = changed(made(_F32 * tokens * _whole(facts, "experts"), WEIGHT, normed))
    chosen = view(made(scores.size, scores))
    weights = view(made(_F32 * tokens * used, view(scores), chosen))
    weights = view(changed(weights, made(_F32 * tokens, made(_F32 * tokens, weights))))
    graph.add(weights)
    wide, given = _F32 * tokens * used * _whole(facts, "expert_feed_forward"), view(normed)
    gate, up = made(wide, WEIGHT, given, chosen), made(wide, WEIGHT, given, chosen)
    each = changed(made(normed.size * used, WEIGHT, made(wide, gate, up), chosen), weights)
    parts = [view(each, normed.size) for _ in range(used)]
    graph.add(*parts)
    out = parts[0] if used > 1 else made(normed.size, parts[0])
    for part in parts[1:]:
        out = changed(out, part)
        graph.add(out)
    return out


def _whole(facts: Mapping[str, Any], name: str) -> int:
    return int(facts[name])
