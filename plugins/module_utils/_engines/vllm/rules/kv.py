# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on the KV cache's type and on speculative decoding."""

from ...._base.place import argv
from ...._facts.models.facts import drafter_fits
from ._base import Hit, Hits, rule, show
from .launch import Launch

_DRAFTER_FIXED = "2026-04-19"


def _tokens(launch: Launch) -> int | None:
    tokens = launch.speculation.get("num_speculative_tokens")
    text = str(tokens)
    return int(text) if text.isdigit() and len(text) < 10 else None


def _graphs(launch: Launch) -> str:
    """The mode of the CUDA graphs."""
    mode = launch.command.json("--compilation-config").get("cudagraph_mode", "FULL_AND_PIECEWISE")
    return "NONE" if launch.switch("--enforce-eager") else str(mode).upper()


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


@rule("R076")
def async_with_lookup(launch: Launch) -> Hits:
    """--async-scheduling given with n-gram, suffix or medusa speculation."""
    refused = ("ngram", "suffix", "medusa", "mlp_speculator")
    if launch.switch("--async-scheduling") and (
        launch.method in refused or (launch.method and launch.before("0.12.0"))
    ):
        yield Hit(argv("--async-scheduling"), f"with method {launch.method}")


@rule("X25")
def many_tools(launch: Launch) -> Hits:
    """NVIDIA's Qwen3.6-35B-A3B-NVFP4 in a service with tools."""
    tools = launch.service.tools is not False and launch.text("--tool-call-parser")
    if launch.gb10 and launch.model.is_(r"nvidia/Qwen3\.6-35B-A3B-NVFP4") and tools:
        yield Hit("model", show(launch.model.repository), severity="warning" if launch.service.tools else None)


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


@rule("X30")
def drafts_and_kept_states(launch: Launch) -> Hits:
    """Speculation with prefix caching on a hybrid model."""
    ahead = launch.before("0.26.0") or launch.switch("--async-scheduling") is not False
    if launch.method and launch.model.hybrid and launch.prefix_caching and ahead:
        yield Hit(argv("--speculative-config"), f"method {launch.method} with prefix caching")
