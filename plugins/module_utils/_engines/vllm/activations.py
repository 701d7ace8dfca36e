# SPDX-License-Identifier: GPL-3.0-or-later
"""The peak of vLLM's profiling pass, from a model's config.json: what one rank's activations take. All sizes are bytes.

Fitted to 16 boots of vLLM 0.25.1 on a GPU and held against 35 other starts of 0.26.0, docs/explanation/memory.md: the
workspaces of experts and of latent attention are exact to the MiB there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..._base.sizes import gib
from ..._facts.models.config import ConfigJson, number

_BYTES = 2  # of an activation in 16 bits
_ALWAYS_GIB = 0.03
# Bytes of the sampler for each sequence and word of the vocabulary: on the V1 runner, with a drafter, on the V2 runner;
# and what the V2 runner keeps of each from the start (vllm/v1/worker/gpu/sample/penalties.py: a count and a bit).
_SAMPLER, _SAMPLER_DRAFTING, _SAMPLER_V2, _COUNTS_V2 = 15.2, 31.0, 2.05, 4.125
# The vision encoder on one of its largest items, what its output keeps, in GiB, and the item's tokens: Gemma 4's video,
# and Qwen's image for all others. A batch holds as many items as its tokens do (vllm/multimodal/encoder_budget.py).
_GEMMA_VISION, _VISION = (0.533, 0.04, 2496), (1.9, 0.25, 16384)
_GEMMA_IMAGE_TOKENS = 280
_DELTA_NET = 4.2
_EXPERTS_PER_TOKEN = ("num_experts_per_tok", "top_k_experts", "moe_topk")


@dataclass(frozen=True)
class Start:
    """What of a start decides its peak.

    ranks: of tensor parallel. length: of the longest request, 0 for any. second_runner: the V2 model runner. sees:
    whether the vision encoder is profiled. images: items a request by their kind, where they are limited. pools:
    whether vectors are asked of it, not text. latent: tokens of the workspace for chunked prefills of latent attention.
    read_layers: layers whose outputs are kept for a drafter.
    """

    tokens: int
    sequences: int
    ranks: int = 1
    length: int = 0
    drafts: bool = False
    second_runner: bool = False
    sees: bool = True
    images: Mapping[str, int] = field(default_factory=dict)
    pools: bool = False
    latent: int = 0
    read_layers: int = 0


def peak(config: Mapping[str, object], start: Start) -> int | None:
    """The peak of one rank; None for a config that lacks what it follows from."""
    read = ConfigJson(config)
    text = read.text
    hidden = number(text, "hidden_size")
    if not hidden:
        return None
    workspace = _workspace(text, start, hidden) if read.is_mixture else 0
    encoder, output = _vision(read, start, hidden)
    return gib(_ALWAYS_GIB) + max(encoder, output + round(workspace + max(layer(config, start), _sampler(read, start))))


def layer(config: Mapping[str, object], start: Start) -> float:
    """What one batch has in flight while it passes the widest layer, on one rank."""
    text, mixture = ConfigJson(config).text, ConfigJson(config).is_mixture
    heads, hidden = number(text, "num_attention_heads") / start.ranks, number(text, "hidden_size")
    kept = start.read_layers * hidden + (2 * hidden if start.pools else 0)  # what pools is in 32 bits
    latent = 0.0
    if number(text, "kv_lora_rank"):
        latent = start.latent * heads * (number(text, "qk_nope_head_dim") + number(text, "v_head_dim"))
    widest = max(_widths(text, mixture=mixture)) / start.ranks
    return _BYTES * (start.tokens * (widest + 3 * hidden + kept) + latent)


def counts(config: Mapping[str, object], start: Start) -> int:
    """What the V2 runner keeps for penalties, before the pass and outside what vLLM counts."""
    of_runner = _COUNTS_V2 if start.second_runner and not start.pools else 0
    return round(start.sequences * ConfigJson(config).vocabulary * of_runner)


def _sampler(read: ConfigJson, start: Start) -> float:
    per_word = _SAMPLER_V2 if start.second_runner else _SAMPLER_DRAFTING if start.drafts else _SAMPLER
    return 0 if start.pools else start.sequences * read.vocabulary * per_word


def _workspace(text: Mapping[str, object], start: Start, hidden: int) -> float:
    """What the experts' kernels keep for good: two buffers for each token and expert that it goes to."""
    inner = number(text, "moe_intermediate_size") or number(text, "intermediate_size")
    chosen = next((number(text, key) for key in _EXPERTS_PER_TOKEN if number(text, key)), 1)
    outer = number(text, "moe_latent_size") or hidden
    share = inner / start.ranks
    return _BYTES * start.tokens * chosen * (max(2 * share, outer) + max(share, outer))


def _widths(text: Mapping[str, object], *, mixture: bool) -> list[float]:
    """Elements a token that the layers of each kind have at once."""
    heads, head = number(text, "num_attention_heads"), number(text, "head_dim")
    head = head or (number(text, "hidden_size") // heads if heads else 0)
    kept = number(text, "num_key_value_heads") or heads
    widths: list[float] = [3 * (heads + 2 * kept) * head]
    if text.get("qk_norm_type") == "per_layer":  # over all heads, in 32 bits (vllm/.../models/minimax_m2.py)
        widths = [widths[0] + 2 * (heads + kept) * head]
    if number(text, "kv_lora_rank"):
        parts = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        widths = [heads * sum(number(text, part) for part in parts)]
    if not mixture:
        widths.append(3 * number(text, "intermediate_size"))
    if number(text, "mamba_num_heads"):
        inner = number(text, "mamba_num_heads") * number(text, "mamba_head_dim")
        state = 2 * number(text, "n_groups") * number(text, "ssm_state_size")
        widths.append(3 * (2 * inner + state + number(text, "mamba_num_heads")))
    keys = number(text, "linear_num_key_heads") * number(text, "linear_key_head_dim")
    values = number(text, "linear_num_value_heads") * number(text, "linear_value_head_dim")
    return [*widths, _DELTA_NET * (2 * keys + 2 * values)]


def takes_images(config: Mapping[str, object]) -> bool:
    """Whether the model has an encoder for images."""
    return "vision_config" in config


def _vision(config: ConfigJson, start: Start, hidden: int) -> tuple[int, int]:
    """The encoder on the items of one batch, and what their outputs keep."""
    tower = config.values.get("vision_config")
    if not isinstance(tower, Mapping) or not start.sees:
        return 0, 0
    gemma = str(config.architecture).startswith("Gemma4")
    each, kept, item = _GEMMA_VISION if gemma else _VISION
    scale, kind = 1.0, "video"
    if not gemma:
        kind = "image"
        levels = tower.get("deepstack_visual_indexes")
        outputs = 1 + len(levels) if isinstance(levels, list) else 1
        kept = max(kept, _BYTES * item * hidden * outputs / gib(1))
    elif start.images.get("video") == 0:
        kind, scale, item = "image", _GEMMA_IMAGE_TOKENS / item, _GEMMA_IMAGE_TOKENS
    of_request = start.images.get(kind, start.tokens)
    if start.length:
        of_request = max(1, min(of_request, start.length // item))
    items = max(1, min(max(start.tokens, item) // item, start.sequences * max(1, of_request)))
    return gib(each * scale * items), gib(kept * scale * items)
