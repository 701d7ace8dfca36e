# SPDX-License-Identifier: GPL-3.0-or-later
"""Which layers share blocks: groups of equal pages (vllm/v1/core/kv_cache_utils.py, get_kv_cache_groups)."""

from dataclasses import dataclass, replace

from .pages import Page, ceil_div
from .settings import Settings
from .trouble import refusal


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
