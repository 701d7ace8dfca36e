# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on quantization and kernels: what runs on sm_121, and since when."""

from collections.abc import Mapping

from ...._base.findings import Severity
from ...._base.place import argv, env
from ._base import Hit, Hits, rule, show
from .launch import Launch

_GEMMA_MOE = r".*/gemma-4-26b-a4b.*nvfp4.*"
_NANO = r".*nemotron-3-nano-30b-a3b.*nvfp4.*"
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


@rule(
    "R045",
    "error",
    lasts="vllm",
    expected="no --quantization",
    remedy="drop it: vLLM reads the method from the checkpoint",
    reason="vLLM refuses a method that isn't the checkpoint's: does not match the quantization method specified",
    source="Spark guide, section 6; vllm/config/model.py, _verify_quantization",
)
def quantization_mismatch(launch: Launch) -> Hits:
    """--quantization for a compressed-tensors checkpoint."""
    given = launch.text("--quantization")
    if launch.model.quant_method == "compressed-tensors" and given not in (None, "None", "compressed-tensors"):
        yield Hit(argv("--quantization"), show(given), expected="no --quantization, or compressed-tensors")


@rule(
    "R047",
    {"0.11.0..0.16.0": "error", "0.17.0..0.23.0": "warning", "0.24.0..": "hint"},
    lasts="measured",
    expected="--moe-backend marlin, humming, flashinfer_b12x or b12x",
    remedy=f"write {_MARLIN} (0.17.0 on; VLLM_TEST_FORCE_FP8_MARLIN=1 from 0.14.0)",
    reason="sm_121 had no native FP4 MoE kernels; on 0.17 and 0.18 FlashInfer ran Nano at 42.6 to 50.4 tok/s; from "
    "0.24.0 on auto was reported faster than Marlin",
    source="Spark guide, section 6; migration note, tests B2 and C; 32 GB Nemotron guide; vllm-project/recipes, "
    "Nemotron-3-Super on v0.24.0",
)
def fp4_moe_kernel(launch: Launch) -> Hits:
    """An NVFP4 MoE model on GB10 with another MoE kernel than Marlin or b12x."""
    backend = launch.moe_backend
    accepted = launch.model.is_(_CUTLASS_IS_WELL) and backend == "flashinfer_cutlass"
    flashinfer = launch.env.get("VLLM_USE_FLASHINFER_MOE_FP4") == "1" and launch.before("0.17.0")
    if (launch.model.is_(_GEMMA_MOE) and launch.before("0.20.0")) or launch.model.is_(_AUTO_IS_WELL):
        return  # R048; djangodevreng/dgx-spark-benchmarks, vLLM 0.26
    if _nvfp4_moe(launch) and not (_marlin_forced(launch) or backend in _FP4_MOE_BACKENDS or accepted or flashinfer):
        yield Hit(argv("--moe-backend"), show(backend))


@rule(
    "R048",
    {"0.11.0..0.19.1": "error"},
    expected=_MARLIN,
    remedy=f"write {_MARLIN}",
    reason='the CUTLASS FP4 MoE kernels answer NaN and "!!!!!" on sm_121',
    source="Spark guide, section 7.2.2",
)
def gemma4_moe_kernel(launch: Launch) -> Hits:
    """Gemma-4-26B-A4B NVFP4 on GB10 without Marlin."""
    if launch.gb10 and launch.model.is_(_GEMMA_MOE) and launch.moe_backend != "marlin":
        yield Hit(argv("--moe-backend"), show(launch.moe_backend))


@rule(
    "R050",
    "hint",
    lasts="checkpoint",
    expected="--moe-backend flashinfer_cutlass is worth a comparison",
    remedy="measure both on your build",
    reason="the author of the figures for this checkpoint found flashinfer_cutlass faster than Marlin",
    source="Spark guide, section 7.1.4",
)
def cutlass_alternative(launch: Launch) -> Hits:
    """Marlin on the checkpoint for which flashinfer_cutlass was reported faster."""
    if launch.model.is_(_CUTLASS_IS_WELL) and launch.moe_backend == "marlin":
        yield Hit(argv("--moe-backend"), "marlin")


@rule(
    "R052",
    {"0.17.0..0.23.0": "hint"},
    expected="VLLM_NVFP4_GEMM_BACKEND=marlin, or --linear-backend marlin from 0.22.0 on",
    remedy="set it and measure",
    reason="50.0 tok/s with Marlin, 42.6 with FlashInfer's default, and 7 GB less memory",
    source="32 GB Nemotron guide, performance comparison; migration note, section 6 (0.17)",
)
def nano_without_marlin(launch: Launch) -> Hits:
    """Nemotron-3 Nano NVFP4 on 0.17 to 0.23 without Marlin for dense layers."""
    if launch.model.is_(_NANO) and not _dense_marlin(launch):
        yield Hit(env("VLLM_NVFP4_GEMM_BACKEND"), show(launch.env.get("VLLM_NVFP4_GEMM_BACKEND")))


def _dense_marlin(launch: Launch) -> bool:
    return "marlin" in (launch.env.get("VLLM_NVFP4_GEMM_BACKEND"), launch.text("--linear-backend"))


@rule(
    "R053",
    {"0.15.0..0.19.1": "warning"},
    expected="VLLM_NVFP4_GEMM_BACKEND=marlin",
    remedy="set it",
    reason="FlashInfer's CUTLASS FP4 kernels use instructions that sm_121 lacks, and fall back slowly",
    source="32 GB Nemotron guide, root cause 1",
)
def dense_fp4_kernel(launch: Launch) -> Hits:
    """An NVFP4 model on GB10 before 0.20.0 without Marlin for dense layers."""
    if launch.gb10 and launch.model.nvfp4 and not _dense_marlin(launch):
        yield Hit(env("VLLM_NVFP4_GEMM_BACKEND"), show(launch.env.get("VLLM_NVFP4_GEMM_BACKEND")))


@rule(
    "R054",
    {"0.11.0..0.19.1": "error", "0.29.0..": "error"},
    lasts="vllm",
    expected="Marlin for FP8 MoE",
    remedy=f"set VLLM_TEST_FORCE_FP8_MARLIN=1 (to 0.28.0), or write {_MARLIN} (0.17.0 on)",
    reason="the CUTLASS FP8 MoE kernels crashed on sm_121a; the variable is dead from 0.29.0 on",
    source="cluster owner's notes, Qwen3.5-122B-A10B-FP8; not so for Qwen3-Coder-Next: Spark guide, section 7.1.3",
    covers=("catalogue-unknown-variable",),
)
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


@rule(
    "R055",
    "error",
    lasts="checkpoint",
    expected="another checkpoint, e.g. RedHatAI/Qwen3.5-122B-A10B-NVFP4",
    remedy="take another checkpoint",
    reason="it answers garbage on GB10 (E2M1 conversion missing)",
    source="cluster owner's notes, Qwen3.5-122B-A10B-FP8",
)
def broken_checkpoint(launch: Launch) -> Hits:
    """A checkpoint that is known to be broken."""
    if launch.model.is_(r"alpertor/Qwen3\.5-122B-A10B-NVFP4"):
        yield Hit("model", launch.model.repository)


@rule(
    "R056",
    {"0.11.0..0.23.0": "warning"},
    expected="no --attention-backend, so that vLLM chooses per layer",
    remedy="drop it; if a tested recipe asks for it, keep it and silence this rule",
    reason="one backend for all layers crashed at init_device on models that mix attention and linear layers; from "
    "0.24 on NVIDIA, vllm-project and eugr serve such models with FlashInfer",
    source="Spark guide, section 7.1.1; NVIDIA/local-ai-inference-recipes (0.28.0, 2026-08-31)",
)
def one_backend_for_hybrid(launch: Launch) -> Hits:
    """--attention-backend on a hybrid model whose recipe doesn't ask for it."""
    asked = launch.model.family == "qwen3-coder-next" and launch.attention_backend == "FLASHINFER"
    if launch.model.hybrid and launch.has("--attention-backend") and not asked and launch.method != "dflash":
        yield Hit(argv("--attention-backend"), show(launch.text("--attention-backend")))


@rule(
    "R057",
    "hint",
    lasts="measured",
    expected="--attention-backend flashinfer",
    remedy="write it",
    reason="with FLASH_ATTN about 60K tokens fit at 0.85, with FlashInfer 170K",
    source="Spark guide, section 7.1.3",
)
def coder_next_context(launch: Launch) -> Hits:
    """Qwen3-Coder-Next with a long context and another backend than FlashInfer."""
    long = (launch.number("--max-model-len") or 0) > 60_000
    if launch.model.family == "qwen3-coder-next" and long and launch.attention_backend != "FLASHINFER":
        yield Hit(argv("--attention-backend"), show(launch.attention_backend))


@rule(
    "R058",
    "hint",
    lasts="checkpoint",
    expected="no --moe-backend",
    remedy="drop it",
    reason="a dense model has no experts",
    source="Spark guide, section 7.2.1",
)
def moe_backend_of_dense(launch: Launch) -> Hits:
    """--moe-backend for a dense model."""
    if launch.model.moe is False and launch.has("--moe-backend"):
        yield Hit(argv("--moe-backend"), show(launch.moe_backend))


@rule(
    "R059",
    "hint",
    lasts="measured",
    needs=("service.recipe=none",),
    expected="auto, unless a tested recipe pins a backend",
    remedy="drop it, or take the recipe",
    reason="a kernel that suits one model and image is a loss on another",
    source="Spark guide, section 8",
)
def backend_without_recipe(launch: Launch) -> Hits:
    """A pinned backend in a service without a recipe."""
    for option in ("--moe-backend", "--attention-backend"):
        if launch.service.recipe == "" and launch.text(option) not in (None, "auto"):
            yield Hit(argv(option), show(launch.text(option)))


@rule(
    "R060",
    {"0.11.0..0.27.1": "error"},
    expected="--attention-backend triton_attn",
    remedy="write it",
    reason="flash_attn and FlashInfer crash on sm_121 with DFlash; NVIDIA validated 0.28.0 without a backend",
    source="Spark guide, sections 7.1.1 and 14.5; NVIDIA/local-ai-inference-recipes (2026-08-31)",
)
def dflash_attention(launch: Launch) -> Hits:
    """DFlash on GB10 without Triton attention, in a stock image."""
    stock = launch.family in (None, "upstream", "ngc")
    if launch.method == "dflash" and launch.gb10 and stock and launch.attention_backend != "TRITON_ATTN":
        yield Hit(argv("--attention-backend"), show(launch.attention_backend))


@rule(
    "R061",
    {"0.11.0..0.23.0": "error", "0.24.0..0.27.1": "warning"},
    expected="VLLM_USE_DEEP_GEMM=0",
    remedy='set VLLM_USE_DEEP_GEMM: "0"',
    reason="DeepGEMM is incompatible with the DFlash draft path and fails silently; NVIDIA validated 0.28.0 without it",
    source="Spark guide, sections 14.5 and 14.7; NVIDIA/local-ai-inference-recipes (2026-08-31)",
)
def dflash_deep_gemm(launch: Launch) -> Hits:
    """DFlash without VLLM_USE_DEEP_GEMM=0."""
    if launch.method == "dflash" and launch.env.get("VLLM_USE_DEEP_GEMM") != "0":
        # a build of somebody's own may have mended it: jethac/dgx-spark-hijinks served with four of 0.20.1
        mended: Severity | None = "warning" if launch.family in ("custom", "eugr") else None
        yield Hit(env("VLLM_USE_DEEP_GEMM"), show(launch.env.get("VLLM_USE_DEEP_GEMM")), severity=mended)


@rule(
    "R062",
    {"0.11.0..0.27.1": "warning"},
    expected='no "attention_backend" in --speculative-config',
    remedy="drop the key",
    reason="the drafter's backend was best left alone on Spark; recipes for later releases set one (MiniMax-M3, MiMo)",
    source="Spark guide, section 14.4; NVIDIA/local-ai-inference-recipes and eugr (2026-09)",
)
def drafter_attention(launch: Launch) -> Hits:
    """An attention backend for the drafter on GB10."""
    backend = launch.speculation.get("attention_backend")
    if backend is not None and launch.gb10 and str(backend).upper() != "B12X":
        yield Hit(argv("--speculative-config"), f"attention_backend {show(backend)}")


@rule(
    "R063",
    "warning",
    lasts="measured",
    expected="no explicit --enable-chunked-prefill",
    remedy="measure with and without it",
    reason="about 9 times slower MoE was reported on models that mix SSM and MoE; V1 has it on by default, though",
    source="Spark guide, section 12, contradicted by its section 7.1.1",
)
def chunked_prefill_on_ssm_moe(launch: Launch) -> Hits:
    """--enable-chunked-prefill given explicitly on an SSM and MoE model."""
    if launch.model.ssm and launch.model.moe and launch.switch("--enable-chunked-prefill"):
        yield Hit(argv("--enable-chunked-prefill"), "given")


@rule(
    "X23",
    "error",
    lasts="vllm",
    expected="a checkpoint quantized by a method of this release",
    remedy="take another checkpoint of the model",
    reason="vLLM refuses an unknown method, and finds no weights in a form that it doesn't know",
    source="vllm/config/model.py, _verify_quantization; catalogue, quantization",
)
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
