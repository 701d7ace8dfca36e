# SPDX-License-Identifier: GPL-3.0-or-later
"""A config.json with the keys that we read, whatever its family calls them. What it has under these stays as it is."""

from collections.abc import Mapping
from typing import Any

from ..._base.gb10 import data_table
from .config import ConfigJson, number

_SPELLINGS: Mapping[str, list[str]] = data_table("config_spellings")
_LAYERS = ("layer_types", "layers_block_type", "hybrid_override_pattern", "hybrid_layer_pattern")
_EVERY = ("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")
# Of each so many layers the last looks back on all tokens, though the file does not say so.
_UNWRITTEN = {"gemma2": 2, "gemma3_text": 6, "llama4_text": 4}


def spelled(config: Mapping[Any, Any]) -> Mapping[Any, Any]:
    thinker = config.get("thinker_config")
    config = thinker if isinstance(thinker, Mapping) else config
    nested = ConfigJson(config).nested
    text = dict(config[nested] if nested else config)
    for part in ("attn_config", "ffn_config"):
        text = {**inner, **text} if isinstance(inner := text.get(part), Mapping) else text
    for name, others in _SPELLINGS.items():
        written = {key: text.get(key) for key in (name, *others)}
        firsts = {key: value[0] if isinstance(value, list) and value else value for key, value in written.items()}
        if found := next((count for key in firsts if (count := number(firsts, key))), 0):
            text[name] = found
    _recurrent(text)
    if not any(isinstance(text.get(key), list | str) for key in _LAYERS) and "full_attention_interval" not in text:
        text["layer_types"] = [_kind(text, at) for at in range(min(number(text, "num_hidden_layers"), 4096))]
    return {**config, nested: text} if nested else text


def _recurrent(text: dict[str, Any]) -> None:
    """The sizes of linear attention and of Mamba's first kind, which have no keys of their own."""
    linear = text.get("linear_attn_config")
    heads, width = number(text, "num_attention_heads"), number(text, "head_dim")
    if isinstance(linear, Mapping):
        heads, width = number(linear, "num_heads"), number(linear, "head_dim")
    if isinstance(linear, Mapping) or "attn_type_list" in text:
        text |= dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), heads)
        text |= dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim"), width)
    if not number(text, "mamba_num_heads") and (expand := number(text, "mamba_expand")):
        text |= {"mamba_num_heads": expand * number(text, "hidden_size"), "mamba_head_dim": 1}
    if "interleave_moe_layer_step" in text:  # Llama 4: beside its experts each such layer has one for all tokens
        text["n_shared_experts"] = 1


def _kind(text: Mapping[str, Any], index: int) -> str:
    kinds, linear = text.get("attn_type_list"), text.get("linear_attn_config")
    if isinstance(kinds, list) and index < len(kinds):
        found = "full_attention" if kinds[index] else "linear_attention"
    elif isinstance(linear, Mapping):
        those = linear.get("kda_layers")
        found = "linear_attention" if isinstance(those, list) and index + 1 in those else "full_attention"
    elif period := number(text, "attn_layer_period"):
        found = "full_attention" if index % period == number(text, "attn_layer_offset") else "mamba"
    elif "mamba_d_ssm" in text:
        found = "attention+mamba"
    elif not number(text, "sliding_window") or text.get("use_sliding_window") is False:
        found = "full_attention"
    else:
        found = "full_attention" if _looks_back_on_all(text, index) else "sliding_attention"
    return found


def _looks_back_on_all(text: Mapping[str, Any], index: int) -> bool:
    """Of a layer of a model with a sliding window."""
    if isinstance(letters := text.get("sliding_window_pattern"), str) and letters:
        return letters[index % len(letters)] != "L"
    every = next((count for key in _EVERY if (count := number(text, key))), 0)
    every = every or _UNWRITTEN.get(str(text.get("model_type")), 0)
    return every > 0 and (index + 1) % every == 0
