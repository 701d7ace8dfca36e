# SPDX-License-Identifier: GPL-3.0-or-later
"""The pool: how many blocks fit, how many a request takes, and the checks that vLLM makes of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...._base.findings import FleetError
from .groups import Group, make_groups
from .model import Model
from .pages import Page, ceil_div, pages_by_stage
from .settings import Settings
from .trouble import refusal

_GIB = 2**30


@dataclass(frozen=True)
class Layout:
    """A model's cache, decided but for the number of blocks. stages: layers' pages by pipeline stage, ungrouped."""

    settings: Settings
    groups: tuple[Group, ...]
    stages: tuple[tuple[Page, ...], ...]

    def stage_bytes(self, stage: int) -> int:
        """Bytes that one block takes on a stage: the widest group's."""
        return max(group.stage_bytes[stage] for group in self.groups)

    @property
    def bytes_per_block(self) -> int:
        """... on the stage that takes the most; it decides for all."""
        return max(self.stage_bytes(stage) for stage in range(len(self.stages)))

    def request_blocks(self, length: int) -> int:
        """Blocks that one request of this many tokens takes, over all groups."""
        return sum(page_blocks(group.page, length, self.settings) for group in self.groups)

    def request_bytes(self, length: int) -> int:
        """... and their bytes on the widest stage."""
        return self.request_blocks(length) * self.bytes_per_block


def arrange(model: Model, settings: Settings) -> Layout:
    """The cache of a model with these settings. Raises FleetError where vLLM refuses whatever the memory is."""
    stages = pages_by_stage(model, settings)
    layout = Layout(settings, tuple(make_groups(stages, settings)), tuple(map(tuple, stages)))
    if settings.release.limits_aligned_block_early and (block := block_refusal(layout)):
        raise block
    return layout


def page_blocks(page: Page, length: int, settings: Settings) -> int:
    """Blocks of one group that a request takes (max_memory_usage_bytes in vllm/v1/kv_cache_interface.py)."""
    if page.kind == "Mamba":
        return _state_blocks(page, length, settings)
    if page.kind == "CircularBuffer":
        return 1
    if page.window is not None:
        held = page.window - 1 + settings.retained + settings.windows_in_flight * settings.max_num_batched_tokens
        return ceil_div(min(held, length), page.block) + 1
    return ceil_div(ceil_div(length, settings.context_parallel), page.block)


def _state_blocks(page: Page, length: int, settings: Settings) -> int:
    assert settings.state is not None
    release, mode = settings.release, settings.state.mode
    if not release.counts_speculative_states:
        return ceil_div(length, page.block)
    if mode == "all":
        drafted = settings.speculative_tokens if release.counts_speculative_states_in_all else 0
        return ceil_div(length, page.block) + drafted
    if mode == "align":
        return 2 + settings.speculative_tokens + settings.state.checkpoints
    return 1 + settings.speculative_tokens


@dataclass(frozen=True)
class Pool:
    """A sized pool. Its layout holds the length that a request may really have."""

    layout: Layout
    blocks: int

    @property
    def concurrency(self) -> float:
        """Requests of the longest length that fit at once."""
        return self.blocks / self.layout.request_blocks(self.layout.settings.max_model_len)

    @property
    def tokens(self) -> int:
        """The token line as the release prints it."""
        settings = self.layout.settings
        if settings.release.prints_capacity:
            return int(self.concurrency * settings.max_model_len)
        block = min(group.page.block for group in self.layout.groups)
        return self.blocks // len(self.layout.groups) * block * settings.context_parallel


def fill(layout: Layout, available: int, *, any_length: bool = False) -> Pool:
    """The pool that fits in so many bytes on each rank. Raises FleetError where vLLM refuses to start.

    any_length: also one that is too small for a request of the whole length, which vLLM refuses.
    """
    settings = layout.settings
    if settings.blocks_override is not None and settings.release.since("0.20"):
        available = settings.blocks_override * layout.bytes_per_block
    _check_any(layout, available)
    if settings.fits_length:
        layout = _fit_length(layout, available)
        settings = layout.settings
    if not any_length:
        _check_request(layout, available)
    blocks = min(available // layout.stage_bytes(stage) for stage in range(len(layout.stages)))
    if settings.blocks_override is not None:
        blocks = settings.blocks_override
    return Pool(layout, blocks)


def least_bytes_to_start(layout: Layout) -> int:
    """The least bytes on each rank with which vLLM starts: one request fits, and graphs have their state blocks."""
    settings = layout.settings
    length = 1 if settings.fits_length else settings.max_model_len
    least = max(needed_bytes(layout, length, stage) + _null(layout, stage) for stage in range(len(layout.stages)))
    if settings.state is not None and _needs_state_blocks(settings):
        least = max(least, settings.max_num_seqs * layout.bytes_per_block)
    return max(least, layout.bytes_per_block)


def _null(layout: Layout, stage: int) -> int:
    return layout.stage_bytes(stage) if layout.settings.release.sets_null_block_aside else 0


def _usable(layout: Layout, available: int, stage: int) -> int:
    return available - _null(layout, stage)


def _check_any(layout: Layout, available: int) -> None:
    if all(_usable(layout, available, stage) > 0 for stage in range(len(layout.stages))):
        return
    words = "ValueError: No available memory for the cache blocks."
    needed = layout.bytes_per_block + 1 if layout.settings.release.sets_null_block_aside else 1
    remedy = f"give the KV cache at least {needed} bytes: raise --gpu-memory-utilization"
    source = "vllm/v1/core/kv_cache_utils.py, _check_enough_kv_cache_memory"
    raise refusal("kv-memory", "available_kv_bytes", words=words, remedy=remedy, source=source)


def needed_bytes(layout: Layout, length: int, stage: int) -> int:
    """What the release's own test counts for one request of this length on a stage."""
    settings = layout.settings
    counted = settings.release.checks_fit
    if counted == "layers":
        return sum(page.bytes * page_blocks(page, length, settings) for page in layout.stages[stage])
    groups = layout.groups[:1] if counted == "first group" else layout.groups
    return layout.stage_bytes(stage) * sum(page_blocks(group.page, length, settings) for group in groups)


def longest_fitting(layout: Layout, available: int) -> int:
    """The longest request, up to --max-model-len, that passes the release's test; 0 if none does."""

    def fits(length: int) -> bool:
        stages = range(len(layout.stages))
        return all(needed_bytes(layout, length, stage) <= _usable(layout, available, stage) for stage in stages)

    return last_true(fits, layout.settings.max_model_len)


def last_true(holds: Callable[[int], bool], highest: int) -> int:
    """The largest whole number from 1 to highest that passes a test which larger ones fail; 0 if 1 fails."""
    low, high = 0, highest
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _fit_length(layout: Layout, available: int) -> Layout:
    """--max-model-len -1: shortened to what fits. Groups and blocks stay as they were made for the full length."""
    longest = longest_fitting(layout, available)
    if longest == 0:
        words = (
            "ValueError: Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single token."
        )
        remedy = f"give the KV cache at least {layout.request_bytes(1)} bytes"
        source = "vllm/v1/core/kv_cache_utils.py, _auto_fit_max_model_len"
        raise refusal("kv-length", "available_kv_bytes", words=words, remedy=remedy, source=source)
    return replace(layout, settings=replace(layout.settings, max_model_len=longest))


def _check_request(layout: Layout, available: int) -> None:
    length = layout.settings.max_model_len
    for stage in range(len(layout.stages)):
        needed, usable = needed_bytes(layout, length, stage), _usable(layout, available, stage)
        if needed > usable:
            longest = longest_fitting(layout, available)
            raise _too_long(length, needed, usable, longest)


def _too_long(length: int, needed: int, usable: int, longest: int) -> FleetError:
    estimate = f" Based on the available memory, the estimated maximum model length is {longest}." if longest else ""
    words = (
        f"ValueError: To serve at least one request with the model's max seq len ({length}), ({_gib(needed)} GiB KV "
        f"cache is needed, which is larger than the available KV cache memory ({_gib(usable)} GiB).{estimate}"
    )
    shorter = f"lower --max-model-len to {longest} or " if longest else ""
    remedy = f"{shorter}give the KV cache {needed - usable} bytes more"
    source = "vllm/v1/core/kv_cache_utils.py, _check_enough_kv_cache_memory"
    return refusal("kv-fit", "flags.max_model_len", words=words, remedy=remedy, source=source)


def _gib(amount: int) -> float:
    return round(amount / _GIB, 2)


def _needs_state_blocks(settings: Settings) -> bool:
    return settings.cudagraph_mode == "FULL_AND_PIECEWISE" and settings.release.checks_state_blocks


def block_refusal(layout: Layout) -> FleetError | None:
    """Mode `align` with a block larger than a batch, which some releases refuse whatever the memory is."""
    settings = layout.settings
    if settings.state is None or settings.state.mode != "align" or not settings.release.limits_aligned_block:
        return None
    block = next(group.page.block for group in layout.groups if group.page.kind != "Mamba")
    if block <= settings.max_num_batched_tokens:
        return None
    return refusal(
        "kv-align",
        "flags.max_num_batched_tokens",
        words=f"AssertionError: In Mamba cache align mode, block_size ({block}) must be <= max_num_batched_tokens "
        f"({settings.max_num_batched_tokens}).",
        remedy=f"write --max-num-batched-tokens {block} or more",
        source="vllm/config/vllm.py, validate_block_size",
        covers=("kv-late",),
    )


def late_refusal(pool: Pool) -> FleetError | None:
    """Why vLLM stops after it printed the pool's size; None if it goes on."""
    settings = pool.layout.settings
    if block := block_refusal(pool.layout):
        return block
    if settings.state is not None and _needs_state_blocks(settings) and settings.max_num_seqs > pool.blocks:
        words = (
            f"ValueError: max_num_seqs ({settings.max_num_seqs}) exceeds available Mamba cache blocks ({pool.blocks}). "
            f"Each decode sequence requires one Mamba cache block, so CUDA graph capture cannot proceed. Please lower "
            f"max_num_seqs to at most {pool.blocks} or increase gpu_memory_utilization."
        )
        remedy = f"write --max-num-seqs {pool.blocks} or less, or give the KV cache more bytes"
        return refusal("kv-late", "flags", words=words, remedy=remedy, source="docs/explanation/kv-sizing.md")
    return None
