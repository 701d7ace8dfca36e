# SPDX-License-Identifier: GPL-3.0-or-later
"""The size of a model's weights from its config.json and how they are quantized, where nobody has seen the files.

Counted by part, since quantizers treat parts differently: embeddings, norms, routers and the encoder for images stay as
they are; experts and dense MLPs are what every method is for; of attention, recurrent layers, the output layer and a
prediction layer some quantize all and some none. That, and nothing else, makes the bounds.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..._base.gb10 import data_table
from .config import ConfigJson, number
from .drafting import method_of
from .spelling import spelled

# Bytes an element with its scales: blocks of 128 x 128 with one of 4 bytes; 16 with one byte, 32 with one; groups of
# 128 with one of 2 bytes and half a byte for the zero.
_FP8, _NVFP4, _MXFP4, _INT4, _INT8, _WHOLE = 1.0003, 0.5625, 0.53125, 0.5195, 1.0157, 2.0
_ALGORITHMS = {"fp8": _FP8, "nvfp4": _NVFP4, "mxfp4": _MXFP4, "int4": _INT4, "int8": _INT8, "none": _WHOLE}
# Of what vLLM itself makes: a scale of 32 elements, one of 64, and 32 bits.
_ALGORITHMS |= {"mxfp8": 1.03125, "nf4": 0.5625, "float32": 4.0}
# What a repository's name says, where neither its config.json nor its recipe does.
_NAMES: tuple[tuple[str, str], ...] = data_table("algorithms_by_name")
_CONFIGS: tuple[tuple[str, str], ...] = data_table("algorithms_by_config")
# Of a quantization_config, what names layers that stay as they are, or says nothing of weights.
_NOT_OF_WEIGHTS = {"config_groups", "ignore", "ignored_layers", "exclude", "modules_to_not_convert", "kv_cache_scheme"}
# What publishers themselves trained or published these in; their repositories' names don't say so.
_NATIVE: Mapping[str, str] = data_table("native_algorithms")
# How much of attention and recurrent layers NVFP4 checkpoints of mixtures leave as it is: between none (Gemma-4-26B,
# Nemotron-3 Nano) and most (Nemotron-3 Super). How far the count of parameters is off, over 39 models of known size.
_VARYING_LEFT, _SHAPES = 0.3, 0.015
_METHODS: Mapping[str, str] = data_table("quantization_methods")


@dataclass(frozen=True)
class WeightsSize:
    """Bytes of what is loaded: expected, and between which they are. quantized: the algorithm. copied: what each rank
    of several holds."""

    low: int
    expected: int
    high: int
    quantized: str
    copied: int


@dataclass(frozen=True)
class Made:
    """What an engine makes of weights in 16 bits while it loads them: algorithms of the linear layers, of the experts,
    and of all else. some: whether layers are left out."""

    linear: str
    experts: str
    some: bool = False
    whole: str = "none"


@dataclass
class Parameters:
    """Numbers of parameters. kept: as trained in every checkpoint, copied: of these what no rank shares out.
    embedding, vision: of these too. output: what makes logits, quantized by few. main: quantized by every method.
    varying: what some leave as it is. drafting: the prediction layers, which some leave out. is_mixture: of experts.
    routed: of main, the experts that tokens choose among. shared: of varying, what all tokens have beside them. caches:
    (elements of a token, window or 0) of each layer that keeps tokens. state: bytes of the recurrent layers of one
    sequence. queries: heads x width of an attention layer."""

    is_mixture: bool = False
    kept: float = 0
    copied: float = 0
    embedding: float = 0
    vision: float = 0
    output: float = 0
    main: float = 0
    varying: float = 0
    drafting: float = 0
    routed: float = 0
    shared: float = 0
    caches: list[tuple[int, int]] = field(default_factory=list)
    state: float = 0
    queries: int = 0

    @property
    def total(self) -> float:
        """All but the prediction layers."""
        return self.kept + self.output + self.main + self.varying


def size_of_weights(
    config: Mapping[str, object],
    repository: str = "",
    quantization: str | None = None,
    *,
    drafts: bool = False,
    made: Made | None = None,
) -> WeightsSize | None:
    """The weights' size; None where config.json lacks the shape. quantization: the checkpoint's method. drafts: whether
    the prediction layers are loaded, which vLLM leaves out otherwise. made: of them while they are loaded."""
    counted = parameters(config)
    if counted is None:
        return None
    if made:
        return _size_of_made(counted, made, counted.drafting if drafts else 0)
    algorithm = _algorithm(config, repository, quantization)
    each, drafting = _ALGORITHMS[algorithm], counted.drafting if drafts else 0
    kept, whole = _WHOLE * counted.kept, _WHOLE * counted.output
    least = kept + whole + each * (counted.main + counted.varying)
    low = least - (_WHOLE - each) * counted.output
    high = kept + whole + each * counted.main + _WHOLE * (counted.varying + drafting)
    if algorithm == "mxfp4" and _experts_dtype(config) == "fp4":  # DeepSeek-V4: all else is FP8
        expected = kept + whole + each * (counted.main + drafting) + _FP8 * counted.varying
    elif algorithm == "mxfp4":
        expected = high
    elif algorithm == "nvfp4":
        left = _VARYING_LEFT if counted.is_mixture else 0
        expected = least + left * (_WHOLE - each) * counted.varying + _WHOLE * drafting
    else:
        expected = least + each * drafting
    return WeightsSize(
        low=round((1 - _SHAPES) * low),
        expected=round(expected),
        high=round((1 + _SHAPES) * high),
        quantized=algorithm,
        copied=round(_WHOLE * counted.copied),
    )


def _size_of_made(counted: Parameters, made: Made, drafting: float) -> WeightsSize:
    linear, experts, whole = (_ALGORITHMS[name] for name in (made.linear, made.experts, made.whole))
    varying = counted.varying + drafting
    kept, main = whole * (counted.kept + counted.output), counted.main - counted.routed
    least = kept + linear * (main + varying) + experts * counted.routed
    most = kept + (whole if made.some else linear) * (main + counted.routed) + whole * varying
    most = max(least, most + (0 if made.some else (experts - linear) * counted.routed))
    quantized = made.linear if made.linear == made.experts else f"{made.linear}, and the experts as {made.experts}"
    return WeightsSize(
        low=round((1 - _SHAPES) * (least - (whole - linear) * counted.output)),
        expected=round(most if made.some else least),
        high=round((1 + _SHAPES) * most),
        quantized=quantized,
        copied=round(whole * counted.copied),
    )


def bytes_each(algorithm: str) -> float:
    """Bytes of a parameter with its scales. algorithm: as of `WeightsSize.quantized`."""
    return _ALGORITHMS[algorithm]


def encoder_bytes(config: Mapping[str, object]) -> int:
    """The encoder for images, which vLLM leaves out where no request may bring any (vllm/model_executor/models/
    interfaces.py, _mark_tower_model); quantized by none."""
    return round(_WHOLE * _vision(config))


# Models whose every pipeline stage has the embedding (vllm/model_executor/models, qwen3_next.py, qwen3_5.py,
# qwen3_moe.py, nemotron_h.py, gemma4.py of 0.22 to 0.33); else the first alone, and the last where it makes logits too.
_EMBEDS_EVERYWHERE = ("Qwen3Next", "Qwen3_5", "Qwen3Moe", "Qwen3VLMoe", "NemotronH", "Gemma4")


def stages(config: Mapping[str, object], whole: int, layers: Sequence[int], tensor: int) -> list[int]:
    """What one rank of each pipeline stage holds of a model of so many bytes. layers: of each stage. tensor: ranks of a
    stage. The encoder for images is on all."""
    counted = parameters(config)
    least = _WHOLE * (counted.embedding + counted.output + counted.copied) if counted else 0
    if counted is None or not sum(layers) or whole < least:
        return [math.ceil(whole / (len(layers) * tensor))] * len(layers)
    embedding, output, encoder = (_WHOLE * item for item in (counted.embedding, counted.output, counted.vision))
    everywhere = str(ConfigJson(config).architecture).startswith(_EMBEDS_EVERYWHERE)
    copied = _WHOLE * (counted.copied - counted.vision)
    shared = whole - least
    found = []
    for at, count in enumerate(layers):
        last = at == len(layers) - 1
        ends = embedding if at == 0 or everywhere or (last and not output) else 0
        part = count / sum(layers)
        found.append(math.ceil((ends + (output if last else 0) + part * shared) / tensor + part * copied + encoder))
    return found


def drafter_bytes(config: Mapping[str, object], repository: str) -> int:
    """What a drafter adds to the weights of the model that it drafts for; 0 where its config.json lacks the shape.

    Only a model of its own brings embeddings and an output layer. EAGLE heads, DFlash and DSpark use the model's
    (vllm/v1/spec_decode/eagle.py, 0.33.0).
    """
    found, counted = size_of_weights(config, repository), parameters(config)
    if found is None or counted is None:
        return 0
    alone = method_of({"model": repository}, config) == "draft_model"
    return found.expected - (0 if alone else round(_WHOLE * (counted.kept + counted.output)))


def _experts_dtype(config: Mapping[str, object]) -> object:
    file = ConfigJson(config)
    return file.text.get("expert_dtype") or file.quantization.get("expert_dtype")


def _algorithm(config: Mapping[str, object], repository: str, quantization: str | None) -> str:
    written = ConfigJson(config).quantization
    groups = written.get("config_groups")
    parts = (
        [of.get("weights") for of in groups.values() if isinstance(of, Mapping)] if isinstance(groups, Mapping) else []
    )
    native = _NATIVE.get(str(ConfigJson(config).architecture), "none")
    if native == "mxfp4" and written.get("expert_dtype") == "fp4":
        return native
    parts += [{key: value} for key, value in written.items() if key not in _NOT_OF_WEIGHTS]
    text = "; ".join(map(str, parts)).lower()
    for algorithm, pattern in _CONFIGS:
        if re.search(pattern, text):
            return algorithm
    named = next((one for one, pattern in _NAMES if re.search(pattern, repository.lower())), None)
    if named or "bf16" in repository.lower():
        return named or "none"
    if str(quantization).startswith("modelopt"):
        return "nvfp4"
    if native == "mxfp4" and quantization == "fp8":  # by its config.json, whose experts are smaller
        return native
    return _METHODS.get(str(quantization)) or native


def parameters(config: Mapping[str, object]) -> Parameters | None:
    """What a model's parts count; None for a config.json without the shape of its layers."""
    config = spelled(config)
    file = ConfigJson(config)
    text = file.text
    hidden, kinds = number(text, "hidden_size"), _layers(text)
    if not hidden or not kinds or not file.vocabulary:
        return None
    found = Parameters(is_mixture=file.is_mixture)
    tied = config.get("tie_word_embeddings", text.get("tie_word_embeddings", False)) is True or _is_encoder(text)
    found.embedding = file.vocabulary * hidden
    found.vision = _vision(config)
    found.output = 0 if tied else file.vocabulary * hidden
    for index, kind in enumerate(kinds):
        _add_layer(found, text, kind, index, len(kinds))
    found.copied += found.vision
    found.kept += found.embedding + found.copied
    found.drafting = _drafting(text, found, kinds)
    return found


def _layers(text: Mapping[str, object]) -> list[str]:
    """What each layer is: attention, sliding, linear, mamba, mlp, experts, or attention+mlp by another name."""
    pattern = text.get("hybrid_override_pattern") or text.get("layers_block_type")
    if isinstance(pattern, str):
        letters = {"M": "mamba", "*": "attention alone", "E": "experts", "-": "mlp"}
        return [letters.get(letter, "mlp") for letter in pattern]
    if isinstance(pattern, list):
        names = {"mamba": "mamba", "attention": "attention alone", "moe": "experts", "mlp": "mlp"}
        return [names.get(str(name), "mlp") for name in pattern]
    count = number(text, "num_hidden_layers")
    names_of = text.get("layer_types")
    if isinstance(names_of, list) and len(names_of) == count:
        return [_KINDS.get(str(name), "attention") for name in names_of]
    every = number(text, "full_attention_interval")
    if every and number(text, "linear_num_value_heads"):
        return ["attention" if (index + 1) % every == 0 else "linear" for index in range(min(count, 4096))]
    if isinstance(pattern := text.get("hybrid_layer_pattern"), list) and len(pattern) == count:
        return ["sliding" if layer == 1 else "attention" for layer in pattern]
    return ["attention"] * min(count, 4096)


_KINDS = {
    **{"linear_attention": "linear", "sliding_attention": "sliding", "chunked_attention": "sliding", "conv": "conv"},
    **{"full_attention": "attention", "mamba": "mamba+mlp", "attention+mamba": "attention+mamba"},
}


def _add_layer(found: Parameters, text: Mapping[str, object], kind: str, index: int, layers: int) -> None:
    hidden = number(text, "hidden_size")
    found.copied += 2 * hidden
    if kind == "conv":  # LFM's: two gates and what they gate, and out again
        found.varying += 4 * hidden * hidden
    if "mamba" in kind:
        found.varying += _mamba(text, hidden)
        heads = number(text, "mamba_num_heads") * number(text, "mamba_head_dim")
        found.state += _STATE * heads * number(text, "ssm_state_size")
    if kind == "linear":
        found.varying += _delta_net(text, hidden)
        heads = number(text, "linear_num_value_heads") * number(text, "linear_value_head_dim")
        found.state += _STATE * heads * number(text, "linear_key_head_dim")
    if kind.startswith(("attention", "sliding")):
        found.varying += _attention(text, hidden, kind)
        found.caches.append((_kept(text, hidden, kind), number(text, "sliding_window") if kind == "sliding" else 0))
        found.queries = number(text, "num_attention_heads") * _heads(text, hidden, kind)[1]
    if kind in {"attention alone", "mamba"}:
        return
    if kind == "experts" or (kind != "mlp" and _has_experts(text, index)):
        _add_experts(found, text, hidden)
    if kind == "mlp" or (kind != "experts" and (not _has_experts(text, index) or text.get("enable_moe_block") is True)):
        inner = number(text, "dense_intermediate_size") or number(text, "intermediate_size")
        found.main += _gated(text) * hidden * inner


def _gated(text: Mapping[str, object]) -> int:
    """Matrices of an MLP: without a gate they are two."""
    return 2 if text.get("mlp_hidden_act") == "relu2" or _is_encoder(text) else 3


def _is_encoder(text: Mapping[str, object]) -> bool:
    """One of BERT's kind, whose config.json counts kinds of tokens."""
    return "type_vocab_size" in text


# Each so many layers, one has experts.
_SPARSE = ("interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_interval")


def _has_experts(text: Mapping[str, object], index: int) -> bool:
    if not ConfigJson(text).is_mixture:
        return False
    written = text.get("mlp_layer_types")
    if isinstance(written, list) and index < len(written):
        return bool(written[index] == "sparse")
    every = text.get("moe_layer_freq")
    if isinstance(every, list) and index < len(every):
        return bool(every[index])
    only = text.get("mlp_only_layers")
    if isinstance(only, list) and index in only:
        return False
    period, offset = number(text, "expert_layer_period"), number(text, "expert_layer_offset")
    every = next((n for key in _SPARSE if (n := number(text, key))), 1)
    if (period and index % period != offset) or (index + 1) % every:
        return False
    return index >= number(text, "first_k_dense_replace")


def _add_experts(found: Parameters, text: Mapping[str, object], hidden: int) -> None:
    count = ConfigJson(text).experts
    inner = number(text, "moe_intermediate_size") or number(text, "intermediate_size")
    outer = number(text, "moe_latent_size") or hidden
    found.main += count * _gated(text) * outer * inner
    found.routed += count * _gated(text) * outer * inner
    if outer != hidden:
        found.varying += 2 * hidden * outer
    shared = next((n for key in _SHARED if (n := number(text, key))), 0)
    shared = shared or number(text, "n_shared_experts") * inner
    found.varying += _gated(text) * hidden * shared
    found.shared += _gated(text) * hidden * shared
    found.copied += count * hidden + (hidden if shared else 0)


_SHARED = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size")


# Bytes of an element of a recurrent state, which engines keep in 32 bits.
_STATE = 4


def _attention(text: Mapping[str, object], hidden: int, kind: str) -> float:
    heads = number(text, "num_attention_heads")
    kv_heads, width, values = _heads(text, hidden, kind)
    if number(text, "kv_lora_rank"):
        return _latent(text, hidden, heads)
    if number(text, "o_lora_rank"):
        return _latent_v4(text, hidden, heads, width)
    same = kind == "attention" and number(text, "global_head_dim") and text.get("attention_k_eq_v") is True
    queries = heads * width * (2 if text.get("attn_output_gate") is True else 1)
    return hidden * (queries + kv_heads * (width if same else width + values) + heads * values)


def _heads(text: Mapping[str, object], hidden: int, kind: str) -> tuple[int, int, int]:
    """Of an attention layer: heads of keys and values, the width of a key, of a value."""
    heads = number(text, "num_attention_heads")
    width = number(text, "head_dim") or hidden // max(heads, 1)
    values, kv_heads = number(text, "v_head_dim") or width, number(text, "num_key_value_heads") or heads
    if kind == "sliding" and number(text, "swa_num_key_value_heads"):
        kv_heads = number(text, "swa_num_key_value_heads")
    if kind == "attention" and number(text, "global_head_dim"):
        width = values = number(text, "global_head_dim")
        kv_heads = number(text, "num_global_key_value_heads") or kv_heads
    return kv_heads, width, values


def _kept(text: Mapping[str, object], hidden: int, kind: str) -> int:
    """Elements that the KV cache keeps of a token and layer."""
    kv_heads, width, values = _heads(text, hidden, kind)
    if number(text, "kv_lora_rank"):
        return number(text, "kv_lora_rank") + number(text, "qk_rope_head_dim")
    return width if number(text, "o_lora_rank") else kv_heads * (width + values)


def _latent(text: Mapping[str, object], hidden: int, heads: int) -> float:
    rank, rope, nope = (number(text, key) for key in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim"))
    values, queries = number(text, "v_head_dim"), number(text, "q_lora_rank")
    asked = hidden * queries + queries * heads * (nope + rope) if queries else hidden * heads * (nope + rope)
    indexer = number(text, "index_n_heads") * number(text, "index_head_dim")
    kept = hidden * (rank + rope) + rank * heads * (nope + values) + heads * values * hidden
    return asked + kept + (indexer * queries + hidden * number(text, "index_head_dim") if indexer else 0)


def _latent_v4(text: Mapping[str, object], hidden: int, heads: int, width: int) -> float:
    queries, out, groups = number(text, "q_lora_rank"), number(text, "o_lora_rank"), number(text, "o_groups")
    asked = hidden * queries + queries * heads * width
    indexer = queries * number(text, "index_n_heads") * number(text, "index_head_dim")
    return asked + hidden * width + heads * width * out + groups * out * hidden + indexer


def _mamba(text: Mapping[str, object], hidden: int) -> float:
    inner = number(text, "mamba_num_heads") * number(text, "mamba_head_dim")
    state = 2 * number(text, "n_groups") * number(text, "ssm_state_size")
    return hidden * (2 * inner + state + number(text, "mamba_num_heads")) + inner * hidden


def _delta_net(text: Mapping[str, object], hidden: int) -> float:
    keys = number(text, "linear_num_key_heads") * number(text, "linear_key_head_dim")
    heads = number(text, "linear_num_value_heads")
    values = heads * number(text, "linear_value_head_dim")
    return hidden * (2 * keys + 2 * values + 2 * heads) + values * hidden


def _vision(config: Mapping[str, object]) -> float:
    """The encoder for images: its layers, its patches and what brings its output to the model's width."""
    tower = config.get("vision_config")
    if not isinstance(tower, Mapping):
        return 0
    hidden = number(tower, "hidden_size")
    depth = min(number(tower, "depth") or number(tower, "num_hidden_layers"), 4096)
    inner = number(tower, "intermediate_size")
    gated = 3 if str(tower.get("model_type")).startswith(("gemma4", "pixtral", "mistral")) else 2
    merged = hidden * (number(tower, "spatial_merge_size") or 1) ** 2
    out = number(tower, "out_hidden_size")
    stacked = tower.get("deepstack_visual_indexes")
    mergers = 1 + (len(stacked) if isinstance(stacked, list) else 0)
    return depth * (4 * hidden * hidden + gated * hidden * inner) + mergers * merged * (merged + out)


def _drafting(text: Mapping[str, object], found: Parameters, kinds: list[str]) -> float:
    """The prediction layers that a checkpoint brings: each like the last layer, and a matrix that joins two inputs."""
    keys = ("mtp_num_hidden_layers", "num_nextn_predict_layers")
    count = next((n for key in keys if (n := number(text, key))), 0)
    if not count:
        return 0
    experts = number(text, "dspark_n_routed_experts") or number(text, "n_routed_experts")
    one = prediction_layer({**text, **({"n_routed_experts": experts} if experts else {})}, "mamba" in kinds)
    hidden = number(text, "hidden_size")
    return min(count, 8) * (one.total + one.copied + 2 * hidden * hidden)


def prediction_layer(text: Mapping[str, object], recurrent: bool) -> Parameters:
    """One of them, without the matrix. recurrent: whether the model has Mamba layers."""
    one = Parameters()
    for kind in ["attention alone", "experts"] if recurrent else ["attention"]:
        _add_layer(one, text, kind, 1 << 20, 1)
    return one
