# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on the model's configuration: context, parallel size, modalities."""

from collections.abc import Mapping

from ...._base.place import argv
from ._base import Hit, Hits, rule
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
