# SPDX-License-Identifier: GPL-3.0-or-later
"""Attention backends as vLLM picks them on compute capability 12.1, and what hangs on them."""

from .flags import Flags
from .model import Model
from .release import OLDEST, Release
from .trouble import not_sized, refusal

_EIGHT_BIT = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc")
_SCALED = ("int8_per_token_head", "fp8_per_token_head")
_WIDE = ("auto", "bfloat16", "float16")
# A latent's bytes of a token as sparse kernels read it (vllm/model_executor/layers/attention/mla_attention.py).
_LATENT = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
# First release with a --kv-cache-dtype, where that is not the oldest one (vllm/config/cache.py, CacheDType).
_SINCE = {"float16": "0.18", "nvfp4": "0.20", **dict.fromkeys(_SCALED, "0.20")}
_PLACE = "flags.kv_cache_dtype"


def cache_dtype(flags: Flags, model: Model, release: Release) -> str:
    """--kv-cache-dtype with the checkpoint's own quantization in place of auto."""
    name = flags.kv_cache_dtype
    if name == "auto" and release.reads_kv_quantization and model.kv_dtype is not None:
        name = model.kv_dtype
    if name in _LATENT and model.attention.packed:
        return name
    if name not in (*_EIGHT_BIT, *_SCALED, *_WIDE, "nvfp4"):
        remedy = "use fp8, bfloat16 or nvfp4, or size it by a first boot"
        raise not_sized(_PLACE, found=f"{name}, which is not sized here", expected="a sized dtype", remedy=remedy)
    if not release.since(_SINCE.get(name, OLDEST)):
        words = f"ValidationError: 1 validation error for CacheConfig cache_dtype {name} is not known"
        remedy = f"use vLLM {_SINCE[name]} or newer, or fp8"
        raise refusal("kv-dtype", _PLACE, words=words, remedy=remedy, source="vllm/config/cache.py, CacheDType")
    if model.attention.pooled and not release.since("0.33"):
        remedy = "use vLLM 0.33 or newer, or size it by a first boot"
        found = f"vLLM {release.text}, with an indexer of pooled keys"
        raise not_sized("vllm_version", found=found, expected="vLLM 0.33 or newer", remedy=remedy)
    if model.attention.packed:
        _require_eight_bit(name, release, ("auto", *_EIGHT_BIT), "0.32", "sparse latent attention")
    elif model.attention.latent:
        _check_latent(name, release)
    if model.architecture == "DeepseekV41ForCausalLM":  # it makes 8 bits of auto
        _require_eight_bit(name, release, ("auto", "fp8"), "0.32", "latents that layers share")
    elif model.attention.compressed is not None:
        _require_eight_bit(name, release, _EIGHT_BIT, "0.28", "latents that are compressed")
    return name


def _require_eight_bit(name: str, release: Release, allowed: tuple[str, ...], since: str, what: str) -> None:
    if name not in allowed or not release.since(since):
        remedy = f"use fp8 and vLLM {since} or newer, or size it by a first boot"
        found, expected = f"{name} on vLLM {release.text}, with {what}", f"fp8 on vLLM {since} or newer"
        raise not_sized(_PLACE, found=found, expected=expected, remedy=remedy)


def _check_latent(name: str, release: Release) -> None:
    if name not in (*_EIGHT_BIT, *_WIDE):
        remedy = "use fp8 or bfloat16"
        raise not_sized(_PLACE, found=f"{name} with latent attention", expected="fp8 or bfloat16", remedy=remedy)
    if name in _EIGHT_BIT and not release.since("0.18"):
        words = f"ValueError: No valid attention backend found for cuda with kv_cache_dtype={name}, use_mla=True"
        remedy = "use bfloat16, or vLLM 0.18 or newer"
        raise refusal(
            "kv-backend", _PLACE, words=words, remedy=remedy, source="vllm/v1/attention/backends/mla/triton_mla.py"
        )


def attention(flags: Flags, model: Model, release: Release, cache: str) -> str:
    """The backend of the model's attention layers (vllm/platforms/cuda.py, get_attn_backend_cls)."""
    if model.attention.compressed is not None:
        return "FLASHINFER_MLA_SPARSE_DSV4"
    if model.attention.latent:
        return "FLASHINFER_MLA_SPARSE" if model.attention.packed else "TRITON_MLA"
    if flags.attention_backend is not None:
        return flags.attention_backend.upper()
    if model.architecture.startswith("Gemma4"):
        return "TRITON_ATTN"
    if model.architecture == "GptOssForCausalLM":
        return "FLASHINFER" if release.since("0.28") else "TRITON_ATTN"
    return _by_dtype(cache)


def of_draft(flags: Flags, cache: str) -> str:
    """The backend of a drafter with a checkpoint of its own."""
    return flags.attention_backend.upper() if flags.attention_backend else _by_dtype(cache)


def _by_dtype(cache: str) -> str:
    if cache in _SCALED:
        return "TRITON_ATTN"
    return "FLASH_ATTN" if cache in _WIDE else "FLASHINFER"


def kernel_block(backend: str) -> int:
    """Tokens that a backend's kernels need in one piece; 1 where any multiple of 16 does.

    FlashInfer lists the sizes 16, 32 and 64, the others a multiple (get_supported_kernel_block_sizes; from vLLM 0.32
    vllm/v1/worker/utils.py, customize_attention_spec).
    """
    return 64 if backend == "FLASHINFER" else 1


def window_block(backend: str, block: int, release: Release) -> int:
    """Tokens a block of a sliding layer, before pages are made equal.

    vllm/model_executor/layers/attention/attention.py, _largest_kernel_block_within.
    """
    if release.windows_take_smallest_block:
        return 16
    if release.windows_take_kernel_block and backend == "FLASHINFER":
        return max(size for size in (16, 32, 64) if size <= max(block, 16))
    return block


def latent_bytes(packed: int, cache: str) -> int:
    """Bytes of a token's latent. packed: as 8 bits take it, with what else is kept in its page."""
    return packed - _LATENT["fp8_ds_mla"] + _LATENT.get(cache, _LATENT["fp8_ds_mla"])


def cell_bytes(width: int, cache: str, dtype: str) -> int:
    """Bytes of one head's key (or value) of a token (vllm/v1/kv_cache_interface.py)."""
    if cache == "nvfp4":
        return width // 2 + width // 16
    if cache in _SCALED:
        return width + (4 if width else 0)
    if cache in _LATENT:
        return width
    return width * (1 if cache in _EIGHT_BIT else dtype_bytes(dtype if cache == "auto" else cache))


def dtype_bytes(name: str) -> int:
    return 4 if name in ("float32", "float") else 2


def cudagraph_mode(flags: Flags, release: Release, names: tuple[str, ...], drafted: int) -> str:
    """What the graphs become after the backends' limits (each backend's get_cudagraph_support on sm_121)."""
    if flags.enforce_eager:
        return "NONE"
    if "TRITON_MLA" in names:
        never = not release.since("0.22")
        single = release.since("0.26") and not release.since("0.31")
        return "PIECEWISE" if never or (single and drafted) else "FULL_AND_PIECEWISE"
    if "FLASHINFER" in names and drafted and not release.since("0.28"):
        return "PIECEWISE"
    return "FULL_AND_PIECEWISE"
