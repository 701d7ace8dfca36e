# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between vLLM's releases for the KV pool, 0.11 to 0.33: one named rule a difference.

Each boundary was read in the source of the releases on both sides and checked against their own code, run on a
simulated sm_121 (docs/explanation/kv-sizing.md). Releases before 0.11 are refused; one newer than 0.33.0 is sized like
0.33.0.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..catalogue.version import Version, parse, parse_range
from .trouble import bad_input

OLDEST = "0.11.0"
NEWEST = "0.33.0"

T = TypeVar("T")


class _By(Generic[T]):
    """A fact of releases: its value by range, in the catalogue's notation."""

    def __init__(self, values: Mapping[str, T]) -> None:
        self._values = [(parse_range(text), value) for text, value in values.items()]

    def __get__(self, release: "Release", owner: "type[Release]") -> T:
        return next(value for known, value in self._values if release in known)


def _in(text: str) -> _By[bool]:
    """True within the range, else false."""
    return _By({text: True, "..": False})


@dataclass(frozen=True)
class Release(Version):
    """A vLLM release and what it does. Each attribute names the rule that holds where it is true."""

    @property
    def remark(self) -> str:
        """Why this isn't the arithmetic of a release that was read; empty if it is."""
        if self.since(NEWEST) and self.base != NEWEST:
            return f"sized like {NEWEST}, the newest release known"
        return f"a build between releases, sized like {self.base}" if self.unreleased else ""

    # -- defaults (vllm/engine/arg_utils.py, vllm/config/vllm.py, vllm/model_executor/models/config.py)
    # --async-scheduling is on by default
    schedules_asynchronously = _in("0.14..")
    # n-gram drafting keeps async scheduling on
    ngram_schedules_asynchronously = _in("0.33..")
    # 2048 batched tokens and 256 sequences on compute capability 12.1; 8192 and 1024 before
    small_batches_on_gb10 = _in("0.33..")
    # a prefix-LM with images gets a default batch that holds one of its largest items
    raises_batch_for_images = _in("0.22..")
    # prefix caching is on by default for models with recurrent layers
    caches_hybrid_prefixes = _in("0.28..")
    # --mamba-cache-mode exists, and models that can't keep all states fall back to `align`
    has_state_cache_modes = _in("0.15..")
    # Mamba2 models with prefix caching keep the state of each block (mode `all`)
    keeps_all_states = _in("..<0.28")
    # --mamba-cache-mode all; 0.32 refuses it, later releases read it as `align`
    knows_mode_all = _in("..<0.32")
    refuses_mode_all = _in("0.32..<0.33")
    # with speculation, Mamba2 models get mode `align` where they would get `all`
    aligns_when_speculating = _in("0.20..<0.22")
    # the config's own dtype for Nemotron-H's state counts
    reads_state_dtype = _in("0.13..")
    # dtype of Nemotron-H's state when neither flag nor config names one
    unnamed_state_dtype = _By({"..<0.20": "float16", "0.20..": "float32"})
    # `--kv-cache-dtype auto` follows the checkpoint's own KV quantization
    reads_kv_quantization = _in("0.14..")

    # -- hybrid models (vllm/model_executor/models/config.py, from 0.20 vllm/platforms/interface.py)
    # a user's block size is the unit that the hybrid block is a multiple of; before, only a lower bound
    counts_user_block_as_alignment = _in("0.20..")
    # mode `align` keeps one more state block per sequence, for a checkpoint inside a prefill
    mamba2_exports_checkpoints = _in("0.32..")
    # ... for Gated DeltaNet too, and its blocks are multiples of 64 tokens
    delta_net_exports_checkpoints = _in("0.33..")
    # a sequence holds one more state per speculative token
    counts_speculative_states = _in("0.15..")
    # ... in mode `all` too
    counts_speculative_states_in_all = _in("0.22..")

    # -- groups and blocks (vllm/v1/core/kv_cache_utils.py, from 0.33 kv_cache_planning.py)
    # kinds of layers whose counts differ by less than this factor share the larger group size; 0.11 never
    widens_groups_below = _By({"..<0.12": 1.0, "0.12..<0.18": 1.25, "0.18..": 1.5})
    # sliding layers start from their backend's smallest kernel block, whatever --block-size says
    windows_take_smallest_block = _in("0.25..<0.30")
    # ... from its largest kernel block that --block-size holds
    windows_take_kernel_block = _in("0.30..")
    # attention pages that don't divide the largest one are padded; before, vLLM refuses them
    pads_attention_pages = _in("0.26..")
    # of pages of unequal size, only layers that repeat one of each size are divided into groups
    packs_repeats = _in("0.32..")
    # layers also differ by the kernel blocks that their attention backend needs whole
    aligns_block_strides = _in("0.32..")

    # -- requests, checks, printing
    # decode context parallelism beside recurrent layers, whose states stay whole
    divides_context_of_hybrids = _in("0.26..")
    # a sliding window holds the tokens of all batches in flight, not of one
    counts_batches_in_flight = _in("0.26..")
    # model runner V2 without experts: with a pipeline, async scheduling has one more batch in flight
    runs_dense_models_on_v2 = _in("0.26..")
    runs_all_models_on_v2 = _in("0.29..")
    # --max-model-len -1 (auto) exists
    fits_length_to_memory = _in("0.14..")
    # what the test that one request fits counts
    checks_fit = _By({"..<0.14": "layers", "0.14..<0.19": "first group", "0.19..": "groups"})
    # the fit test leaves out the block that is never handed out
    sets_null_block_aside = _in("0.29..")
    # refuses more sequences than blocks for recurrent models with full CUDA graphs
    checks_state_blocks = _in("0.20..")
    # mode `align` refuses a block larger than a batch
    limits_aligned_block = _in("0.15..<0.27")
    # ... before it prints the pool's size
    limits_aligned_block_early = _in("0.15..<0.18")
    # the token line is concurrency x --max-model-len; before, blocks of one group x block size
    prints_capacity = _in("0.20.1..")


def requested_bytes(total: int, utilization: float, release: Version | None) -> int:
    """What ``--gpu-memory-utilization`` means: the bytes that must be free at the start, and that the pool is cut from.

    release: None where unknown, then as the newest.
    """
    return math.ceil(total * utilization) if release is None or release.since("0.14") else int(total * utilization)


def parse_release(text: object) -> Release:
    """The release that a version text means; raises FleetError for what isn't one or is older than 0.11."""
    version = parse(text) if isinstance(text, str) else None
    if version is None:
        expected, remedy = "a vLLM version like 0.23.0", "write it as text"
    elif not version.since(OLDEST):
        expected, remedy = f"{OLDEST} or newer", "use an image with a newer vLLM"
    else:
        return Release(version.text, version.release, version.candidate, version.dev)
    raise bad_input("kv-version", "vllm_version", value=text, expected=expected, remedy=remedy)
