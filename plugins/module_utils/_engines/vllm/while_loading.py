# SPDX-License-Identifier: GPL-3.0-or-later
"""What vLLM makes of the weights while it loads them: another quantization, 32 bits, copies of experts and of a layer.

Read in vllm/config/quantization.py (_ONLINE_SHORTHANDS), model_executor/layers/quantization/online/base.py,
vllm/config/{parallel,speculative}.py of 0.33.0.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ..._facts.models.config import ConfigJson, number
from ..._facts.models.parameters import Made, bytes_each, parameters

# By how a method or a key of a layer's weights begins: the algorithm that it comes to.
_ALGORITHMS = {
    **{"fp8": "fp8", "ptpc_fp8": "fp8", "mxfp8": "mxfp8", "mxfp4": "mxfp4", "nvfp4": "nvfp4", "int8": "int8"},
    **{"experts_int8": "int8", "bitsandbytes": "nf4"},
}
_EXPERTS_ALONE = ("experts_int8", "int8_per_channel_weight_only", "nvfp4_per_token")


def made_of(flags: Mapping[str, object], *, has_own: bool) -> Made | None:
    """What a launch makes of the weights; None where they stay as they are in the files.

    flags: with whole maps. has_own: whether the checkpoint is quantized, which vLLM then does not change.
    """
    if has_own:
        return None
    written, settings = str(flags.get("quantization")), flags.get("quantization-config")
    of_map: Mapping[str, object] = settings if isinstance(settings, Mapping) else {}
    whole = "float32" if str(flags.get("dtype")) in ("float32", "float") else "none"
    linear = experts = _algorithm(written) or whole
    if written in _EXPERTS_ALONE:
        linear = whole
    linear, experts = _of_key(of_map.get("linear")) or linear, _of_key(of_map.get("moe")) or experts
    if linear == experts == "none":
        return None
    return Made(linear, experts, some=bool(of_map.get("ignore") or of_map.get("targets")), whole=whole)


def _algorithm(name: str) -> str | None:
    return next((algorithm for begin, algorithm in _ALGORITHMS.items() if name.startswith(begin)), None)


def _of_key(value: object) -> str | None:
    named = value.get("weight") if isinstance(value, Mapping) else value
    return _algorithm(named) if isinstance(named, str) else None


class Copies(NamedTuple):
    """Bytes of the whole model: experts that its ranks hold twice, and an output layer of the drafter's own."""

    experts: int = 0
    output: int = 0


def copies_of(flags: Mapping[str, object], config: Mapping[str, object], algorithm: str) -> Copies:
    """What a launch holds beside the weights. algorithm: of the experts."""
    balanced, drafts = flags.get("eplb-config"), flags.get("speculative-config")
    count, counted = ConfigJson(config).experts, parameters(config)
    redundant = number(balanced, "num_redundant_experts") if isinstance(balanced, Mapping) else 0
    experts = redundant / count * counted.routed * bytes_each(algorithm) if count and counted else 0
    form = drafts.get("draft_lm_head_quantization") if isinstance(drafts, Mapping) else None
    text = ConfigJson(config).text
    each = bytes_each(form) if form in ("fp8", "nvfp4") else 0
    return Copies(round(experts), round(each * number(text, "vocab_size") * number(text, "hidden_size")))
