# SPDX-License-Identifier: GPL-3.0-or-later
"""Which layers share blocks: groups of equal pages (vllm/v1/core/kv_cache_utils.py, get_kv_cache_groups)."""

import math
from dataclasses import dataclass, replace

from .model import Pooled
from .pages import Page, ceil_div
from .settings import Settings
from .trouble import refusal

# Kinds whose pages belong to a request and not to its tokens.
_STATES = ("Mamba", "CircularBuffer")
# Bytes of an indexer's pooled key beside latents.
_POOLED_KEY = 132


@dataclass(frozen=True)
class Group:
    """Layers with one block table. page: one layer's; where unequal pages share a group, the first stage's together.

    layers, stage_bytes: how many of its layers each pipeline stage holds, and what one block of them takes there.
    """

    page: Page
    layers: tuple[int, ...]
    stage_bytes: tuple[int, ...]


def make_groups(stages: list[list[Page]], settings: Settings) -> list[Group]:
    """The groups of the whole model, in order of first appearance."""
    pages = [page for stage in stages for page in stage]
    if settings.packs_groups or settings.pooled:
        return _packed(pages, settings)
    if len({(page.kind, page.block, page.window) for page in pages}) == 1 and len(set(pages)) > 1:
        return [_unequal(stages)]
    pages = _equal_pages(pages, settings)
    kinds: dict[Page, list[int]] = {}
    for index, page in enumerate(pages):
        kinds.setdefault(page, []).append(index)
    size = _group_size([len(members) for members in kinds.values()], settings)
    bounds = _stage_bounds(stages)
    groups = []
    for page, members in kinds.items():
        parts = ceil_div(len(members), size)
        for first in range(parts):
            mine = members[first::parts]
            layers = tuple(sum(low <= index < high for index in mine) for low, high in bounds)
            groups.append(Group(page, layers, tuple(count * page.bytes for count in layers)))
    return groups


def _group_size(counts: list[int], settings: Settings) -> int:
    """Layers a group: the rarest kind's count, or the commonest's if that isn't much larger."""
    if max(counts) < min(counts) * settings.release.widens_groups_below:
        return max(counts)
    return min(counts)


def _stage_bounds(stages: list[list[Page]]) -> list[tuple[int, int]]:
    bounds = []
    start = 0
    for stage in stages:
        bounds.append((start, start + len(stage)))
        start += len(stage)
    return bounds


def _packed(pages: list[Page], settings: Settings) -> list[Group]:
    """Groups of pages of unequal size side by side in a block. Layers that a model repeats, one of each size, stay
    together; states and rings are divided until they fit beside them (0.33, kv_cache_planning.py,
    _get_packed_kv_cache_groups; up to 0.31 _get_kv_cache_groups_uniform_groups)."""
    kinds: dict[tuple[object, ...], dict[int, list[Page]]] = {}
    for page in pages if settings.pooled else sorted(pages, key=lambda page: page.window is not None):
        kind = page.kind, page.block, page.window, page.kind == "Mamba" and page.heads
        kinds.setdefault(kind, {}).setdefault(page.bytes, []).append(page)
    counts = [max(map(len, sizes.values())) for sizes in kinds.values()]
    even = [len({*map(len, sizes.values())}) == 1 or not settings.release.packs_repeats for sizes in kinds.values()]
    least = [count for count, sizes, same in zip(counts, kinds.values(), even, strict=True) if same and len(sizes) > 1]
    repeats = [count for count, same in zip(counts, even, strict=True) if same]
    size = 0
    if least:  # ties prefer the larger size
        known = range(max(least), max(repeats) + 1)
        size = min(known, key=lambda item: (sum(-count % item for count in repeats), -item))
    parts = [ceil_div(count, size) if size and same else 1 for count, same in zip(counts, even, strict=True)]
    states = [kind[0] in _STATES or (not size and kind[2] is not None) for kind in kinds]
    block = max(
        sum(ceil_div(len(same), len(same) if state else part) * width for width, same in sizes.items())
        for sizes, part, state in zip(kinds.values(), parts, states, strict=True)
    )
    unit = _stride(pages, settings.pooled)
    groups = []
    for sizes, part, state in zip(kinds.values(), parts, states, strict=True):
        if state and settings.release.packs_repeats:
            width = next(iter(sizes))
            count = max(part, ceil_div(sum(map(len, sizes.values())), max(block // width, 1)))
        else:
            count = part
        for first in range(count):
            mine = [page for same in sizes.values() for page in same[first::count]]
            held = ceil_div(sum(page.bytes for page in mine), unit) * unit
            groups.append(Group(mine[0], (len(mine),), (held,)))
    return groups


def _stride(pages: list[Page], pooled: Pooled | None) -> int:
    """Bytes that blocks are a multiple of: 64 rows of latents, and 64 pooled keys where a block has more."""
    page = next(page for page in pages if page.kind not in _STATES)
    if pooled is None or page.kind != "MLAAttention":
        return 1
    keys = 64 * _POOLED_KEY if page.block != 64 * pooled.tokens else 1
    return math.lcm(page.bytes // page.block * 64, keys)


def _unequal(stages: list[list[Page]]) -> Group:
    """One group of full attention whose pages differ: its block is all pages of a stage side by side."""
    totals = tuple(sum(page.bytes for page in stage) for stage in stages)
    return Group(replace(stages[0][0], bytes=totals[0]), tuple(len(stage) for stage in stages), totals)


def _equal_pages(pages: list[Page], settings: Settings) -> list[Page]:
    """All pages as large as the largest: attention grows its block, or is padded; state is padded."""
    largest = max(page.bytes for page in pages)
    return [page if page.bytes == largest else _grown(page, largest, settings) for page in pages]


def _grown(page: Page, largest: int, settings: Settings) -> Page:
    if page.kind == "Mamba":
        return replace(page, bytes=largest)
    if largest % page.bytes == 0:
        return replace(page, block=page.block * (largest // page.bytes), bytes=largest)
    if settings.release.pads_attention_pages and page.kind != "MLAAttention":
        return replace(page, bytes=largest)
    words = (
        "NotImplementedError: The page size of the layer is not divisible by the maximum page size. "
        "Cannot unify by adjusting block_size."
    )
    remedy = "use vLLM 0.26 or newer, or --disable-hybrid-kv-cache-manager"
    source = "vllm/v1/core/kv_cache_utils.py, unify_kv_cache_spec_page_size"
    raise refusal("kv-pages", "config", words=words, remedy=remedy, source=source)
