# SPDX-License-Identifier: GPL-3.0-or-later
"""The peak of vLLM's profiling pass, from a model's config.json: what one rank's activations take. All sizes are bytes.

Fitted to 16 boots of vLLM 0.25.1 on a GPU, docs/memory.md: the workspace of the experts is exact to the MiB there, the
whole within 0.3 GiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..._base.sizes import gib
from ..._facts.models.config import ConfigJson

_BYTES = 2  # of an activation in 16 bits
_ALWAYS_GIB = 0.03
# Bytes of the sampler for each sequence and word of the vocabulary: on the V1 runner, with a drafter, on the V2 runner.
_SAMPLER, _SAMPLER_DRAFTING, _SAMPLER_V2 = 15.2, 31.0, 6.2
# The vision encoder on its largest item, and what its output keeps, in GiB: Gemma 4's, and Qwen's for all others.
_GEMMA_VISION, _VISION = (1.6, 0.12), (1.9, 0.25)
_DELTA_NET = 4.2
_EXPERTS_PER_TOKEN = ("num_experts_per_tok", "top_k_experts", "moe_topk")


@dataclass(frozen=True)
class Start:
    """What of a start decides its peak. ranks: of tensor parallel. sees: whether the vision encoder is profiled."""

    tokens: int
    sequences: int
    ranks: int = 1
    drafts: bool = False
    second_runner: bool = False
    sees: bool = True


def peak(config: Mapping[str, Any], start: Start) -> int | None:
    """The peak of one rank; None for a config that lacks what it follows from."""
    read = ConfigJson(config)
    text = read.text
    hidden = _number(text, "hidden_size")
    if not hidden:
        return None
    workspace = _workspace(text, start, hidden) if read.is_mixture else 0
    widest = max(_widths(text, mixture=read.is_mixture)) / start.ranks
    layer = _BYTES * start.tokens * (widest + 3 * hidden)
    per_word = _SAMPLER_V2 if start.second_runner else _SAMPLER_DRAFTING if start.drafts else _SAMPLER
    sampler = start.sequences * read.vocabulary * per_word
    encoder, output = _vision(read) if start.sees and not start.second_runner else (0, 0)
    return gib(_ALWAYS_GIB) + max(encoder, output + round(workspace + max(layer, sampler)))


def _workspace(text: Mapping[Any, Any], start: Start, hidden: int) -> float:
    """What the experts' kernels keep for good: two buffers for each token and expert that it goes to."""
    inner = _number(text, "moe_intermediate_size") or _number(text, "intermediate_size")
    chosen = next((_number(text, key) for key in _EXPERTS_PER_TOKEN if _number(text, key)), 1)
    outer = _number(text, "moe_latent_size") or hidden
    share = inner / start.ranks
    return _BYTES * start.tokens * chosen * (max(2 * share, outer) + max(share, outer))


def _widths(text: Mapping[Any, Any], *, mixture: bool) -> list[float]:
    """Elements a token that the layers of each kind have at once."""
    heads, head = _number(text, "num_attention_heads"), _number(text, "head_dim")
    head = head or (_number(text, "hidden_size") // heads if heads else 0)
    widths: list[float] = [3 * (heads + 2 * (_number(text, "num_key_value_heads") or heads)) * head]
    if not mixture:
        widths.append(3 * _number(text, "intermediate_size"))
    if _number(text, "mamba_num_heads"):
        inner = _number(text, "mamba_num_heads") * _number(text, "mamba_head_dim")
        state = 2 * _number(text, "n_groups") * _number(text, "ssm_state_size")
        widths.append(3 * (2 * inner + state + _number(text, "mamba_num_heads")))
    keys = _number(text, "linear_num_key_heads") * _number(text, "linear_key_head_dim")
    values = _number(text, "linear_num_value_heads") * _number(text, "linear_value_head_dim")
    return [*widths, _DELTA_NET * (2 * keys + 2 * values)]


def takes_images(config: Mapping[str, Any]) -> bool:
    """Whether the model has an encoder for images."""
    return "vision_config" in config


def _vision(config: ConfigJson) -> tuple[int, int]:
    if not takes_images(config.values):
        return 0, 0
    encoder, output = _GEMMA_VISION if str(config.architecture).startswith("Gemma4") else _VISION
    return gib(encoder), gib(output)


def _number(values: Mapping[Any, Any], key: str) -> int:
    value = values.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
