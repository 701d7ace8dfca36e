# SPDX-License-Identifier: GPL-3.0-or-later
"""The buffers that llama.cpp sets up, by the model's own header: as it prints them, of each rank, in bytes.

Source: src/llama-kv-cache.cpp and llama-kv-cache-iswa.cpp for the cache; what it computes in is laid out as it does
(`decoder`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._facts.models.gguf import TYPES
from . import decoder

# Architectures whose cache and graph are known; of those with a window, each how many-th layer sees everything.
PLAIN = ("llama", "qwen3", "qwen3moe")
WINDOWED = {"gemma3": 6}
_SIZES = {kind.name.lower(): kind for kind in TYPES.values()}
_CELLS = 256


@dataclass(frozen=True)
class Settings:
    """context: tokens of the whole cache. unified: its slots share them. batch: tokens that are computed at once."""

    context: int
    slots: int
    unified: bool = False
    batch: int = 512
    key_type: str = "f16"
    value_type: str = "f16"

    @property
    def cells(self) -> int:
        """Of one of the cache's streams."""
        return _padded(self.context if self.unified else self.context // self.slots)

    @property
    def streams(self) -> int:
        return 1 if self.unified else self.slots


@dataclass(frozen=True)
class Buffers:
    """Of one rank."""

    model: int
    cache: int
    compute: int


def known(facts: Mapping[str, Any], settings: Settings) -> bool:
    """Whether cache and graph of such a model are."""
    known_types = {settings.key_type, settings.value_type} <= _SIZES.keys()
    windowed = facts["architecture"] in WINDOWED and facts["window"] > 0
    return known_types and (facts["architecture"] in PLAIN or windowed)


def largest_cache(facts: Mapping[str, Any], settings: Settings) -> int | None:
    """Of all layers, as if each saw every token: what no layout of such a model exceeds."""
    if not {settings.key_type, settings.value_type} <= _SIZES.keys():
        return None
    return sum(_cache_of(facts, settings, layer) for layer in range(len(facts["blocks"])))


def buffers(facts: Mapping[str, Any], settings: Settings, split: Sequence[float], gpu: bool = True) -> list[Buffers]:
    """Of each rank, the head first. facts: `_facts.models.gguf.facts_of`. split: the ranks' parts of the layers, in the
    same order. gpu: whether the head computes on another device than the one that looks tokens up, in the same
    memory."""
    blocks, output, batch = facts["blocks"], facts["output"], _batch(facts, settings)
    windowed = [layer for layer in range(len(blocks)) if _slides(facts, layer)]
    # the output's matrix may be the one that looks tokens up: another device has its own copy
    besides = facts["total"] - sum(blocks) - output
    found = []
    for rank, layers in enumerate(_layers(len(blocks), split)):
        here = [layer for layer in layers if layer < len(blocks)]
        model = sum(blocks[layer] for layer in here) + (output if len(blocks) in layers else 0)
        alone = not gpu and len(split) == 1
        compute = decoder.bytes_of(facts, batch, layers, windowed, looks_up=alone) if layers else 0
        if rank == 0:
            model += max(besides, 0) if alone else max(besides, facts["input"])
            compute += settings.slots * _whole(facts, "vocabulary") * 4
            compute += 0 if alone else decoder.bytes_of_lookup(facts, batch, bool(windowed))
        found.append(Buffers(model, sum(_cache_of(facts, settings, layer) for layer in here), compute))
    return found


def _layers(count: int, split: Sequence[float]) -> list[list[int]]:
    """Which layers each rank has; number `count` is the output. RPC servers come before the head's own device."""
    order = [*range(1, len(split)), 0]
    whole, reached, ends = sum(split), 0.0, {}
    for rank in order:
        reached += split[rank]
        ends[rank] = reached / whole
    found: list[list[int]] = [[] for _ in split]
    for layer in range(count + 1):
        rank = next((device for device in order if ends[device] > layer / (count + 1)), order[-1])
        found[rank].append(layer)
    return found


def _cache_of(facts: Mapping[str, Any], settings: Settings, layer: int) -> int:
    cells = _seen(facts, settings) if _slides(facts, layer) else settings.cells
    heads = facts["kv_heads"][layer]
    sizes = (
        _SIZES[kind].size_of([heads * length])
        for kind, length in ((settings.key_type, facts["key_length"]), (settings.value_type, facts["value_length"]))
    )
    return cells * settings.streams * sum(sizes)


def _seen(facts: Mapping[str, object], settings: Settings) -> int:
    """Cells of a stream whose layers see a window."""
    seen = _whole(facts, "window") * (settings.slots if settings.unified else 1) + settings.batch
    return min(settings.cells, _padded(seen))


def _slides(facts: Mapping[str, Any], layer: int) -> bool:
    every = WINDOWED.get(facts["architecture"])
    return every is not None and (layer + 1) % every != 0


def _batch(facts: Mapping[str, object], settings: Settings) -> decoder.Batch:
    quantized = [_SIZES[kind].elements > 1 for kind in (settings.key_type, settings.value_type)]
    windowed = _seen(facts, settings) if facts["architecture"] in WINDOWED else 0
    return decoder.Batch(settings.batch, settings.slots, settings.cells, windowed, *quantized)


def _whole(facts: Mapping[str, Any], name: str) -> int:
    return int(facts[name])


def _padded(cells: int) -> int:
    return -(-cells // _CELLS) * _CELLS
