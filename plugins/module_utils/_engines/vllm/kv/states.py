# SPDX-License-Identifier: GPL-3.0-or-later
"""Recurrent state (Mamba2, Gated DeltaNet): its dtypes, its shapes on a rank, and how it is kept for prefix caching."""

from dataclasses import dataclass

from .backends import dtype_bytes
from .flags import Flags
from .model import DeltaNet, Mamba2, Model, Recurrent
from .release import OLDEST, Release
from .trouble import refusal


@dataclass(frozen=True)
class StateSettings:
    """mode: none (one state a sequence), align (the last ones), all (one a block).

    dtypes: of the convolution's and the recurrence's state. checkpoints: further states in mode align.
    """

    mode: str
    dtypes: tuple[str, str]
    checkpoints: int


def resolve(
    flags: Flags, model: Model, release: Release, prefix_caching: bool, speculating: bool
) -> StateSettings | None:
    """How the recurrent layers' state is kept; None for a model without them."""
    _check_mode(flags, release)
    if model.recurrent is None:
        return None
    _check_dtypes(flags, release)
    mode = _mode(flags, model.recurrent, release, speculating) if prefix_caching else "none"
    if mode == "align" and flags.enable_chunked_prefill is False:
        words = "AssertionError: Chunked prefill is required for mamba cache mode 'align'."
        remedy = "leave --no-enable-chunked-prefill out"
        source = "vllm/model_executor/models/config.py, MambaModelConfig"
        raise refusal("kv-state", "flags.enable_chunked_prefill", words=words, remedy=remedy, source=source)
    exports = release.delta_net_exports_checkpoints
    if isinstance(model.recurrent, Mamba2):
        exports = release.mamba2_exports_checkpoints
    return StateSettings(mode, _dtypes(flags, model, release), int(exports))


def _mode(flags: Flags, recurrent: Recurrent, release: Release, speculating: bool) -> str:
    """The mode under prefix caching (vllm/model_executor/models/config.py, MambaModelConfig)."""
    keeps_all = isinstance(recurrent, Mamba2)
    if not release.has_state_cache_modes:
        return "all" if keeps_all else "none"
    if flags.mamba_cache_mode == "align":
        return "align"
    if not keeps_all or not release.knows_mode_all:
        return "align"
    if flags.mamba_cache_mode == "all":
        return "all"
    if not release.keeps_all_states or (speculating and release.aligns_when_speculating):
        return "align"
    return "all"


def _check_mode(flags: Flags, release: Release) -> None:
    """--mamba-cache-mode as the release offers it (vllm/config/cache.py, MambaCacheMode)."""
    if flags.mamba_cache_mode is None:
        return
    words, remedy = "", ""
    if not release.has_state_cache_modes:
        words = f"vllm serve: error: unrecognized arguments: --mamba-cache-mode (vLLM {release.text})"
        remedy = "leave it out, or use vLLM 0.15 or newer"
    elif flags.mamba_cache_mode == "all" and release.refuses_mode_all:
        words = "ValidationError: 1 validation error for CacheConfig mamba_cache_mode Input should be 'align' or 'none'"
        remedy = "write align"
    if words:
        raise refusal("kv-state", "flags.mamba_cache_mode", words=words, remedy=remedy, source="vllm/config/cache.py")


def _check_dtypes(flags: Flags, release: Release) -> None:
    """State dtypes that a release doesn't offer (vllm/config/cache.py, MambaDType)."""
    since = {"float16": "0.13", "bfloat16": "0.22"}
    for key in ("mamba_cache_dtype", "mamba_ssm_cache_dtype"):
        name = getattr(flags, key)
        if not release.since(since.get(name, OLDEST)):
            words = f"ValidationError: 1 validation error for CacheConfig {key} Input should be 'auto' or 'float32'"
            remedy = f"use float32, or vLLM {since[name]} or newer"
            raise refusal(
                "kv-dtype", f"flags.{key}", words=words, remedy=remedy, source="vllm/config/cache.py, MambaDType"
            )


def _dtypes(flags: Flags, model: Model, release: Release) -> tuple[str, str]:
    """Convolution and recurrence (vllm/model_executor/layers/mamba/mamba_utils.py, MambaStateDtypeCalculator)."""
    own = model.dtype if flags.dtype == "auto" else flags.dtype
    conv = own if flags.mamba_cache_dtype == "auto" else flags.mamba_cache_dtype
    if flags.mamba_ssm_cache_dtype != "auto":
        return conv, flags.mamba_ssm_cache_dtype
    if isinstance(model.recurrent, Mamba2):
        if not release.reads_state_dtype:
            return conv, conv
        return conv, model.state_dtype or release.unnamed_state_dtype
    return conv, model.state_dtype or conv


def heads(recurrent: Recurrent) -> int:
    """What tensor parallelism shares out of a recurrent layer."""
    return recurrent.heads if isinstance(recurrent, Mamba2) else recurrent.value_heads


def shapes(recurrent: Recurrent, ranks: int, drafted: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of the convolution's and the recurrence's state on one rank (MambaStateShapeCalculator)."""
    if isinstance(recurrent, DeltaNet):
        channels = 2 * recurrent.key_heads * recurrent.key_width + recurrent.value_heads * recurrent.value_width
        heads = recurrent.value_heads // ranks
        return (recurrent.kernel - 1 + drafted, channels // ranks), (heads, recurrent.value_width, recurrent.key_width)
    groups = recurrent.groups
    if groups % ranks:
        groups = ranks if groups == 1 else groups + ranks - groups % ranks
    channels = recurrent.heads * recurrent.head_width + 2 * groups * recurrent.width
    heads = recurrent.heads // ranks
    return (recurrent.kernel - 1 + drafted, channels // ranks), (heads, recurrent.head_width, recurrent.width)


def page_bytes(recurrent: Recurrent, ranks: int, drafted: int, dtypes: tuple[str, str]) -> int:
    """Bytes of one sequence's state in one layer on one rank."""
    total = 0
    for shape, dtype in zip(shapes(recurrent, ranks, drafted), dtypes, strict=True):
        elements = 1
        for extent in shape:
            elements *= extent
        total += elements * dtype_bytes(dtype)
    return total
