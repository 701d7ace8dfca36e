# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of a model as a forecast needs it, from config.json and the bytes of its weights."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..._facts.models.config import ConfigJson, number
from ..._facts.models.parameters import Parameters, bytes_each, parameters, prediction_layer, size_of_weights
from ..._facts.models.spelling import spelled
from .forecast import Cache, Part, Shape

_WHOLE = 2.0
# Files over what config.json explains: 1.2 at most of shipped recipes. Falcon's old spelling explains a quarter.
_UNEXPLAINED = 1.6


def shape_of(
    config: Mapping[str, object], weights: int | None, repository: str = "", quantization: str | None = None
) -> Shape | None:
    """None where config.json lacks the shape or the files hold far more, and of a model that makes no tokens one by
    one. weights: bytes of the files, None where nobody has seen them."""
    if isinstance(facts := config.get("gguf"), Mapping):
        return _of_file(facts)
    counted, sized = parameters(config), size_of_weights(config, repository, quantization)
    file = ConfigJson(spelled(config))
    if counted is None or sized is None or "Diffusion" in str(file.architecture):
        return None
    in_full = 4.0 if str(file.text.get("torch_dtype") or file.text.get("dtype")) == "float32" else _WHOLE
    if weights and weights > _UNEXPLAINED * in_full * counted.total:
        return None
    text, hidden = file.text, number(file.text, "hidden_size")
    each = bytes_each(sized.quantized)
    drafts = (_WHOLE if sized.quantized in {"nvfp4", "mxfp4"} else each) * counted.drafting if weights else 0.0
    varying = _varying(counted, each, (weights or sized.expected) - drafts)
    top_k = number(text, "num_experts_per_tok")
    recurrent = counted.state > 0
    draft = prediction_layer(text, "mamba_num_heads" in text) if counted.drafting else Parameters()
    chosen = min(1.0, top_k / file.experts) if file.experts else 0.0
    of_prediction = draft.total - draft.routed * (1 - chosen) + 2 * hidden * hidden if counted.drafting else 0.0
    dense = counted.main - counted.routed + counted.shared
    mixed = each * (counted.main - counted.routed) + varying * counted.shared
    layers = number(text, "num_hidden_layers") or len(counted.caches)
    return Shape(
        layers=layers,
        hidden=hidden,
        attention=Part(counted.varying - counted.shared + counted.copied - counted.vision, varying),
        dense=Part(dense, mixed / dense if dense else each),
        routed=Part(counted.routed, each),
        output=Part(counted.output or counted.embedding, _WHOLE),
        experts=file.experts,
        top_k=top_k,
        caches=tuple(Cache(many, kept, window) for (kept, window), many in Counter(counted.caches).items()),
        state=counted.state if recurrent else 0.0,
        queries=counted.queries,
        prediction=of_prediction,
    )


def _varying(counted: Parameters, each: float, weights: float) -> float:
    """Bytes a parameter of attention and recurrent layers, which the size of the files shows: all else is known."""
    rest = weights - _WHOLE * (counted.kept + counted.output) - each * counted.main
    return min(_WHOLE, max(each, rest / counted.varying)) if counted.varying else each


def _of_file(facts: Mapping[str, Any]) -> Shape | None:
    """Of a GGUF, whose header has the bytes of each layer and the output; all weights of a layer count alike."""
    layers, hidden, width = len(facts["blocks"]), facts["embedding"], facts["key_length"]
    kept = [heads * (width + facts["value_length"]) for heads in facts["kv_heads"]]
    attention = hidden * (sum(kept) + layers * facts["heads"] * (width + facts["value_length"]))
    routed = 3 * layers * facts["experts"] * hidden * facts["expert_feed_forward"]
    dense = 0 if routed else 3 * layers * hidden * facts["feed_forward"]
    count, output = attention + routed + dense, hidden * facts["vocabulary"]
    if not count or not output:
        return None
    each = sum(facts["blocks"]) / count
    return Shape(
        layers=layers,
        hidden=hidden,
        attention=Part(attention, each),
        dense=Part(dense, each),
        routed=Part(routed, each),
        output=Part(output, facts["output"] / output),
        experts=facts["experts"],
        top_k=facts["experts_used"],
        caches=tuple(Cache(many, elements) for elements, many in Counter(kept).items() if elements),
        queries=facts["heads"] * width,
    )
