# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on the model: its configuration, quantization, parsers, KV cache type and drafters."""

from collections.abc import Mapping

from ...._base.place import argv
from ...._facts.models.facts import drafter_fits
from ._base import Hit, Hits, rule, show
from .launch import Launch

_LENGTH = argv("--max-model-len")


def _too_long(launch: Launch) -> bool:
    length = launch.number("--max-model-len")
    return bool(launch.model.native_length and length and length > launch.model.native_length)


def _rope(launch: Launch) -> str:
    """The rope override as text; empty without one."""
    overrides = str(launch.command.json("--hf-overrides"))
    return overrides if "rope" in overrides else ""


def _scaled_length(launch: Launch) -> float:
    """The length that a YaRN override comes to (vllm/config/model.py, _get_and_verify_max_len); 0 without one."""
    overrides = launch.command.json("--hf-overrides")
    for part in (overrides, overrides.get("text_config")):
        for key in ("rope_parameters", "rope_scaling"):
            rope = part.get(key) if isinstance(part, Mapping) else None
            if isinstance(rope, Mapping) and "yarn" in (rope.get("rope_type"), rope.get("type")):
                factor, original = rope.get("factor"), rope.get("original_max_position_embeddings")
                if isinstance(factor, int | float) and isinstance(original, int | float):
                    return factor * original
    return 0


@rule("R112")
def longer_than_allowed(launch: Launch) -> Hits:
    """A context beyond the model's own without the variable that allows it."""
    length = launch.number("--max-model-len") or 0
    allowed = launch.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") == "1" or length <= _scaled_length(launch)
    if _too_long(launch) and not allowed:
        yield Hit(_LENGTH, f"{launch.number('--max-model-len'):.0f}", expected=f"at most {launch.model.native_length}")


@rule("R113")
def longer_than_trained(launch: Launch) -> Hits:
    """A context beyond what the model was trained for without a rope override."""
    mamba = launch.model.ssm  # Nemotron-3 was trained for 1M tokens; its configuration says 256K
    if _too_long(launch) and not _rope(launch) and not mamba:
        yield Hit(_LENGTH, f"{launch.number('--max-model-len'):.0f}", expected=f"at most {launch.model.native_length}")


@rule("R114")
def yarn(launch: Launch) -> Hits:
    """YaRN in --hf-overrides."""
    if "yarn" in _rope(launch):
        yield Hit(argv("--hf-overrides"), "yarn")


@rule("R115")
def rope_theta_missing(launch: Launch) -> Hits:
    """Qwen3.5 FP8 whose configuration lacks rope_theta."""
    text = launch.model.config.text
    parameters = text.get("rope_parameters")
    known = "rope_theta" in text or (isinstance(parameters, dict) and "rope_theta" in parameters)
    concerned = launch.model.is_(r"Qwen/Qwen3\.5-(122B-A10B|35B-A3B)-FP8")
    if concerned and text and not known and "rope_theta" not in _rope(launch):
        yield Hit("model", "no rope_theta in config.json")


@rule("R118")
def more_ranks_than_gpus(launch: Launch) -> Hits:
    """More ranks than GPUs, and no group."""
    if launch.world_size > launch.host.gpus and not launch.spread and launch.executor != "ray":
        yield Hit(argv("--tensor-parallel-size"), f"{launch.world_size} ranks, {launch.host.gpus} GPU")


@rule("R039")
def quantization_not_a_method(launch: Launch) -> Hits:
    """--quantization fp4 or another name of no method, on a ModelOpt checkpoint."""
    method = launch.text("--quantization")
    known = launch.release.registries.get("quantization", ()) if launch.release else ()
    if method and known and method not in known and launch.model.quant_method == "modelopt":
        yield Hit(argv("--quantization"), show(method))


@rule("R040")
def other_familys_parser(launch: Launch) -> Hits:
    """A tool parser of another family than the model's."""
    parser, fitting = launch.text("--tool-call-parser"), launch.model.tool_parsers
    if parser and fitting and parser not in fitting and not launch.has("--tool-parser-plugin"):
        remedy = f"write --tool-call-parser {fitting[0]}"
        yield Hit(argv("--tool-call-parser"), show(parser), expected=" or ".join(fitting), remedy=remedy)


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


_DRAFTER_FIXED = "2026-04-19"


def _tokens(launch: Launch) -> int | None:
    tokens = launch.speculation.get("num_speculative_tokens")
    text = str(tokens)
    return int(text) if text.isdigit() and len(text) < 10 else None


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


@rule("X28")
def nvfp4_drafter(launch: Launch) -> Hits:
    """An NVFP4 drafter under CUDA graphs on 0.28."""
    drafter = str(launch.speculation.get("model") or "")
    built_in = launch.method == "mtp" and not drafter and launch.model.is_(r".*NVFP4-MTP")
    own = "nvfp4" in drafter.lower() and launch.method in ("mtp", "eagle", "eagle3")
    if (built_in or own) and launch.graphs != "NONE" and not launch.speculation.get("enforce_eager"):
        yield Hit(argv("--speculative-config"), show(drafter or launch.model.repository))
