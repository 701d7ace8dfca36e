# SPDX-License-Identifier: GPL-3.0-or-later
"""Speculative decoding: how many tokens are drafted a step, and which layers the drafter adds to the pool."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...._facts.models.drafting import method_of
from .config import read_drafter
from .flags import Flags
from .model import Attention, Mamba2, Model
from .release import Release
from .trouble import bad_input, not_sized, refusal

_PLACE = "flags.speculative_config"
_WITHOUT_LAYERS = ("ngram", "ngram_gpu", "suffix")
_OF_ONE_LAYER = ("eagle", "eagle3")
# Layers of a checkpoint that drafts for itself (vllm/models/deepseek_v4/nvidia/dspark.py: n_mtp_layers, or 3).
_STACKED = 3
_WITH_CHECKPOINT = (*_OF_ONE_LAYER, "draft_model", "dflash", "dspark")


@dataclass(frozen=True)
class Draft:
    """method: None without speculation. tokens: drafted a step. layers: what it adds. external: own checkpoint.

    assumed: the layers are a guess of the usual head, since its config.json wasn't given.
    """

    method: str | None = None
    tokens: int = 0
    layers: tuple[Attention, ...] = ()
    external: bool = False
    assumed: bool = False


def resolve(flags: Flags, model: Model, release: Release) -> Draft:
    """The drafter of --speculative-config. Raises FleetError for a method that isn't known or doesn't fit the model."""
    wanted = flags.speculative
    if wanted is None:
        return Draft()
    method = method_of(wanted, wanted.get("draft_config"))
    if method == "mtp":
        return _prediction(model, release, wanted.get("num_speculative_tokens", len(model.depths) or 1))
    tokens = wanted.get("num_speculative_tokens")
    if tokens is None:
        expected = "how many tokens are drafted a step"
        raise bad_input(
            "kv-flags", f"{_PLACE}.num_speculative_tokens", value=None, expected=expected, remedy="write a number"
        )
    _check_recurrent(model, release)
    if method in _WITHOUT_LAYERS:
        return Draft(method, tokens)
    if method == "dspark" and model.stacked and "draft_config" not in wanted:
        return Draft(method, tokens, (model.stacked,) * _STACKED, assumed=True)
    if method in _WITH_CHECKPOINT:
        layers = _external(wanted, str(method), model)
        return Draft(method, tokens, layers, external=True, assumed="draft_config" not in wanted)
    found = f"method {str(method)[:60]}"
    remedy = "use another method, or size it by a first boot"
    expected = ", ".join(["mtp", *_WITHOUT_LAYERS, *_WITH_CHECKPOINT])
    raise not_sized(f"{_PLACE}.method", found=found, expected=expected, remedy=remedy)


def _external(wanted: Mapping[str, object], method: str, model: Model) -> tuple[Attention, ...]:
    """The drafter's own layers; without its config.json, one layer like the target's, as EAGLE heads have."""
    if "draft_config" in wanted:
        return read_drafter(wanted["draft_config"], f"{_PLACE}.draft_config")
    if method not in _OF_ONE_LAYER:
        remedy = "give the drafter's config.json as draft_config; in a recipe, name it in model.draft.config"
        raise not_sized(f"{_PLACE}.draft_config", found="missing", expected="the drafter's config.json", remedy=remedy)
    return (replace(model.attention, window=None),)


def _prediction(model: Model, release: Release, tokens: int) -> Draft:
    if model.architecture.startswith("Gemma4"):
        return Draft("mtp", tokens)  # its assistant reads the target's cache
    if model.architecture.startswith("Step3p"):
        remedy = "leave --speculative-config out, or size it by a first boot"
        raise not_sized(f"{_PLACE}.method", found="several prediction layers", expected="one", remedy=remedy)
    if model.mtp is None:
        words = "NotImplementedError: Unsupported speculative method: 'mtp'"
        remedy = "leave --speculative-config out: the config.json names no prediction layer"
        raise refusal("kv-drafter", f"{_PLACE}.method", words=words, remedy=remedy, source="vllm/config/speculative.py")
    if isinstance(model.recurrent, Mamba2) and not release.since("0.17"):
        words = "NotImplementedError: Speculative decoding with draft model is not supported yet."
        remedy = "use vLLM 0.17 or newer, or leave --speculative-config out"
        raise refusal("kv-drafter", f"{_PLACE}.method", words=words, remedy=remedy, source="vllm/config/speculative.py")
    return Draft("mtp", tokens, model.depths[:tokens] or (model.mtp,))


def _check_recurrent(model: Model, release: Release) -> None:
    """Before 0.17 only Qwen3-Next drafts among the models with recurrent layers."""
    if model.recurrent is None or release.since("0.17") or model.architecture == "Qwen3NextForCausalLM":
        return
    words = "NotImplementedError: Mamba with speculative decoding is not supported yet."
    remedy = "use vLLM 0.17 or newer, or leave --speculative-config out"
    source = "vllm/model_executor/layers/mamba/abstract.py"
    raise refusal("kv-drafter", _PLACE, words=words, remedy=remedy, source=source)
