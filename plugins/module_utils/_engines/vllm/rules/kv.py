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


def _graphs(launch: Launch) -> str:
    """The mode of the CUDA graphs."""
    mode = launch.command.json("--compilation-config").get("cudagraph_mode", "FULL_AND_PIECEWISE")
    return "NONE" if launch.switch("--enforce-eager") else str(mode).upper()


@rule("R064")
def dflash_fp8_kv(launch: Launch) -> Hits:
    """DFlash with an FP8 KV cache."""
    if launch.method == "dflash" and _fp8_kv(launch):
        yield Hit(argv("--kv-cache-dtype"), show(launch.kv_dtype))


@rule("X16")
def nvfp4_kv(launch: Launch) -> Hits:
    """An NVFP4 KV cache on GB10 before 0.33.0."""
    if launch.gb10 and launch.kv_dtype == "nvfp4":
        yield Hit(argv("--kv-cache-dtype"), show(launch.kv_dtype))


@rule("R065")
def gemma4_coder_kv(launch: Launch) -> Hits:
    """gemma-4-12B-coder with its MTP draft and no FP8 KV cache."""
    coder = launch.model.is_(r".*/gemma-?4-12b-coder.*mtp.*")
    if coder and launch.method == "mtp" and launch.kv_dtype not in ("fp8", "fp8_e4m3"):
        yield Hit(argv("--kv-cache-dtype"), show(launch.text("--kv-cache-dtype")))


@rule("R066")
def laguna_fp8_kv(launch: Launch) -> Hits:
    """Laguna XS.2 FP8 or INT4, whose KV cache resolves to FP8."""
    if launch.gb10 and launch.model.is_(r"poolside/Laguna-XS\.2-(FP8|INT4)") and launch.kv_dtype != "bfloat16":
        yield Hit("model", launch.model.repository)


@rule("R067")
def qwen35_fp8_kv(launch: Launch) -> Hits:
    """Qwen3.5 with an FP8 KV cache."""
    if launch.model.family == "qwen3.5" and _fp8_kv(launch):
        yield Hit(argv("--kv-cache-dtype"), show(launch.kv_dtype))


@rule("R068")
def nano_without_fp8_kv(launch: Launch) -> Hits:
    """Nemotron-3 Nano NVFP4 without an FP8 KV cache."""
    if launch.model.is_(r".*nemotron-3-nano-30b-a3b.*nvfp4.*") and not _fp8_kv(launch):
        yield Hit(argv("--kv-cache-dtype"), show(launch.text("--kv-cache-dtype")))


@rule("R069")
def fp8_kv_without_recipe(launch: Launch) -> Hits:
    """An FP8 KV cache in a service without a recipe."""
    if launch.service.recipe == "" and _fp8_kv(launch):
        yield Hit(argv("--kv-cache-dtype"), show(launch.kv_dtype))


@rule("R070")
def dflash_on_quantized(launch: Launch) -> Hits:
    """DFlash for an NVFP4 or FP8 target in a stock image."""
    quantized = launch.model.nvfp4 or launch.model.fp8
    if launch.method == "dflash" and quantized and launch.family in ("upstream", "ngc"):
        yield Hit("model", launch.model.quant_algo or "FP8")


@rule("R071")
def other_models_drafter(launch: Launch) -> Hits:
    """A drafter that was trained for another model."""
    drafter = launch.speculation.get("model")
    if isinstance(drafter, str) and launch.model.repository and drafter_fits(drafter, launch.model) is False:
        yield Hit(argv("--speculative-config"), f'model "{drafter}" for {launch.model.repository}')


@rule("R072", drafter_fixed=_DRAFTER_FIXED)
def old_drafter(launch: Launch) -> Hits:
    """A DFlash drafter fetched before its fix."""
    date = launch.model.draft_date
    if launch.method == "dflash" and date and date < _DRAFTER_FIXED:
        yield Hit("model", f"drafter of {date}")


@rule("R073")
def number_of_draft_tokens(launch: Launch) -> Hits:
    """Too many draft tokens for MTP, or too few or many for DFlash."""
    tokens = _tokens(launch)
    high = launch.method == "mtp" and tokens is not None and tokens > 5
    odd = launch.method == "dflash" and tokens is not None and not 7 <= tokens <= 16
    if high or odd:
        yield Hit(argv("--speculative-config"), f"{tokens} tokens with {launch.method}")


@rule("R074")
def speculation_under_load(launch: Launch) -> Hits:
    """Speculation in a service for many requests at a time."""
    many = (launch.number("--max-num-seqs") or 0) > 8 or launch.service.profile == "concurrent"
    if launch.method and many and "num_speculative_tokens_per_batch_size" not in launch.speculation:
        yield Hit(argv("--speculative-config"), f"{launch.method} with {show(launch.text('--max-num-seqs'))} sequences")


@rule("R075")
def mtp_and_prefix_cache(launch: Launch) -> Hits:
    """MTP with prefix caching for a single user."""
    if launch.method == "mtp" and launch.service.profile == "single-user" and launch.prefix_caching:
        yield Hit(argv("--enable-prefix-caching"), "on")


@rule("R076")
def async_with_lookup(launch: Launch) -> Hits:
    """--async-scheduling given with n-gram, suffix or medusa speculation."""
    refused = ("ngram", "suffix", "medusa", "mlp_speculator")
    if launch.switch("--async-scheduling") and (
        launch.method in refused or (launch.method and launch.before("0.12.0"))
    ):
        yield Hit(argv("--async-scheduling"), f"with method {launch.method}")


@rule("R077")
def suffix_not_installed(launch: Launch) -> Hits:
    """Suffix decoding, whose package no image ships."""
    if launch.method == "suffix" and "arctic" not in launch.words.script and launch.family != "custom":
        yield Hit(argv("--speculative-config"), "method suffix")


@rule("R078")
def super_mtp_tools(launch: Launch) -> Hits:
    """Nemotron-3-Super with MTP and a tool parser."""
    mtp = launch.method in ("mtp", "nemotron_h_mtp")
    if launch.model.is_(".*nemotron-3-super.*") and mtp and launch.text("--tool-call-parser"):
        yield Hit(argv("--speculative-config"), f"method {launch.method}")


@rule("R079")
def qwen36_mtp_loops(launch: Launch) -> Hits:
    """Qwen3.6-35B-A3B with MTP."""
    if launch.method == "mtp" and launch.model.is_(r".*/Qwen3\.6-35B-A3B.*"):
        yield Hit(argv("--speculative-config"), "method mtp")


@rule("X25")
def many_tools(launch: Launch) -> Hits:
    """NVIDIA's Qwen3.6-35B-A3B-NVFP4 in a service with tools."""
    tools = launch.service.tools is not False and launch.text("--tool-call-parser")
    if launch.gb10 and launch.model.is_(r"nvidia/Qwen3\.6-35B-A3B-NVFP4") and tools:
        yield Hit("model", show(launch.model.repository), severity="warning" if launch.service.tools else None)


@rule("X26")
def mtp_on_a_resumed_prefix(launch: Launch) -> Hits:
    """MTP with prefix caching on a hybrid model on 0.27."""
    seen = str(launch.version).startswith("0.27.")  # not a build before it, with which owners' recipes run
    if launch.gb10 and seen and launch.method == "mtp" and launch.model.hybrid and launch.prefix_caching:
        yield Hit(argv("--speculative-config"), "method mtp with prefix caching")


@rule("X27")
def turboquant_with_drafts(launch: Launch) -> Hits:
    """A TurboQuant KV cache with speculation and full CUDA graphs."""
    if launch.kv_dtype.startswith("turboquant") and launch.method and _graphs(launch).startswith("FULL"):
        yield Hit(argv("--kv-cache-dtype"), f"{launch.kv_dtype} with method {launch.method}")


@rule("X28")
def nvfp4_drafter(launch: Launch) -> Hits:
    """An NVFP4 drafter under CUDA graphs on 0.28."""
    drafter = str(launch.speculation.get("model") or "")
    built_in = launch.method == "mtp" and not drafter and launch.model.is_(r".*NVFP4-MTP")
    own = "nvfp4" in drafter.lower() and launch.method in ("mtp", "eagle", "eagle3")
    if (built_in or own) and _graphs(launch) != "NONE" and not launch.speculation.get("enforce_eager"):
        yield Hit(argv("--speculative-config"), show(drafter or launch.model.repository))
