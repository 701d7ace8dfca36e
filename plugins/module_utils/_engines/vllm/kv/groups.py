# SPDX-License-Identifier: GPL-3.0-or-later
"""Which layers share blocks: groups of equal pages (vllm/v1/core/kv_cache_utils.py, get_kv_cache_groups)."""

import math
from dataclasses import dataclass, replace

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
    if settings.packs_groups:
        return _packed(pages)
    if settings.pooled:
        return _beside_states(pages, settings.pooled.tokens)
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


def _packed(pages: list[Page]) -> list[Group]:
    """DeepSeek-V4's groups: pages of any size side by side in a block, which the latents' group decides (up to 0.31
    _get_kv_cache_groups_uniform_groups, then _get_packed_kv_cache_groups)."""
    kinds: dict[tuple[str, int, int | None], dict[int, list[Page]]] = {}
    for page in sorted(pages, key=lambda page: page.window is not None):
        kinds.setdefault((page.kind, page.block, page.window), {}).setdefault(page.bytes, []).append(page)
    counts = [max(map(len, sizes.values())) for sizes in kinds.values()]
    # ties prefer the larger size
    size = min(range(counts[0], max(counts) + 1), key=lambda item: (sum(-count % item for count in counts), -item))
    groups = []
    for sizes, count in zip(kinds.values(), counts, strict=True):
        parts = ceil_div(count, size)
        for first in range(parts):
            mine = [page for same in sizes.values() for page in same[first::parts]]
            groups.append(Group(mine[0], (len(mine),), (sum(page.bytes for page in mine),)))
    return groups


def _beside_states(pages: list[Page], pooled: int) -> list[Group]:
    """Groups of pages of unequal size in one block, as many layers each as waste the least; states and rings in groups
    that the block of the attention layers holds (0.33, kv_cache_planning.py, _get_packed_kv_cache_groups)."""
    kinds: dict[tuple[object, ...], list[Page]] = {}
    for page in pages:
        kinds.setdefault((page.kind, page.block, page.kind == "Mamba" and page.heads), []).append(page)
    attention = next(same for same in kinds.values() if same[0].kind not in _STATES)
    layers = len(attention) // 2  # each with its keys
    counts = [layers if same is attention else len(same) for same in kinds.values()]
    size = min(range(layers, max(counts) + 1), key=lambda item: (sum(-count % item for count in counts), -item))
    block = sum(page.bytes for page in attention)
    unit = _stride(attention[0], pooled)
    groups = []
    for same, count in zip(kinds.values(), counts, strict=True):
        parts = ceil_div(count, size)
        if same is attention:
            mine = [[*attention]]
        else:
            parts = max(parts, ceil_div(count, max(block // same[0].bytes, 1)))
            mine = [same[first::parts] for first in range(parts)]
        for group in mine:
            held = ceil_div(sum(page.bytes for page in group), unit) * unit
            groups.append(Group(group[0], (len(group),), (held,)))
    return groups


def _stride(page: Page, pooled: int) -> int:
    """Bytes that blocks are a multiple of: 64 rows of latents, and 64 pooled keys where a block has more."""
    if page.kind != "MLAAttention":
        return 1
    keys = 64 * _POOLED_KEY if page.block != 64 * pooled else 1
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
