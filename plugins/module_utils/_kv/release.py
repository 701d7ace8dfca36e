# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What differs between vLLM's releases for the KV pool, 0.11 to 0.33: one named rule a difference.

Each boundary was read in the source of the releases on both sides and checked against their own code, run on a
simulated sm_121 (docs/kv-sizing.md). Releases before 0.11 are refused; one newer than 0.33.0 is sized like 0.33.0.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gb10.fleet.plugins.module_utils._catalogue.version import parse as parse_version
from ansible_collections.gb10.fleet.plugins.module_utils._findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._kv.trouble import bad_input

OLDEST = (0, 11, 0)
NEWEST = (0, 33, 0)


@dataclass(frozen=True)
class Release:
    """A vLLM release and what it does. Each property names the rule that holds when it is true."""

    text: str
    number: tuple[int, ...]
    unreleased: bool = False

    def since(self, minor: int, patch: int = 0) -> bool:
        return self.number >= (0, minor, patch)

    @property
    def remark(self) -> str:
        """Why this isn't the arithmetic of a release that was read; empty if it is."""
        if self.number > NEWEST:
            return f"sized like {_dotted(NEWEST)}, the newest release known"
        if self.unreleased:
            return f"a build between releases, sized like {_dotted(self.number)}"
        return ""

    # -- defaults (vllm/engine/arg_utils.py, vllm/config/vllm.py, vllm/model_executor/models/config.py)

    @property
    def schedules_asynchronously(self) -> bool:
        """--async-scheduling is on by default."""
        return self.since(14)

    @property
    def ngram_schedules_asynchronously(self) -> bool:
        """n-gram drafting keeps async scheduling on."""
        return self.since(33)

    @property
    def small_batches_on_gb10(self) -> bool:
        """2048 batched tokens and 256 sequences on compute capability 12.1; 8192 and 1024 before."""
        return self.since(33)

    @property
    def raises_batch_for_images(self) -> bool:
        """A prefix-LM with images gets a default batch that holds one of its largest items."""
        return self.since(22)

    @property
    def caches_hybrid_prefixes(self) -> bool:
        """Prefix caching is on by default for models with recurrent layers."""
        return self.since(28)

    @property
    def has_state_cache_modes(self) -> bool:
        """--mamba-cache-mode exists, and models that can't keep all states fall back to `align`."""
        return self.since(15)

    @property
    def keeps_all_states(self) -> bool:
        """Mamba2 models with prefix caching keep the state of each block (mode `all`)."""
        return not self.since(28)

    @property
    def knows_mode_all(self) -> bool:
        """--mamba-cache-mode all; 0.32 refuses it, later releases read it as `align`."""
        return not self.since(32)

    @property
    def refuses_mode_all(self) -> bool:
        return self.since(32) and not self.since(33)

    @property
    def aligns_when_speculating(self) -> bool:
        """With speculation, Mamba2 models get mode `align` where they would get `all`."""
        return (0, 20) <= self.number < (0, 22)

    @property
    def reads_state_dtype(self) -> bool:
        """The config's own dtype for Nemotron-H's state counts."""
        return self.since(13)

    @property
    def unnamed_state_dtype(self) -> str:
        """Dtype of Nemotron-H's state when neither flag nor config names one."""
        return "float32" if self.since(20) else "float16"

    @property
    def reads_kv_quantization(self) -> bool:
        """`--kv-cache-dtype auto` follows the checkpoint's own KV quantization."""
        return self.since(14)

    # -- hybrid models (vllm/model_executor/models/config.py, from 0.20 vllm/platforms/interface.py)

    @property
    def counts_user_block_as_alignment(self) -> bool:
        """A user's block size is the unit that the hybrid block is a multiple of; before, only a lower bound."""
        return self.since(20)

    @property
    def mamba2_exports_checkpoints(self) -> bool:
        """Mode `align` keeps one more state block per sequence, for a checkpoint inside a prefill."""
        return self.since(32)

    @property
    def delta_net_exports_checkpoints(self) -> bool:
        """... for Gated DeltaNet too, and its blocks are multiples of 64 tokens."""
        return self.since(33)

    @property
    def counts_speculative_states(self) -> bool:
        """A sequence holds one more state per speculative token."""
        return self.since(15)

    @property
    def counts_speculative_states_in_all(self) -> bool:
        """... in mode `all` too."""
        return self.since(22)

    # -- groups and blocks (vllm/v1/core/kv_cache_utils.py, from 0.33 kv_cache_planning.py)

    @property
    def widens_groups_below(self) -> float:
        """Kinds of layers whose counts differ by less than this factor share the larger group size; 0.11 never."""
        if not self.since(12):
            return 1.0
        return 1.5 if self.since(18) else 1.25

    @property
    def windows_take_smallest_block(self) -> bool:
        """Sliding layers start from their backend's smallest kernel block, whatever --block-size says."""
        return (0, 25) <= self.number < (0, 30)

    @property
    def windows_take_kernel_block(self) -> bool:
        """... from its largest kernel block that --block-size holds."""
        return self.since(30)

    @property
    def pads_attention_pages(self) -> bool:
        """Attention pages that don't divide the largest one are padded; before, vLLM refuses them."""
        return self.since(26)

    @property
    def aligns_block_strides(self) -> bool:
        """Layers also differ by the kernel blocks that their attention backend needs whole."""
        return self.since(32)

    # -- requests, checks, printing

    @property
    def counts_batches_in_flight(self) -> bool:
        """A sliding window holds the tokens of all batches in flight, not of one."""
        return self.since(26)

    @property
    def runs_dense_models_on_v2(self) -> bool:
        """Model runner V2 without experts: with a pipeline, async scheduling has one more batch in flight."""
        return self.since(26)

    @property
    def runs_all_models_on_v2(self) -> bool:
        return self.since(29)

    @property
    def fits_length_to_memory(self) -> bool:
        """--max-model-len -1 (auto) exists."""
        return self.since(14)

    @property
    def checks_fit(self) -> str:
        """What the test that one request fits counts: each layer, the first group, all groups."""
        if not self.since(14):
            return "layers"
        return "groups" if self.since(19) else "first group"

    @property
    def sets_null_block_aside(self) -> bool:
        """The fit test leaves out the block that is never handed out."""
        return self.since(29)

    @property
    def checks_state_blocks(self) -> bool:
        """Refuses more sequences than blocks for recurrent models with full CUDA graphs."""
        return self.since(20)

    @property
    def limits_aligned_block(self) -> bool:
        """Mode `align` refuses a block larger than a batch."""
        return (0, 15) <= self.number < (0, 27)

    @property
    def limits_aligned_block_early(self) -> bool:
        """... before it prints the pool's size."""
        return (0, 15) <= self.number < (0, 18)

    @property
    def prints_capacity(self) -> bool:
        """The token line is concurrency x --max-model-len; before, blocks of one group x block size."""
        return self.since(20, 1)


def parse_release(text: object) -> Release:
    """The release that a version text means; raises FleetError for what isn't one or is older than 0.11."""
    version = parse_version(text) if isinstance(text, str) else None
    if version is None:
        raise FleetError(
            bad_input(
                "kv-version",
                "vllm_version",
                value=text,
                expected="a vLLM version like 0.23.0",
                remedy="write it as text",
            )
        )
    if version.release < OLDEST:
        expected = f"{_dotted(OLDEST)} or newer"
        raise FleetError(
            bad_input(
                "kv-version", "vllm_version", value=text, expected=expected, remedy="use an image with a newer vLLM"
            )
        )
    return Release(version.text, version.release, version.unreleased)


def _dotted(number: tuple[int, ...]) -> str:
    return ".".join(map(str, number))
