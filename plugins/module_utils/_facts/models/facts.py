# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a model: what the owner says, its `config.json`, ``data/vllm_models.yml``, in this order."""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..._base.gb10 import data_table
from ..._base.yaml_text import read_yaml
from .config import ConfigJson
from .drafting import method_of

DATA = Path(__file__).resolve().parents[4] / "data" / "vllm_models.yml"

# Other names for a fact, as recipes, hub files and people write them.
_ALIASES: Mapping[str, tuple[str, ...]] = data_table("model_aliases")
# Keys that only models with such layers have; Qwen3.5 has a mamba_ssm_dtype without any Mamba layer.
_MAMBA = ("mamba_num_heads", "mamba_n_heads", "mamba_d_state", "ssm_state_size", "hybrid_override_pattern")
_TRANSCRIBES = r"Whisper|Moonshine|Voxtral|\w*(ASR|Asr)For"
_LINEAR = ("linear_num_value_heads", "linear_conv_kernel_dim")


@dataclass(frozen=True)
class Model:
    """Facts of a model; None where nothing says.

    family: e.g. qwen3.6. quant_method: modelopt, compressed-tensors, fp8, awq. quant_algo: NVFP4, FP8,
    MIXED_PRECISION. hybrid: full attention mixed with linear or Mamba layers; ssm: Mamba ones. mla: latent attention.
    built_in_mtp: draft heads in the checkpoint; paired_draft: a draft model beside it. native_length: tokens that it
    was trained for. weights_bytes: sum of the safetensors files. table_bytes: of them a table, which a build may leave
    on the disk. cached: whether the host has it. draft_date: of the
    drafter's snapshot. config: config.json, empty where not given.
    """

    repository: str = ""
    family: str | None = None
    architecture: str | None = None
    quant_method: str | None = None
    quant_algo: str | None = None
    moe: bool | None = None
    hybrid: bool | None = None
    mla: bool | None = None
    ssm: bool | None = None
    vision: bool | None = None
    audio: bool | None = None
    reasoning: bool | None = None
    built_in_mtp: bool | None = None
    paired_draft: bool | None = None
    native_length: int | None = None
    weights_bytes: int | None = None
    table_bytes: int | None = None
    gated: bool | None = None
    cached: bool | None = None
    tokenizer_class: str | None = None
    draft_date: str | None = None
    config: ConfigJson = field(default_factory=lambda: ConfigJson({}))

    @property
    def least_bytes(self) -> int:
        """The weights that have to be in memory."""
        return (self.weights_bytes or 0) - (self.table_bytes or 0)

    @property
    def nvfp4(self) -> bool:
        return self.quant_algo in ("NVFP4", "MIXED_PRECISION")

    @property
    def fp8(self) -> bool:
        return self.quant_method == "fp8" or self.quant_algo == "FP8"

    @property
    def transcribes_only(self) -> bool:
        """Whether every request brings audio: a model that transcribes."""
        return re.match(_TRANSCRIBES, self.architecture or "") is not None

    @property
    def tool_parsers(self) -> tuple[str, ...]:
        """The parsers that read its tool calls, best first; empty where unknown."""
        if self.family == "gemma4" and self.moe:
            # NVIDIA's CI, eugr and vllm-project use gemma4; an owner of vLLM 0.19 pythonic (Spark guide, 7.2.2)
            return ("gemma4", "pythonic")
        return tuple(_data()["tool_parsers"].get(self.family, ()))

    @property
    def reasoning_parser(self) -> str | None:
        """The parser that reads its thoughts; None where unknown."""
        parser: str | None = _data()["reasoning_parsers"].get(self.family)
        return parser

    def is_(self, pattern: str) -> bool:
        """Whether its repository matches, without case."""
        return re.fullmatch(pattern, self.repository, re.IGNORECASE) is not None


@functools.cache
def _data() -> Mapping[str, Any]:
    data: Mapping[str, Any] = read_yaml(DATA.read_text("utf-8"))
    return data


def table_on_disk(variables: Mapping[str, object]) -> str:
    """The variable by which a build leaves such a table on the disk; empty where none is set."""
    for name, pattern in _data()["tables_on_disk"].items():
        if re.fullmatch(pattern, str(variables.get(name, ""))):
            return f"{name}={variables[name]}"
    return ""


def drafter_fits(drafter: str, model: Model) -> bool | None:
    """Whether a known drafter was trained for this model; None for a drafter that isn't known."""
    pattern = _data()["drafters"].get(drafter)
    return None if pattern is None else model.is_(pattern)


def config_name(repository: str) -> str | None:
    """The shipped config.json (`recipes/configs`) of a checkpoint's base model, whose shapes it has too."""
    data = _data()
    for row in data["configs"]:
        if re.fullmatch(row["match"] + data["variants"], repository, re.IGNORECASE):
            name: str = row["config"]
            return name
    return None


def drafter_config(repository: str | None) -> str | None:
    """The shipped config.json of a drafter; None for one whose shapes aren't known."""
    name: str | None = _data()["drafter_configs"].get(repository)
    if name is None and repository and method_of({"model": repository}) == "draft_model":
        return config_name(repository)
    return name


def drafter_named(last: str) -> str | None:
    """The known drafter whose repository has this name, whoever publishes it."""
    known = (*_data()["drafter_configs"], *_data()["drafters"])
    return next((repository for repository in known if repository.partition("/")[2].lower() == last.lower()), None)


def pooling_of(repository: str) -> tuple[Mapping[str, Any], str]:
    """``hf-overrides`` of a model that pools though its config.json is a generating one's, and where that is known
    from; an empty map for all others."""
    for row in _data()["pooling"]:
        if re.fullmatch(row["match"], repository, re.IGNORECASE):
            return row["hf_overrides"], row["source"]
    return {}, ""


_OF_BARE_CONFIG = frozenset(
    {"architectures", "model_type", "text_config", "max_position_embeddings", "quantization_config"}
)


def model_of(written: Mapping[str, object], repository: str | None) -> Model:
    """The facts of a model. written: the owner's, also a bare `config.json`. repository: as the command names it.

    A config without a part for images or sound is no evidence against a repository that is known to have one: a
    recipe may name the config of the language model alone.
    """
    is_bare = "config" not in written and not written.keys().isdisjoint(_OF_BARE_CONFIG)
    values = written if is_bare else written.get("config")
    config = ConfigJson(values if isinstance(values, Mapping) else {})
    own = _aliased(written)
    name = str(own.get("repository") or repository or "")
    known, read = _known(name), _from_config(config)
    family = _data()["architectures"].get(str(config.architecture))
    known = {**({"family": family} if family else {}), **known}
    media = {key: True for key in ("audio", "vision") if known.get(key) or read.get(key)}
    found = {**known, **read, **media, **own, "repository": name, "config": config}
    return Model(**{key: value for key, value in found.items() if key in _TYPES and _fits(key, value)})


_TYPES: Mapping[str, type] = {
    **{item.name: bool for item in fields(Model) if item.type == bool | None},
    **{item.name: str for item in fields(Model) if item.type in (str, str | None)},
    **{item.name: int for item in fields(Model) if item.type == int | None},
    "config": ConfigJson,
}


def _fits(key: str, value: object) -> bool:
    return isinstance(value, _TYPES[key]) and not (isinstance(value, bool) and _TYPES[key] is int)


@functools.lru_cache(maxsize=512)
def _known(repository: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for row in _data()["models"] if repository else ():
        if re.fullmatch(row["match"], repository, re.IGNORECASE):
            facts |= row["facts"]
    return facts


def _aliased(written: Mapping[str, object]) -> dict[str, Any]:
    """What the owner wrote, by our names. `quantization: nvfp4` is an algorithm, not a method."""
    found: dict[str, Any] = {}
    for name in _TYPES:
        for key in (name, *_ALIASES.get(name, ())):
            if key in written and written[key] is not None and name not in found:
                found[name] = _first(written[key]) if name == "architecture" else written[key]
    if written.get("nvfp4_moe") is True:
        found["quant_algo"] = "NVFP4"
    if written.get("fp8_moe") is True:
        found["quant_method"] = "fp8"
    method = str(found.get("quant_method", "")).lower()
    if method in ("nvfp4", "mixed_precision"):
        found.pop("quant_method")
        found.setdefault("quant_algo", method.upper())
    if isinstance(found.get("quant_algo"), str):
        found["quant_algo"] = found["quant_algo"].upper()
    return found


def _first(value: object) -> Any:
    return value[0] if isinstance(value, list) and value else value


def _from_config(config: ConfigJson) -> dict[str, Any]:
    """What a Hugging Face `config.json` says."""
    text, whole = config.text, config.values
    found: dict[str, Any] = {"native_length": config.positions}
    if config.architecture or whole.get("model_type"):
        layers = text.get("layer_types")
        kinds = [str(kind) for kind in layers] if isinstance(layers, list) else []
        mamba = "mamba" in "".join(kinds) or any(key in text for key in _MAMBA)
        found["ssm"] = mamba
        found["hybrid"] = mamba or "linear" in "".join(kinds) or any(key in text for key in _LINEAR)
        found["moe"] = config.is_mixture
        found["mla"] = isinstance(text.get("kv_lora_rank"), int)
        found["vision"] = isinstance(whole.get("vision_config"), Mapping)
        found["audio"] = any(isinstance(whole.get(key), Mapping) for key in ("audio_config", "sound_config"))
        found["architecture"] = config.architecture
    found |= _quantization(config.quantization)
    return {key: value for key, value in found.items() if value is not None}


def _quantization(written: Mapping[str, object]) -> dict[str, Any]:
    method = str(written.get("quant_method", "")).lower()
    algorithm = str(written.get("quant_algo") or "").upper()
    if method == "compressed-tensors":
        formats = {str(written.get("format", "")), *(_formats(written.get("config_groups")))}
        algorithm = "NVFP4" if any("nvfp4" in name for name in formats) else algorithm
    if method == "fp8":
        algorithm = algorithm or "FP8"
    return {"quant_method": method or None, "quant_algo": algorithm or None}


def _formats(groups: object) -> Iterable[str]:
    values = groups.values() if isinstance(groups, Mapping) else ()
    return (str(group.get("format", "")) for group in values if isinstance(group, Mapping))
