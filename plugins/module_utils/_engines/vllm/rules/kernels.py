# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on quantization and kernels: what runs on sm_121, and since when."""

from collections.abc import Mapping

from ...._base.findings import Severity
from ...._base.place import argv, env
from ._base import Hit, Hits, rule, show
from .launch import Launch

_GEMMA_MOE = r".*/gemma-4-26b-a4b.*nvfp4.*"
_CUTLASS_IS_WELL = r"RedHatAI/Qwen3\.5-122B-A10B-NVFP4"
_AUTO_IS_WELL = r"mistralai/Mistral-Small-4-.*"
_FP4_MOE_BACKENDS = ("marlin", "flashinfer_b12x", "b12x", "humming")
# What checkpoints call a method that vLLM has by another name.
_METHOD_NAMES = {"auto-round": "inc", "intel/auto-round": "inc"}
_MARLIN = "--moe-backend marlin"


def _nvfp4_moe(launch: Launch) -> bool:
    return launch.gb10 and launch.model.nvfp4 and bool(launch.model.moe)


def _marlin_forced(launch: Launch) -> bool:
    """Marlin for MoE by the option, or by the variable that forced it before (0.14.0 to 0.28.0)."""
    by_variable = launch.env.get("VLLM_TEST_FORCE_FP8_MARLIN") == "1" and launch.within("0.14.0..0.28.0")
    return launch.moe_backend == "marlin" or by_variable


@rule("R047", marlin=_MARLIN)
def fp4_moe_kernel(launch: Launch) -> Hits:
    """An NVFP4 MoE model on GB10 with another MoE kernel than Marlin or b12x."""
    backend = launch.moe_backend
    accepted = launch.model.is_(_CUTLASS_IS_WELL) and backend == "flashinfer_cutlass"
    flashinfer = launch.env.get("VLLM_USE_FLASHINFER_MOE_FP4") == "1" and launch.before("0.17.0")
    if (launch.model.is_(_GEMMA_MOE) and launch.before("0.20.0")) or launch.model.is_(_AUTO_IS_WELL):
        return  # R048; djangodevreng/dgx-spark-benchmarks, vLLM 0.26
    if _nvfp4_moe(launch) and not (_marlin_forced(launch) or backend in _FP4_MOE_BACKENDS or accepted or flashinfer):
        yield Hit(argv("--moe-backend"), show(backend))


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


@rule("R056")
def one_backend_for_hybrid(launch: Launch) -> Hits:
    """--attention-backend on a hybrid model whose recipe doesn't ask for it."""
    asked = launch.model.family == "qwen3-coder-next" and launch.attention_backend == "FLASHINFER"
    if launch.model.hybrid and launch.has("--attention-backend") and not asked and launch.method != "dflash":
        yield Hit(argv("--attention-backend"), show(launch.text("--attention-backend")))


@rule("R059")
def backend_without_recipe(launch: Launch) -> Hits:
    """A pinned backend in a service without a recipe."""
    for option in ("--moe-backend", "--attention-backend"):
        if launch.service.recipe == "" and launch.text(option) not in (None, "auto"):
            yield Hit(argv(option), show(launch.text(option)))


@rule("R061")
def dflash_deep_gemm(launch: Launch) -> Hits:
    """DFlash without VLLM_USE_DEEP_GEMM=0."""
    if launch.method == "dflash" and launch.env.get("VLLM_USE_DEEP_GEMM") != "0":
        # a build of somebody's own may have mended it: jethac/dgx-spark-hijinks served with four of 0.20.1
        mended: Severity | None = "warning" if launch.family in ("custom", "eugr") else None
        yield Hit(env("VLLM_USE_DEEP_GEMM"), show(launch.env.get("VLLM_USE_DEEP_GEMM")), severity=mended)


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
