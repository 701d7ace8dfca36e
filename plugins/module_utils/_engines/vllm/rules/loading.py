# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on loading weights, whose peaks come from the same memory."""

from ...._base.gb10 import fact
from ...._base.place import argv
from ._base import Hit, Hits, rule
from .launch import Launch

_GB = 10**9
_GIB = 2**30
_FAST: float = fact("limits", "utilization_fastsafetensors")
_EAGER: float = fact("limits", "eager_load_extra_gib") * _GIB
_COMPILERS: float = fact("limits", "compilers_gib") * _GIB


@rule("R090", fast=_FAST)
def fastsafetensors_peak(launch: Launch) -> Hits:
    """fastsafetensors with a utilization above what its peak leaves room for."""
    share = launch.utilization
    share = launch.default_utilization if share is None and not launch.has("--kv-cache-memory-bytes") else share
    if launch.gb10 and launch.text("--load-format") == "fastsafetensors" and share is not None and share > _FAST:
        yield Hit(argv("--gpu-memory-utilization"), f"{share:g}")


@rule("R093", eager=_EAGER / _GB)
def slow_load(launch: Launch) -> Hits:
    """The default loader for a large model, or the eager one without room for its peak."""
    strategy, weights = launch.text("--safetensors-load-strategy"), launch.model.weights_bytes or 0
    default = launch.text("--load-format") in (None, "auto", "safetensors")
    available = launch.host.mem_available_bytes
    is_tight = available is not None and weights > 0 and available - weights < _EAGER
    if strategy == "eager" and available is not None and is_tight:
        free = f"{(available - weights) / _GB:.0f} GB are left beside the weights"
        yield Hit(argv("--safetensors-load-strategy"), free, severity="warning", remedy="drop it, or free memory")
    elif strategy is None and default and weights > 40 * _GB and not is_tight:
        yield Hit(argv("--safetensors-load-strategy"), "not given")


@rule("R094", compilers=_COMPILERS / _GB)
def compilers_need_room(launch: Launch) -> Hits:
    """The first start of an NGC image with little memory left."""
    left = (1 - (launch.utilization or launch.default_utilization)) * launch.host.memory_bytes
    if launch.family == "ngc" and launch.host.compile_cache is False and left < _COMPILERS:
        yield Hit("host", f"{left / _GB:.0f} GB beside vLLM's share, no compiled kernels yet")
