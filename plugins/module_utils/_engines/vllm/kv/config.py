# SPDX-License-Identifier: GPL-3.0-or-later
"""From a Hugging Face config.json to a Model: one reader a family; an architecture outside the list is refused.

A reader takes only the keys that decide the cache, each checked; everything else in the file is left alone. The shapes
follow the model files of vLLM 0.33.0 (vllm/model_executor/models/<family>.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...._base.findings import FleetError
from ...._base.schema import Spec, check
from ...._facts.models.config import ConfigJson
from .model import Attention, DeltaNet, Layer, Mamba2, Model, Pooled
from .release import Release
from .trouble import bad_input, not_sized, refusal, with_remedy

_COUNT: Spec = {"type": "int", "min": 1, "max": 2**31 - 1}
_NONE_OR_MORE: Spec = {"type": "int", "min": 0, "max": 4096}
_NAMES: Spec = {"type": "list", "elements": {"type": "str"}, "min": 1, "max": 4096}
_REMEDY = "take config.json from the model's repository, unchanged"
_FLOATS = {"float16": "float16", "half": "float16", "bfloat16": "bfloat16", "float32": "float32", "float": "float32"}
_ROPE_SCALED = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "mrope", "default")


class Text:
    """The language model's part of a config.json: reads a key, or raises FleetError with its place."""

    def __init__(
        self, values: Mapping[object, object], place: str, outer: Mapping[object, object] | None = None
    ) -> None:
        self.values = values
        self.place = place
        self.outer = values if outer is None else outer

    def value(self, key: str, spec: Spec, default: object = None) -> Any:
        """A key's checked value; the default where it is missing or null, which is refused without a default."""
        found = self.values.get(key)
        if found is None:
            if default is None:
                raise bad_input("kv-config", f"{self.place}.{key}", value=None, expected="a value", remedy=_REMEDY)
            return default
        checked, findings = check(spec, found, f"{self.place}.{key}")
        if findings:
            raise FleetError(*with_remedy(findings, remedy=_REMEDY))
        return checked

    def count(self, key: str, default: int | None = None) -> int:
        return int(self.value(key, _COUNT, default))

    def has(self, key: str) -> bool:
        return self.values.get(key) is not None

    def refuse(self, key: str, why: str) -> FleetError:
        return not_sized(f"{self.place}.{key}", found=why, expected="a known layout", remedy="size it by a first boot")


def read_model(config: object, release: Release, place: str = "config") -> Model:
    """The model that a config.json describes.

    Raises FleetError: a malformed file, an architecture or attribute that isn't known here, or one that this release of
    vLLM doesn't run.
    """
    if not isinstance(config, Mapping):
        raise bad_input(
            "kv-config",
            place,
            value=config,
            expected="the map that config.json holds",
            remedy="give the file's content",
        )
    file, outer = ConfigJson(config), Text(config, place)
    architecture = outer.value("architectures", _NAMES)[0]
    family = _FAMILIES.get(architecture)
    if family is None:
        remedy = "size it by a first boot; docs/explanation/kv-sizing.md lists the known models"
        raise not_sized(
            f"{place}.architectures",
            found=f"unknown architecture {architecture[:80]}",
            expected="a known architecture",
            remedy=remedy,
        )
    since, reader = family
    if not release.since(since):
        words = f"ValidationError: Model architectures ['{architecture}'] are not supported by vLLM {release.text}"
        remedy = f"use an image with vLLM {since} or newer"
        source = "vllm/model_executor/models/registry.py"
        raise refusal("kv-architecture", f"{place}.architectures", words=words, remedy=remedy, source=source)
    text = Text(file.text, f"{place}.{file.nested}", config) if file.nested else outer
    model = reader(text, architecture)
    return replace(
        model, dtype=_dtype(text, outer), longest=_longest(text), kv_dtype=_kv_dtype(outer), experts=file.is_mixture
    )


def _dtype(text: Text, outer: Text) -> str:
    """Weights in float32, or of no stated type, run as bfloat16 (vllm/config/model.py, _resolve_auto_dtype)."""
    for part, key in ((text, "dtype"), (text, "torch_dtype"), (outer, "dtype"), (outer, "torch_dtype")):
        if part.has(key):
            name = str(part.value(key, {"type": "str", "max": 40})).removeprefix("torch.")
            if name not in _FLOATS:
                expected = "float16, bfloat16 or float32"
                raise bad_input("kv-config", f"{part.place}.{key}", value=name, expected=expected, remedy=_REMEDY)
            return "float16" if _FLOATS[name] == "float16" else "bfloat16"
    return "bfloat16"


def _longest(text: Text) -> int:
    """The context that the config allows (vllm/config/model.py, _get_and_verify_max_len)."""
    longest = text.count("max_position_embeddings", text.count("model_max_length", 2048))
    for key in ("rope_parameters", "rope_scaling"):
        rope = text.values.get(key)
        if not isinstance(rope, Mapping):
            continue
        kind = rope.get("rope_type", rope.get("type", "default"))
        factor, original = rope.get("factor"), rope.get("original_max_position_embeddings")
        if not isinstance(factor, int | float) or not 1 <= factor <= 2**20:
            continue
        if kind == "yarn" and isinstance(original, int):
            return int(original * factor)
        if kind not in _ROPE_SCALED:
            return int(longest * factor)
    return longest


def _kv_dtype(outer: Text) -> str | None:
    """The KV quantization that a checkpoint brings (vllm/utils/torch_utils.py, get_kv_cache_quant_algo_string)."""
    quantization = outer.values.get("quantization_config")
    if not isinstance(quantization, Mapping):
        return None
    method = quantization.get("quant_method", "")
    if not isinstance(method, str) or not method.startswith("modelopt"):
        return None
    inner = quantization.get("quantization")
    places = (inner if isinstance(inner, Mapping) else quantization, quantization)
    scheme = next(
        (part[key] for key in ("kv_cache_scheme", "kv_cache_quant_algo") for part in places if part.get(key)), None
    )
    if isinstance(scheme, str):
        return {"fp8": "fp8", "nvfp4": "nvfp4"}.get(scheme.lower())
    if isinstance(scheme, Mapping) and scheme.get("type") == "float":
        return {8: "fp8", 4: "nvfp4"}.get(scheme["num_bits"]) if isinstance(scheme.get("num_bits"), int) else None
    return None


def _heads(text: Text, heads: str = "num_attention_heads", kv_heads: str = "num_key_value_heads") -> Attention:
    """Grouped-query attention; without head_dim the hidden size is shared out among the heads."""
    total = text.count(heads)
    width = text.count("head_dim") if text.has("head_dim") else text.count("hidden_size") // total
    if width < 1:
        raise text.refuse("hidden_size", f"fewer elements than its {total} attention heads")
    return Attention(text.count(kv_heads, total), width, width)


def _model(text: Text, architecture: str, layers: list[Layer], **rest: Any) -> Model:
    if not any(isinstance(layer, Attention) for layer in layers):
        raise text.refuse("num_hidden_layers", "no attention layer among the layers")
    heads = text.count("num_attention_heads")
    return Model(architecture, tuple(layers), heads, dtype="bfloat16", longest=1, **rest)


def _layer_count(text: Text) -> int:
    return int(text.value("num_hidden_layers", {"type": "int", "min": 1, "max": 4096}))


def _layer_types(text: Text, default: list[str]) -> list[str]:
    """What each layer is, by name; the list must be as long as the model is deep."""
    names: list[str] = text.value("layer_types", _NAMES, default)
    if len(names) != len(default):
        found = f"{len(names)} layer_types for {len(default)} layers"
        raise bad_input(
            "kv-config", f"{text.place}.layer_types", value=found, expected="one for each layer", remedy=_REMEDY
        )
    return names


def _by_type(text: Text, names: list[str], shapes: Mapping[str, Layer]) -> list[Layer]:
    unknown = [name for name in names if name not in shapes]
    if unknown:
        raise text.refuse("layer_types", f"unknown kind of layer {unknown[0][:60]}")
    return [shapes[name] for name in names]


def _prediction_layer(text: Text, shape: Attention, *keys: str) -> Attention | None:
    """The one next-token-prediction layer that a checkpoint may carry; several are not known here."""
    for key in keys:
        count = text.value(key, _NONE_OR_MORE, 0)
        if count > 1:
            raise text.refuse(key, f"{count} prediction layers")
        if count == 1:
            return shape
    return None


def _plain(text: Text, architecture: str) -> Model:
    """Full attention in every layer."""
    if text.has("sliding_window") and text.values.get("use_sliding_window", True) is not False:
        raise text.refuse("sliding_window", "sliding attention in a family that is only known with full attention")
    names = _layer_types(text, ["full_attention"] * _layer_count(text))
    if any(name != "full_attention" for name in names):
        raise text.refuse("layer_types", "other layers than full attention")
    if any(kind != 1 for kind in text.value("attn_type_list", {"type": "list", "max": 4096}, [1])):
        raise text.refuse("attn_type_list", "other layers than full attention")
    shape = _heads(text)
    mtp = _prediction_layer(text, shape, "num_nextn_predict_layers")
    return _model(text, architecture, [shape] * len(names), mtp=mtp)


def _mistral(text: Text, architecture: str) -> Model:
    """Full attention where config.json says so; without the key every layer slides, by transformers' MistralConfig."""
    if "sliding_window" in text.values:
        return _plain(text, architecture)
    return _model(text, architecture, [replace(_heads(text), window=4096)] * _layer_count(text))


def _latent(text: Text, architecture: str) -> Model:
    """Multi-head latent attention: DeepSeek-V3 and GLM-4.7-Flash (vllm/model_executor/models/deepseek_v2.py)."""
    if text.has("index_topk"):
        raise text.refuse("index_topk", "sparse attention with an indexer")
    shape = Attention(1, text.count("kv_lora_rank") + text.count("qk_rope_head_dim"), 0, latent=True)
    mtp = _prediction_layer(text, shape, "num_nextn_predict_layers")
    return _model(text, architecture, [shape] * _layer_count(text), mtp=mtp)


def _sparse_latent(text: Text, architecture: str) -> Model:
    """Latents of which an indexer chooses: GLM-5.2 (vllm/models/deepseek_v32). A latent takes 656 bytes of a token (512
    in 8 bits, 64 in 16, 16 of scales), an indexer's key 132; layers that share one keep none."""
    if (text.count("kv_lora_rank"), text.count("qk_rope_head_dim"), text.count("index_head_dim")) != (512, 64, 128):
        raise text.refuse("kv_lora_rank", "latents or indexer keys of other widths than 512 + 64 and 128")
    pattern = text.value("index_topk_pattern", {"type": "str", "max": 4096}, "")
    every, first = text.count("index_topk_freq", 1), text.count("index_skip_topk_offset", 2)
    shared = Attention(1, 576, 0, latent=True, packed=656)
    full = replace(shared, packed=656 + 132)
    mtp = _prediction_layer(text, full, "num_nextn_predict_layers")
    layers = range(_layer_count(text))
    own = [pattern[layer : layer + 1] != "S" if pattern else max(layer - first + 1, 0) % every == 0 for layer in layers]
    return _model(text, architecture, [full if keeps else shared for keeps in own], mtp=mtp, block=64)


def _glm_next(text: Text, architecture: str) -> Model:
    """Kimi Delta Attention, and in some layers latents of which an indexer of pooled keys chooses: GLM-5.3-Flash
    (vllm/models/glm5next/common: attention.py, kda.py)."""
    widths = text.count("kv_lora_rank"), text.value("qk_rope_head_dim", _NONE_OR_MORE, 0)
    if widths != (512, 0) or text.count("index_head_dim") != 128:
        raise text.refuse("kv_lora_rank", "latents or indexer keys of other widths than 512 and 128")
    own = Text(text.value("linear_attn_config", {"type": "map"}), f"{text.place}.linear_attn_config")
    heads, width = own.count("num_heads"), own.count("head_dim")
    delta = DeltaNet(heads, width, heads, width, own.count("short_conv_kernel_size"))
    pooled = Pooled(text.count("index_kpool"), 128 + 4, 2 * 128 * 2, doubles=True)
    sparse = Attention(1, 512, 0, latent=True, packed=656, pooled=pooled)
    names = _layer_types(text, ["linear_attention"] * _layer_count(text))
    layers = _by_type(text, names, {"linear_attention": delta, "deepseek_sparse_attention": sparse})
    mtp = _prediction_layer(text, sparse, "num_nextn_predict_layers")
    return _model(text, architecture, layers, mtp=mtp, state_dtype="float32", block=64)


def _deepseek_v4(text: Text, architecture: str) -> Model:
    """A window of latents in each layer, and compressed ones: of 4 tokens, chosen by an indexer, or of 128."""
    if text.count("head_dim") != 512:
        raise text.refuse("head_dim", "latents of another width than 512")
    window = Attention(1, text.count("head_dim"), 0, text.count("sliding_window"), latent=True, compressed=0)
    ratios = text.value("compress_ratios", {"type": "list", "elements": {"type": "int"}, "max": 4096})
    layers = _layer_count(text)
    if len(ratios) < layers or not {*ratios[:layers]} <= {0, 4, 128}:
        raise text.refuse("compress_ratios", "no 0, 4 or 128 for each layer")
    indexed = replace(window, compressed=4, index_width=text.count("index_head_dim"))
    shapes: dict[int, Layer] = {0: window, 4: indexed, 128: replace(window, compressed=128)}
    mtp = window if text.has("num_nextn_predict_layers") else None
    kept = [shapes[ratio] for ratio in ratios[:layers]]
    return _model(text, architecture, kept, mtp=mtp, block=256, stacked=window)


def _deepseek_v41(text: Text, architecture: str) -> Model:
    """A window of latents in each layer; some layers also keep a latent of each token or of two, and an indexer's key,
    which those above them read (vllm/models/deepseek_v41: attention.py, compressor.py)."""
    if text.count("head_dim") != 512 or text.count("index_head_dim") != 128:
        raise text.refuse("head_dim", "latents or indexer keys of other widths than 512 and 128")
    window = Attention(1, 512, 0, text.count("sliding_window"), latent=True, compressed=0)
    ratios = text.value("compress_ratios", {"type": "list", "elements": {"type": "int"}, "max": 4096})
    sources = text.value("kv_source_layer_ids", {"type": "list", "elements": {"type": "int"}, "max": 4096})
    layers = _layer_count(text)
    if len(ratios) < layers or not {*ratios} <= {0, 1, 2} or not {*sources} <= {*range(layers)}:
        raise text.refuse("compress_ratios", "no 0, 1 or 2 for each layer, or sources that are no layers")
    kept = [
        replace(window, compressed=ratios[at], index_width=128) if at in sources and ratios[at] else window
        for at in range(layers)
    ]
    return _model(text, architecture, [*kept], block=128, stacked=window)


def _inkling(text: Text, architecture: str) -> Model:
    """Sliding layers and full ones by their numbers, and beside each a short convolution over its keys, values and
    outputs; prediction layers of which each drafts one token (vllm/models/inkling: configs.py, nvidia/attention.py,
    nvidia/sconv_swa_attn.py, nvidia/mtp.py)."""
    hidden, kernel = text.count("hidden_size"), text.count("sconv_kernel_size", text.count("conv_kernel_size", 4))
    full = _heads(text)
    width = text.count("swa_head_dim", full.key_width)
    own = Attention(
        text.count("swa_num_key_value_heads", full.kv_heads), width, width, text.count("sliding_window_size")
    )

    def convolved(layer: Attention) -> Attention:
        elements = 2 * layer.key_width + 2 * (hidden // layer.kv_heads)
        return replace(layer, convolved=(kernel, 1 << (elements - 1).bit_length()))

    numbers: Spec = {"type": "list", "elements": {"type": "int"}, "max": 4096}
    local = text.value("local_layer_ids", numbers, [])
    layers = [convolved(own if at in local else full) for at in range(_layer_count(text))]
    after = text.outer.get("mtp_config")
    drafts = Text(after if isinstance(after, Mapping) else {}, "config.mtp_config")
    count, local = (
        drafts.value("num_nextn_predict_layers", _NONE_OR_MORE, 0),
        drafts.value("local_layer_ids", numbers, []),
    )
    depths = tuple(convolved(own if at in local else full) for at in range(count))
    return _model(text, architecture, [*layers], mtp=next(iter(depths), None), depths=depths)


def _gpt_oss(text: Text, architecture: str) -> Model:
    """Sliding and full layers in turn."""
    return _laguna(text, architecture, ("sliding_attention", "full_attention"))


def _gemma3(text: Text, architecture: str) -> Model:
    """Five sliding layers and a full one in turn, where config.json does not name them."""
    every = text.value("sliding_window_pattern", {"type": "int", "min": 1, "max": 4096}, 6)
    return _laguna(text, architecture, ("sliding_attention",) * (every - 1) + ("full_attention",))


def _step3p5(text: Text, architecture: str) -> Model:
    """Full and sliding layers by their names, which may be followed by those of the prediction layers."""
    full = _heads(text, kv_heads="num_attention_groups" if text.has("num_attention_groups") else "num_key_value_heads")
    count = _layer_count(text)
    names = text.value("layer_types", _NAMES)[:count]
    if len(names) != count:
        raise text.refuse("layer_types", f"{len(names)} names for {count} layers")
    other = text.values.get("attention_other_setting")
    own = Text(other, f"{text.place}.attention_other_setting") if isinstance(other, Mapping) else text
    heads = own.count("num_attention_groups", full.kv_heads) if own is not text else full.kv_heads
    sliding = replace(full, kv_heads=heads, window=text.count("sliding_window"))
    shapes: dict[str, Layer] = {"full_attention": full, "sliding_attention": sliding}
    return _model(text, architecture, _by_type(text, names, shapes))


def _cohere2_moe(text: Text, architecture: str) -> Model:
    """Full and sliding layers by their names; a window holds one token more (vllm/model_executor/models/cohere2_moe.py)
    than written."""
    model = _laguna(text, architecture)
    wider = [
        replace(layer, window=layer.window + 1) if isinstance(layer, Attention) and layer.window else layer
        for layer in model.layers
    ]
    return replace(model, layers=tuple(wider))


def _laguna(text: Text, architecture: str, default: Sequence[str] = ("full_attention",)) -> Model:
    """Full and sliding layers by their names, with as many KV heads each."""
    full = _heads(text)
    names = _layer_types(text, [default[index % len(default)] for index in range(_layer_count(text))])
    shapes: dict[str, Layer] = {"full_attention": full}
    if "sliding_attention" in names:
        shapes["sliding_attention"] = replace(full, window=text.count("sliding_window"))
    return _model(text, architecture, _by_type(text, names, shapes))


def _minimax_m3(text: Text, architecture: str) -> Model:
    """Full attention, with an indexer beside the sparse layers (vllm/models/minimax_m3/nvidia/model.py)."""
    full, sparse = _heads(text), text.values.get("sparse_attention_config")
    layers = [full] * _layer_count(text)
    if not isinstance(sparse, Mapping):
        return _model(text, architecture, [*layers])
    own = Text(sparse, f"{text.place}.sparse_attention_config")
    frequencies = own.value("sparse_attention_freq", {"type": "list", "elements": {"type": "int"}, "max": 4096})
    if len(frequencies) != len(layers):
        raise own.refuse("sparse_attention_freq", f"{len(frequencies)} numbers for {len(layers)} layers")
    indexed = replace(full, index_width=own.count("sparse_index_dim"))
    shapes: list[Layer] = [indexed if often else full for often in frequencies]
    return _model(text, architecture, shapes, block=own.count("sparse_block_size"))


def _mimo_v2(text: Text, architecture: str) -> Model:
    """Full layers and sliding ones with heads of their own, by a pattern (vllm/model_executor/models/mimo_v2.py)."""
    width, pattern = text.count("head_dim"), text.value("hybrid_layer_pattern", {"type": "list", "max": 4096})
    if len(pattern) != _layer_count(text) or not {*pattern} <= {0, 1}:
        raise text.refuse("hybrid_layer_pattern", "no 0 or 1 for each layer")
    full = Attention(text.count("num_key_value_heads"), width, text.count("v_head_dim", width))
    swa_width = text.count("swa_head_dim", width)
    sliding = Attention(
        text.count("swa_num_key_value_heads", full.kv_heads),
        swa_width,
        text.count("swa_v_head_dim", swa_width),
        text.count("sliding_window_size"),
    )
    return _model(text, architecture, [sliding if slides else full for slides in pattern])


def _gemma4(text: Text, architecture: str) -> Model:
    """Local layers, and global ones with their own head shape; the last num_kv_shared_layers keep nothing."""
    local = replace(_heads(text), window=text.count("sliding_window"))
    kv_heads = local.kv_heads
    if text.values.get("attention_k_eq_v") is True:
        kv_heads = text.count("num_global_key_value_heads", kv_heads)
    width = text.count("global_head_dim", local.key_width)
    names = text.value("layer_types", _NAMES)
    layers = _by_type(
        text,
        _layer_types(text, [names[0]] * _layer_count(text)),
        {"sliding_attention": local, "full_attention": Attention(kv_heads, width, width)},
    )
    shared = text.value("num_kv_shared_layers", {"type": "int", "min": 0, "max": len(layers) - 1}, 0)
    owners = len(layers) - shared
    return _model(text, architecture, [*layers[:owners], *[None] * shared])


def _nemotron_h(text: Text, architecture: str) -> Model:
    """Mamba2, attention and expert layers by a pattern: M, * and the rest."""
    mamba = Mamba2(
        heads=text.count("mamba_num_heads"),
        head_width=text.count("mamba_head_dim"),
        groups=text.count("n_groups"),
        width=text.count("ssm_state_size"),
        kernel=text.count("conv_kernel"),
    )
    attention = _heads(text)
    shapes: dict[str, Layer] = {"M": mamba, "*": attention, "-": None, "E": None}
    if text.has("hybrid_override_pattern"):
        names = list(text.value("hybrid_override_pattern", {"type": "str", "min": 1, "max": 4096}))
    else:
        letters = {"mamba": "M", "attention": "*", "moe": "E", "mlp": "-"}
        names = [letters.get(name, name) for name in text.value("layers_block_type", _NAMES)]
    return _model(
        text,
        architecture,
        _by_type(text, names, shapes),
        mtp=_prediction_layer(text, attention, "num_nextn_predict_layers"),
        state_dtype=_state_dtype(text, "mamba_ssm_cache_dtype"),
        chunk=text.count("chunk_size", text.count("mamba_chunk_size", 128)),
    )


def _qwen_hybrid(text: Text, architecture: str) -> Model:
    """Gated DeltaNet with full attention in every full_attention_interval-th layer: Qwen3-Next, 3.5, 3.6."""
    delta = DeltaNet(
        key_heads=text.count("linear_num_key_heads"),
        key_width=text.count("linear_key_head_dim"),
        value_heads=text.count("linear_num_value_heads"),
        value_width=text.count("linear_value_head_dim"),
        kernel=text.count("linear_conv_kernel_dim"),
    )
    full = _heads(text)
    every = text.count("full_attention_interval", 4)
    default = ["linear_attention" if (index + 1) % every else "full_attention" for index in range(_layer_count(text))]
    shapes: dict[str, Layer] = {"linear_attention": delta, "full_attention": full}
    mtp = _prediction_layer(text, full, "mtp_num_hidden_layers", "num_nextn_predict_layers")
    if architecture == "Qwen3NextForCausalLM":
        mtp = full  # the config names no prediction layer, the checkpoint has one
    return _model(
        text,
        architecture,
        _by_type(text, _layer_types(text, default), shapes),
        mtp=mtp,
        state_dtype=_state_dtype(text, "mamba_ssm_dtype"),
    )


def _qwen_sparse(text: Text, architecture: str) -> Model:
    """The same with an indexer of pooled keys beside the attention, and a convolution behind a table of n-grams:
    Qwen3.8-Flash-Next (vllm/models/qwen4_exp: common/qsa_cache.py, nvidia/ple_layer.py)."""
    model, pooled = _qwen_hybrid(text, architecture), None
    if text.has("indexer_n_heads"):  # without it the attention stands alone (nvidia/model.py)
        width = text.count("indexer_head_dim")
        # beside a key the ring keeps the positions of a model that takes images, three of 8 bytes
        open_bytes = 2 * (width + (12 if architecture.endswith("ForConditionalGeneration") else 0))
        pooled = Pooled(text.count("indexer_compress_ratio"), 2 * width, open_bytes, doubles=False)
    layers = [replace(layer, pooled=pooled) if isinstance(layer, Attention) else layer for layer in model.layers]
    convolution = None
    if text.value("ple_layer_ids", {"type": "list", "max": 4096}, []):
        kept = (text.count("ple_conv_kernel_size") - 1) * text.count("ngram_size")
        convolution = text.count("hidden_size") * text.count("hc_count"), kept
    mtp = replace(model.mtp, pooled=pooled) if model.mtp else None
    return replace(model, layers=tuple(layers), mtp=mtp, convolution=convolution)


def _state_dtype(text: Text, key: str) -> str | None:
    """float32, float16 or bfloat16; "auto" is the model's own."""
    if not text.has(key):
        return None
    name = str(text.value(key, {"type": "str", "choices": ["auto", *_FLOATS]}))
    return None if name == "auto" else _FLOATS[name]


Reader = Callable[[Text, str], Model]
# Full attention in every layer of the language model, since 0.11.
_PLAIN = (
    *("DotsOCRForCausalLM", "Ernie4_5ForCausalLM", "Ernie4_5_MoeForCausalLM", "Glm4ForCausalLM"),
    *("Glm4MoeForCausalLM", "Glm4vForConditionalGeneration", "Glm4vMoeForConditionalGeneration", "InternVLChatModel"),
    *("JinaVLForRanking", "LlamaForCausalLM", "LlamaForSequenceClassification", "LlamaModel"),
    *("Mistral3ForConditionalGeneration", "MixtralForCausalLM", "Qwen2ForCausalLM", "Qwen2ForSequenceClassification"),
    *("Qwen2Model", "Qwen2MoeForCausalLM", "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"),
    *("Qwen3ForCausalLM", "Qwen3ForSequenceClassification", "Qwen3Model", "Qwen3MoeForCausalLM"),
    *("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration", "VoxtralForConditionalGeneration"),
)
# Architecture: vLLM's first release with it (vllm/model_executor/models/registry.py), and its reader.
# Hosts run this file, and have nothing of data/: these tables stay here.
_FAMILIES: dict[str, tuple[str, Reader]] = {
    "Cohere2MoeForCausalLM": ("0.21", _cohere2_moe),
    "Cohere2VisionForConditionalGeneration": ("0.21", _cohere2_moe),
    "DeepseekV3ForCausalLM": ("0.11", _latent),
    "DeepseekV41ForCausalLM": ("0.30", _deepseek_v41),
    "DeepseekV4ForCausalLM": ("0.20", _deepseek_v4),
    "DeepseekV4ForConditionalGeneration": ("0.30", _deepseek_v4),
    "DiffusionGemmaForBlockDiffusion": ("0.24", _gemma4),
    "Gemma3ForCausalLM": ("0.11", _gemma3),
    "Gemma3ForConditionalGeneration": ("0.11", _gemma3),
    "Gemma4ForCausalLM": ("0.19", _gemma4),
    "Gemma4ForConditionalGeneration": ("0.19", _gemma4),
    "Gemma4UnifiedForConditionalGeneration": ("0.23", _gemma4),
    "Glm4MoeLiteForCausalLM": ("0.15", _latent),
    "Glm5NextForCausalLM": ("0.30", _glm_next),
    "Glm5NextForConditionalGeneration": ("0.30", _glm_next),
    "GlmMoeDsaForCausalLM": ("0.16", _sparse_latent),
    "GlmOcrForConditionalGeneration": ("0.16", _plain),
    "GptOssForCausalLM": ("0.11", _gpt_oss),
    "InklingForCausalLM": ("0.28", _inkling),
    "InklingForConditionalGeneration": ("0.28", _inkling),
    "LagunaForCausalLM": ("0.21", _laguna),
    "MiMoV2FlashForCausalLM": ("0.14", _mimo_v2),
    "MiMoV2ForCausalLM": ("0.21", _mimo_v2),
    "MiniMaxM2ForCausalLM": ("0.11.1", _plain),
    "MiniMaxM3SparseForCausalLM": ("0.24", _minimax_m3),
    "MiniMaxM3SparseForConditionalGeneration": ("0.24", _minimax_m3),
    "Ministral3ForCausalLM": ("0.20", _mistral),
    "MistralForCausalLM": ("0.11", _mistral),
    "MistralLarge3ForCausalLM": ("0.12", _latent),
    "MuseGlimmerForConditionalGeneration": ("0.28", _laguna),
    "NemotronHForCausalLM": ("0.11", _nemotron_h),
    "NemotronH_Nano_Omni_Reasoning_V3": ("0.20", _nemotron_h),
    "NemotronH_Nano_VL_V2": ("0.11", _nemotron_h),
    "PaddleOCRVLForConditionalGeneration": ("0.11.1", _plain),
    "Qwen3NextForCausalLM": ("0.11", _qwen_hybrid),
    "Qwen3VLForSequenceClassification": ("0.14", _plain),
    "Qwen3_5ForConditionalGeneration": ("0.17", _qwen_hybrid),
    "Qwen3_5MoeForConditionalGeneration": ("0.17", _qwen_hybrid),
    "Qwen4ExpForCausalLM": ("0.29", _qwen_sparse),
    "Qwen4ExpForConditionalGeneration": ("0.29", _qwen_sparse),
    "Step3p5ForCausalLM": ("0.15.1", _step3p5),
    "Step3p7ForConditionalGeneration": ("0.23", _step3p5),
    **dict.fromkeys(_PLAIN, ("0.11", _plain)),
}

# Encoders, which keep nothing of a token (vllm/model_executor/models, with EncoderOnlyAttention).
_ENCODERS = (
    *("BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification", "BertModel"),
    *("BertSpladeSparseEmbeddingModel", "BgeM3EmbeddingModel", "CamembertModel", "GteModel", "GteNewModel"),
    *("GteNewForSequenceClassification", "LlamaBidirectionalForSequenceClassification", "LlamaBidirectionalModel"),
    *("ModernBertForSequenceClassification", "ModernBertForTokenClassification", "ModernBertModel", "NewModel"),
    *("NewForSequenceClassification", "NomicBertModel", "RobertaForMaskedLM", "RobertaForSequenceClassification"),
    *("RobertaModel", "VoyageQwen3BidirectionalEmbedModel", "XLMRobertaForSequenceClassification", "XLMRobertaModel"),
)


def keeps_nothing(config: Mapping[str, object]) -> bool:
    """Whether a model has no KV cache: an encoder, or a decoder whose config.json has it attend both ways."""
    file = ConfigJson(config)
    both_ways = file.text.get("is_causal") is False or file.text.get("use_bidirectional_attention") is True
    return file.architecture in _ENCODERS or both_ways


def read_drafter(config: object, place: str) -> tuple[Attention, ...]:
    """The attention layers of a drafter with a config.json of its own: EAGLE heads, small models, DFlash and DSpark,
    whose layers may slide (vllm/model_executor/models/qwen3_dflash.py, _resolve_layer_attention)."""
    if not isinstance(config, Mapping):
        raise bad_input(
            "kv-config", place, value=config, expected="the drafter's config.json", remedy="give the file's content"
        )
    text, layers = Text(config, place), Text(config, place).count("num_hidden_layers")
    full = _heads(text)
    block = config.get("dflash_config")
    names = _layer_types(text, ["full_attention"] * layers)
    if isinstance(block, Mapping):
        if block.get("use_swa") is True and "sliding_attention" not in names:
            names = ["sliding_attention"] * layers
    elif text.has("sliding_window") and config.get("use_sliding_window", True) is not False:
        raise text.refuse("sliding_window", "a drafter with sliding attention")
    shapes: dict[str, Layer] = {"full_attention": full}
    if "sliding_attention" in names:
        own = Text(block, f"{place}.dflash_config") if isinstance(block, Mapping) else text
        part, key = (own, "swa_window_size") if own.has("swa_window_size") else (text, "sliding_window")
        shapes["sliding_attention"] = replace(full, window=part.count(key))
    return tuple(layer for layer in _by_type(text, names, shapes) if isinstance(layer, Attention))
