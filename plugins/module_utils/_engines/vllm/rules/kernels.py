# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on quantization and kernels: what runs on sm_121, and since when."""

from collections.abc import Mapping

from ._base import Hit, Hits, rule, show
from .launch import Launch

# What checkpoints call a method that vLLM has by another name.
_METHOD_NAMES = {"auto-round": "inc", "intel/auto-round": "inc"}


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
