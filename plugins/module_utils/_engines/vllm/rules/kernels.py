# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on quantization and kernels: what runs on sm_121, and since when."""

from collections.abc import Mapping

from ...._base.place import env
from ._base import Hit, Hits, rule, show
from .launch import Launch

# What checkpoints call a method that vLLM has by another name.
_METHOD_NAMES = {"auto-round": "inc", "intel/auto-round": "inc"}
_MARLIN = "--moe-backend marlin"


@rule("R054", marlin=_MARLIN)
def fp8_moe_kernel(launch: Launch) -> Hits:
    """An FP8 MoE model on GB10 without Marlin, or with only the variable that died with 0.29.0."""
    variable = launch.env.get("VLLM_TEST_FORCE_FP8_MARLIN")
    runs_well = launch.moe_backend == "marlin" or launch.model.family == "qwen3-coder-next"
    if not launch.gb10 or not launch.model.fp8 or not launch.model.moe or runs_well:
        return
    if launch.since("0.29.0"):
        if variable is not None and launch.moe_backend is None:
            yield Hit(env("VLLM_TEST_FORCE_FP8_MARLIN"), show(variable), expected=_MARLIN, remedy=f"write {_MARLIN}")
    elif variable != "1":
        yield Hit(env("VLLM_TEST_FORCE_FP8_MARLIN"), show(variable))


@rule("X23")
def unknown_quantization(launch: Launch) -> Hits:
    """A checkpoint quantized in a form that the release doesn't load."""
    config = launch.model.config
    method = str(config.quantization.get("quant_method") or "").lower().replace("_", "-")
    known = (
        {name.replace("_", "-") for name in launch.release.registries.get("quantization", ())} if launch.release else ()
    )
    own = config.values.get("quantization")
    unnamed = {"bits", "group_size"}.issubset(own if isinstance(own, Mapping) else config.quantization)
    if not method and unnamed and not launch.model.quant_method:
        yield Hit("model", "quantization without a quant_method in config.json, as MLX writes it")
    elif method and known and _METHOD_NAMES.get(method, method) not in known:
        stock = launch.family in (None, "upstream", "ngc")
        yield Hit("model", f"quant_method {show(method)}", severity="error" if stock else "warning")
