# SPDX-License-Identifier: GPL-3.0-or-later
"""A model's config.json, as far as more than one reader needs it. What is missing or malformed is absent."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

# Where a config keeps its language model; the first that is there counts.
_NESTED = ("text_config", "llm_config", "language_config")
_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")


@dataclass(frozen=True)
class ConfigJson:
    """The map that the file holds."""

    values: Mapping[Any, Any]

    @cached_property
    def nested(self) -> str:
        """The key of the part that describes the language model; empty where that is the whole file."""
        return next((key for key in _NESTED if isinstance(self.values.get(key), Mapping)), "")

    @property
    def text(self) -> Mapping[Any, Any]:
        """What describes the language model."""
        return self.values[self.nested] if self.nested else self.values

    @property
    def is_mixture(self) -> bool:
        """A mixture of experts, as vLLM counts them (vllm/config/model.py, is_moe)."""
        return bool(self.experts)

    @property
    def experts(self) -> int:
        """Experts of a layer; 0 of a dense model."""
        return next((count for key in _EXPERTS if (count := number(self.text, key))), 0)

    @property
    def vocabulary(self) -> int:
        """Tokens that the sampler's logits are made for; 0 where the file doesn't say."""
        return _whole(self.values.get("vocab_size", self.text.get("vocab_size")))

    @property
    def positions(self) -> int | None:
        """The context that the model was trained for, in tokens."""
        return _whole(self.text.get("max_position_embeddings")) or None

    @property
    def architecture(self) -> str | None:
        """The first of the names; some tools write a single one."""
        names = self.values.get("architectures")
        first = names[0] if isinstance(names, list) and names else names
        return first if isinstance(first, str) and first else None

    @property
    def quantization(self) -> Mapping[Any, Any]:
        """How the weights are quantized; empty where they are not."""
        found = self.values.get("quantization_config") or self.text.get("quantization_config")
        return found if isinstance(found, Mapping) else {}


def number(values: Mapping[str, object], key: str) -> int:
    """A count of a config; 0 where it is missing or malformed."""
    return _whole(values.get(key))


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
