# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on the KV cache's type and on speculative decoding."""

from ...._base.place import argv
from ...._facts.models.facts import drafter_fits
from ._base import Hit, Hits, rule, show
from .launch import Launch

_DRAFTER_FIXED = "2026-04-19"


def _fp8_kv(launch: Launch) -> bool:
    return launch.kv_dtype.startswith("fp8")


def _tokens(launch: Launch) -> int | None:
    tokens = launch.speculation.get("num_speculative_tokens")
    text = str(tokens)
    return int(text) if text.isdigit() and len(text) < 10 else None


@rule(
    "R064",
    {"0.11.0..0.25.1": "error", "0.26.0..0.27.1": "warning"},
    expected="a BF16 KV cache",
    remedy='drop --kv-cache-dtype; from 0.26.0 on the drafter has its own "kv_cache_dtype" in --speculative-config',
    reason="DFlash keeps its KV cache in BF16; vLLM doesn't check it. NVIDIA validated fp8 on 0.28.0",
    source="Spark guide, section 14.7; NVIDIA/local-ai-inference-recipes (2026-08-31)",
)
def dflash_fp8_kv(launch: Launch) -> Hits:
    """DFlash with an FP8 KV cache."""
    if launch.method == "dflash" and _fp8_kv(launch):
        yield Hit(argv("--kv-cache-dtype"), show(launch.kv_dtype))


@rule(
    "X16",
    {"0.11.0..0.24.0": "error", "0.25.0..0.32.0": "warning"},
    expected="fp8, or vLLM 0.33.0",
    remedy="write --kv-cache-dtype fp8, or take an image with 0.33.0 or later",
    reason="up to 0.24 FlashInfer refuses it on GB10 (requires sm100f); 0.33 runs it by FA2",
    source="vllm/v1/attention/backends/flashinfer.py of 0.24.0 and 0.33.0",
)
def nvfp4_kv(launch: Launch) -> Hits:
    """An NVFP4 KV cache on GB10 before 0.33.0."""
    if launch.gb10 and launch.kv_dtype == "nvfp4":
        yield Hit(argv("--kv-cache-dtype"), show(launch.kv_dtype))


@rule(
    "R065",
    "error",
    lasts="checkpoint",
    expected="--kv-cache-dtype fp8",
    remedy="write it",
    reason="another KV cache breaks this model's draft",
    source="Spark guide, sections 7.2.3 and 14.7",
)
def gemma4_coder_kv(launch: Launch) -> Hits:
    """gemma-4-12B-coder with its MTP draft and no FP8 KV cache."""
    coder = launch.model.is_(r".*/gemma-?4-12b-coder.*mtp.*")
    if coder and launch.method == "mtp" and launch.kv_dtype not in ("fp8", "fp8_e4m3"):
        yield Hit(argv("--kv-cache-dtype"), show(launch.text("--kv-cache-dtype")))


@rule(
    "R066",
    "error",
    lasts="checkpoint",
    expected="the BF16 checkpoint, or --kv-cache-dtype bfloat16",
    remedy="take poolside/Laguna-XS.2",
    reason="checkpoints with FP8 KV scales answer scrambled on GPUs other than Hopper",
    source="Spark guide, section 14.7",
)
def laguna_fp8_kv(launch: Launch) -> Hits:
    """Laguna XS.2 FP8 or INT4, whose KV cache resolves to FP8."""
    if launch.gb10 and launch.model.is_(r"poolside/Laguna-XS\.2-(FP8|INT4)") and launch.kv_dtype != "bfloat16":
        yield Hit("model", launch.model.repository)


@rule(
    "R067",
    {"0.11.0..0.27.1": "warning"},
    expected="no FP8 KV cache, unless its output is validated",
    remedy="drop --kv-cache-dtype, or silence this with what was validated",
    reason="the guide keeps Qwen3.5 on BF16; NVIDIA validated Qwen3.5-122B with FP8 KV on 0.28.0",
    source="Spark guide, section 8; NVIDIA/local-ai-inference-recipes (2026-08-31)",
)
def qwen35_fp8_kv(launch: Launch) -> Hits:
    """Qwen3.5 with an FP8 KV cache."""
    if launch.model.family == "qwen3.5" and _fp8_kv(launch):
        yield Hit(argv("--kv-cache-dtype"), show(launch.kv_dtype))


@rule(
    "R068",
    "hint",
    lasts="checkpoint",
    expected="--kv-cache-dtype fp8",
    remedy="write it",
    reason="the model is built for it: it halves the cache",
    source="Spark guide, section 7.3.1",
)
def nano_without_fp8_kv(launch: Launch) -> Hits:
    """Nemotron-3 Nano NVFP4 without an FP8 KV cache."""
    if launch.model.is_(r".*nemotron-3-nano-30b-a3b.*nvfp4.*") and not _fp8_kv(launch):
        yield Hit(argv("--kv-cache-dtype"), show(launch.text("--kv-cache-dtype")))


@rule(
    "R069",
    "warning",
    lasts="measured",
    needs=("service.recipe=none",),
    expected="a tested recipe, or no FP8 KV cache",
    remedy="drop --kv-cache-dtype if answers fall into loops",
    reason="some models repeat themselves with an FP8 KV cache",
    source="Spark guide, section 12",
)
def fp8_kv_without_recipe(launch: Launch) -> Hits:
    """An FP8 KV cache in a service without a recipe."""
    if launch.service.recipe == "" and _fp8_kv(launch):
        yield Hit(argv("--kv-cache-dtype"), show(launch.kv_dtype))


@rule(
    "R070",
    {"0.11.0..0.27.1": "warning"},
    expected="a DFlash build for sm_121 with its own target, or a BF16 target",
    remedy="take the image and target of AEON-7, or measure the acceptance",
    reason="with quantized weights under stock vLLM only the first tokens are accepted, so that it slows down; NVIDIA "
    "validated an NVFP4 target on 0.28.0",
    source="Spark guide, section 7.1.1; NVIDIA/local-ai-inference-recipes (2026-08-31)",
)
def dflash_on_quantized(launch: Launch) -> Hits:
    """DFlash for an NVFP4 or FP8 target in a stock image."""
    quantized = launch.model.nvfp4 or launch.model.fp8
    if launch.method == "dflash" and quantized and launch.family in ("upstream", "ngc"):
        yield Hit("model", launch.model.quant_algo or "FP8")


@rule(
    "R071",
    "error",
    lasts="checkpoint",
    expected="the drafter of this model",
    remedy="take the drafter that was trained for it",
    reason="a drafter is trained for one target",
    source="Spark guide, sections 14.5 and 14.7",
)
def other_models_drafter(launch: Launch) -> Hits:
    """A drafter that was trained for another model."""
    drafter = launch.speculation.get("model")
    if isinstance(drafter, str) and launch.model.repository and drafter_fits(drafter, launch.model) is False:
        yield Hit(argv("--speculative-config"), f'model "{drafter}" for {launch.model.repository}')


@rule(
    "R072",
    "warning",
    lasts="checkpoint",
    needs=("model.draft_date",),
    expected=f"a snapshot of {_DRAFTER_FIXED} or later",
    remedy="fetch the drafter again",
    reason="a crash with long contexts was fixed in the drafters then",
    source="Spark guide, section 7.1.1",
)
def old_drafter(launch: Launch) -> Hits:
    """A DFlash drafter fetched before its fix."""
    date = launch.model.draft_date
    if launch.method == "dflash" and date and date < _DRAFTER_FIXED:
        yield Hit("model", f"drafter of {date}")


@rule(
    "R073",
    "hint",
    lasts="measured",
    expected="1 to 5 for MTP, 7 to 16 for DFlash",
    remedy="change num_speculative_tokens and watch the acceptance",
    reason="MTP pays a pass for each further token, DFlash verifies a whole block at once; NVIDIA validated MTP 5",
    source="Spark guide, sections 14.6 and 14.7; NVIDIA/local-ai-inference-recipes (2026-08-28)",
)
def number_of_draft_tokens(launch: Launch) -> Hits:
    """Too many draft tokens for MTP, or too few or many for DFlash."""
    tokens = _tokens(launch)
    high = launch.method == "mtp" and tokens is not None and tokens > 5
    odd = launch.method == "dflash" and tokens is not None and not 7 <= tokens <= 16
    if high or odd:
        yield Hit(argv("--speculative-config"), f"{tokens} tokens with {launch.method}")


@rule(
    "R074",
    "warning",
    lasts="measured",
    expected="few sequences at a time with speculation",
    remedy="lower --max-num-seqs, or drop speculation; from 0.24.0 on num_speculative_tokens_per_batch_size ends it",
    reason="speculation takes throughput from large batches",
    source="Spark guide, sections 14.3 and 14.6",
)
def speculation_under_load(launch: Launch) -> Hits:
    """Speculation in a service for many requests at a time."""
    many = (launch.number("--max-num-seqs") or 0) > 8 or launch.service.profile == "concurrent"
    if launch.method and many and "num_speculative_tokens_per_batch_size" not in launch.speculation:
        yield Hit(argv("--speculative-config"), f"{launch.method} with {show(launch.text('--max-num-seqs'))} sequences")


@rule(
    "R075",
    "hint",
    lasts="measured",
    needs=("service.profile",),
    expected="--no-enable-prefix-caching for the lowest latency of one user",
    remedy="compare both",
    reason="the vLLM recipe suggests it for MTP at low concurrency",
    source="Spark guide, section 14.3",
)
def mtp_and_prefix_cache(launch: Launch) -> Hits:
    """MTP with prefix caching for a single user."""
    if launch.method == "mtp" and launch.service.profile == "single-user" and launch.prefix_caching:
        yield Hit(argv("--enable-prefix-caching"), "on")


@rule(
    "R076",
    {"0.11.0..0.32.0": "error", "0.33.0..": "warning"},
    lasts="vllm",
    expected="no --async-scheduling with this method",
    remedy="drop --async-scheduling, or take MTP, EAGLE, DFlash, a draft model or ngram_gpu",
    reason="async scheduling works only with methods that draft on the GPU: ValueError; in 0.33.0 with the V1 runner",
    source="vllm/config/vllm.py of 0.12.0 to 0.32.0, refuting the Spark guide, section 14.2 (X1)",
)
def async_with_lookup(launch: Launch) -> Hits:
    """--async-scheduling given with n-gram, suffix or medusa speculation."""
    refused = ("ngram", "suffix", "medusa", "mlp_speculator")
    if launch.switch("--async-scheduling") and (
        launch.method in refused or (launch.method and launch.before("0.12.0"))
    ):
        yield Hit(argv("--async-scheduling"), f"with method {launch.method}")


@rule(
    "R077",
    "error",
    lasts="vllm",
    expected="the package arctic-inference in the image",
    remedy="take ngram, or install arctic-inference before the start",
    reason="vLLM raises ImportError; no image ships the package",
    source="vllm/config/speculative.py, from 0.11.1 on (X6)",
    covers=("catalogue-unknown-name",),
)
def suffix_not_installed(launch: Launch) -> Hits:
    """Suffix decoding, whose package no image ships."""
    if launch.method == "suffix" and "arctic" not in launch.words.script and launch.family != "custom":
        yield Hit(argv("--speculative-config"), "method suffix")


@rule(
    "R078",
    "warning",
    lasts="measured",
    expected="no MTP for a service with tools",
    remedy="drop --speculative-config, or test tool calls",
    reason="MTP was reported to break structured tool calls on Nemotron-3-Super",
    source="prefix caching question",
)
def super_mtp_tools(launch: Launch) -> Hits:
    """Nemotron-3-Super with MTP and a tool parser."""
    mtp = launch.method in ("mtp", "nemotron_h_mtp")
    if launch.model.is_(".*nemotron-3-super.*") and mtp and launch.text("--tool-call-parser"):
        yield Hit(argv("--speculative-config"), f"method {launch.method}")


@rule(
    "R079",
    "hint",
    lasts="measured",
    expected="an eye on loops in the output",
    remedy="take DFlash if it happens",
    reason="MTP on this model can fall into output loops now and then",
    source="Spark guide, section 7.1.1",
)
def qwen36_mtp_loops(launch: Launch) -> Hits:
    """Qwen3.6-35B-A3B with MTP."""
    if launch.method == "mtp" and launch.model.is_(r".*/Qwen3\.6-35B-A3B.*"):
        yield Hit(argv("--speculative-config"), "method mtp")
