# SPDX-License-Identifier: GPL-3.0-or-later
"""LoRA adapters: where they come from, and the memory that vLLM sets aside for them. All sizes are bytes of one rank.

With --enable-lora vLLM allocates, before the profiling pass, two matrices for each part of each linear layer and each
of --max-loras places, of --max-lora-rank whatever an adapter's own rank is (vllm/lora/layers, create_lora_weights),
and keeps each adapter that it has loaded in the host's memory as well, which is the same memory on a GB10.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._facts.models.config import ConfigJson

_BYTES = 2  # of an element: adapters are of the model's own 16 bits
_RANK, _PLACES = 16, 1  # --max-lora-rank, --max-loras


@dataclass(frozen=True)
class Adapters:
    """slots: what a start sets aside. copies: the adapters' own, at most, once all are loaded."""

    slots: int = 0
    copies: int = 0


@dataclass(frozen=True)
class _Linear:
    """A linear layer. name: as adapters target it. parts: outputs of its parts, which have a matrix each. by_input:
    tensor parallelism shares out its inputs; by_output: its outputs. times: how often a model has it. experts: one for
    each of them."""

    name: str
    inputs: int
    parts: Sequence[int]
    by_input: bool = False
    by_output: bool = False
    times: int = 1
    experts: int = 1

    def elements(self, rank: int, ranks: int) -> int:
        inputs = self.inputs // ranks if self.by_input else self.inputs
        outputs = [part // ranks if self.by_output else part for part in self.parts]
        return self.times * self.experts * rank * (len(outputs) * inputs + sum(outputs))


def sources(flags: Mapping[str, Any]) -> list[str]:
    """Folders of the host and hub ids that adapters are loaded from at the start, in the order of the options."""
    written = flags.get("lora-modules") or []
    entries = [written] if isinstance(written, str | Mapping) else written
    found = [*map(_source, entries), *(flags.get("default-mm-loras") or {}).values()]
    return list(dict.fromkeys(source for source in found if isinstance(source, str) and source))


def _source(entry: object) -> Any:
    """``NAME=PATH``, or a map with ``path``, also as JSON."""
    if isinstance(entry, str) and entry.lstrip().startswith("{"):
        try:
            entry = json.loads(entry)
        except ValueError:
            return None
    if isinstance(entry, Mapping):
        return entry.get("path")
    return entry.partition("=")[2] if isinstance(entry, str) else None


def memory(config: Mapping[str, object] | None, flags: Mapping[str, object]) -> Adapters | None:
    """What adapters take; None where the model isn't known well enough. flags: the decided ones."""
    if flags.get("enable-lora") is not True:
        return Adapters()
    if config is None:
        return None
    places, rank = _whole(flags.get("max-loras"), _PLACES), _whole(flags.get("max-lora-rank"), _RANK)
    kept = _whole(flags.get("max-cpu-loras"), places)
    ranks = _whole(flags.get("tensor-parallel-size"), 1)
    targets = flags.get("lora-target-modules")
    layers = [layer for layer in _linears(ConfigJson(config)) if _is_target(layer.name, targets)]
    if not layers:
        return None
    # adapters as trained leave experts and embeddings alone, unless somebody asks for them
    usual = [
        layer for layer in layers if targets or not (layer.experts > 1 or layer.name in ("embed_tokens", "lm_head"))
    ]
    return Adapters(
        slots=_BYTES * places * sum(layer.elements(rank, ranks) for layer in layers),
        copies=_BYTES * kept * sum(layer.elements(rank, 1) for layer in usual),
    )


def _is_target(name: str, targets: Any) -> bool:
    """Whether --lora-target-modules leaves it; vLLM knows a layer of several parts by either name."""
    if not targets:
        return True
    parts = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}.get(name, ())
    wanted = [targets] if isinstance(targets, str) else targets
    return any(part in wanted for part in (name, *parts))


def _linears(config: ConfigJson) -> Iterator[_Linear]:
    """The linear layers of the language model, by what its config.json names."""
    text = config.text
    hidden, kinds = _whole(text.get("hidden_size")), _layers(text)
    if not hidden or not kinds:
        return
    yield from _attention(text, hidden, kinds.count("attention"))
    yield from _delta_net(text, hidden, kinds.count("linear"))
    yield from _mamba(text, hidden, kinds.count("mamba"))
    pattern = bool(text.get("hybrid_override_pattern") or text.get("layers_block_type"))
    depth = kinds.count("moe") if pattern else len(kinds)
    if config.is_mixture:
        yield from _mixture(text, hidden, depth, gated=not pattern)
    else:
        dense = kinds.count("mlp") if pattern else depth
        yield from _mlp(hidden, _whole(text.get("intermediate_size")), dense, gated=not pattern)
    words = config.vocabulary
    yield _Linear("embed_tokens", words, [hidden])
    yield _Linear("lm_head", hidden, [words])


def _layers(text: Mapping[str, Any]) -> list[str]:
    """What each layer is: attention, linear, mamba, moe or mlp."""
    letters = {"M": "mamba", "*": "attention", "E": "moe", "-": "mlp"}
    pattern = text.get("hybrid_override_pattern") or text.get("layers_block_type")
    if pattern:
        return [letters.get(str(kind), str(kind)) for kind in pattern]
    depth = _whole(text.get("num_hidden_layers"))
    if isinstance(text.get("layer_types"), list):
        return ["linear" if str(kind).startswith("linear") else "attention" for kind in text["layer_types"]]
    if _whole(text.get("linear_num_value_heads")):
        every = _whole(text.get("full_attention_interval"), 4)
        return ["linear" if (index + 1) % every else "attention" for index in range(depth)]
    return ["attention"] * depth


def _attention(text: Mapping[str, object], hidden: int, times: int) -> Iterator[_Linear]:
    heads = _whole(text.get("num_attention_heads"))
    width = _whole(text.get("head_dim")) or (hidden // heads if heads else 0)
    keys = _whole(text.get("num_key_value_heads"), heads) * width
    # a gate of the output's width lies beside the queries
    gated = 2 if text.get("attn_output_gate") or _whole(text.get("linear_num_value_heads")) else 1
    yield _Linear("qkv_proj", hidden, [gated * heads * width, keys, keys], by_output=True, times=times)
    yield _Linear("o_proj", heads * width, [hidden], by_input=True, times=times)


def _delta_net(text: Mapping[str, object], hidden: int, times: int) -> Iterator[_Linear]:
    heads = _whole(text.get("linear_num_value_heads"))
    keys = _whole(text.get("linear_num_key_heads")) * _whole(text.get("linear_key_head_dim"))
    values = heads * _whole(text.get("linear_value_head_dim"))
    if times and heads:
        yield _Linear("in_proj_qkvz", hidden, [2 * keys + values, values], by_output=True, times=times)
        yield _Linear("in_proj_ba", hidden, [heads, heads], by_output=True, times=times)
        yield _Linear("out_proj", values, [hidden], by_input=True, times=times)


def _mamba(text: Mapping[str, object], hidden: int, times: int) -> Iterator[_Linear]:
    heads = _whole(text.get("mamba_num_heads"))
    inner = heads * _whole(text.get("mamba_head_dim"))
    states = 2 * _whole(text.get("n_groups")) * _whole(text.get("ssm_state_size"))
    if times and heads:
        yield _Linear("in_proj", hidden, [2 * inner + states + heads], by_output=True, times=times)
        yield _Linear("out_proj", inner, [hidden], by_input=True, times=times)


def _mixture(text: Mapping[str, object], hidden: int, times: int, *, gated: bool) -> Iterator[_Linear]:
    keys = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
    experts = next((_whole(text.get(key)) for key in keys if _whole(text.get(key))), 0)
    inner = _whole(text.get("moe_intermediate_size")) or _whole(text.get("intermediate_size"))
    outer = _whole(text.get("moe_latent_size")) or hidden
    first = [inner, inner] if gated else [inner]
    yield _Linear("gate", hidden, [experts], times=times)
    yield _Linear("experts", outer, first, by_output=True, times=times, experts=experts)
    yield _Linear("experts", inner, [outer], by_input=True, times=times, experts=experts)
    shared = _whole(text.get("shared_expert_intermediate_size")) or _whole(
        text.get("moe_shared_expert_intermediate_size")
    )
    yield from _mlp(hidden, shared, times, gated=gated)


def _mlp(hidden: int, inner: int, times: int, *, gated: bool) -> Iterator[_Linear]:
    if inner and times:
        yield _Linear("gate_up_proj", hidden, [inner, inner] if gated else [inner], by_output=True, times=times)
        yield _Linear("down_proj", inner, [hidden], by_input=True, times=times)


def _whole(value: object, default: int = 0) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
