# SPDX-License-Identifier: GPL-3.0-or-later
"""How vLLM would serve a model without a recipe: by its checkpoint, and the tables that the rules go by."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, FleetError
from ..._base.gb10 import fact
from ..._facts.models.checkpoint import Checkpoint
from ..._facts.models.config import ConfigJson
from ..._facts.models.facts import Model, model_of, pooling_of
from ..._facts.models.purpose import CHAT, POOLING, TASKS, TRANSCRIBE
from ..interface import Proposal
from .catalogue.releases import Catalogue, classes_of, load
from .catalogue.version import parse
from .kv import kv_for_service

# By the end of its architecture's name, where the hub says no task.
_ENDINGS = {"ForSequenceClassification": "classify", "Model": "embed", "ForMaskedLM": "embed", "ForRetrieval": "embed"}
_TRANSCRIBES = ("Whisper", "Asr", "ASR", "Voxtral")
_PROPOSED_LENGTH = 65536
_METHODS = ("modelopt", "compressed-tensors", "fp8", "awq", "gptq", "mxfp4")
# As vllm-project/recipes has it for Qwen3.5 to 3.8, Nemotron-3 and GLM; one token where nothing is known.
_DRAFTED = {"qwen3.5": 3, "qwen3.6": 3, "qwen3.8": 3, "nemotron3": 3}


def propose(
    checkpoint: Checkpoint, names_image: bool = False, names_template: bool = False
) -> tuple[Proposal, list[Finding]]:
    """A checkpoint (`_facts.models.checkpoint`) as a recipe's own part, and what stands against it.

    names_image, names_template: the service brings its own, so that neither is judged here.
    """
    repository, config = checkpoint["repository"], ConfigJson(checkpoint["config"])
    written: dict[str, Any] = {"config": checkpoint["config"]}
    algorithm = _quantization(checkpoint).get("quant_algo")
    if not config.quantization and isinstance(algorithm, str):
        written |= {"quant_method": "modelopt", "quant_algo": algorithm}
    model = model_of(written, repository)
    kind = _kind(checkpoint, config)
    image, unknown = _image(config, load(), f"model {repository}")
    values = {**_form(model, kind), **_length(config, kind), **_cache(checkpoint), **_draft(model, checkpoint, kind)}
    if own := own_code(checkpoint["config"], knows=not unknown):
        unknown = []
        lacks = "it brings its own config class" if own == "AutoConfig" else f"vLLM {image['release']} lacks its class"
        values["trust-remote-code"] = (True, f"{lacks}, and the publisher's code then runs in the container")
    if names_image and config.architecture is not None:
        unknown = []
    method = (model.quant_method or "").lower()
    return Proposal(
        kind=kind,
        image=image,
        flags={name: value for name, (value, _) in sorted(values.items())},
        reasons={name: reason for name, (_, reason) in sorted(values.items())},
        quantization=method if method in _METHODS else None,
    ), [*unknown, *([] if names_template else _template(checkpoint, kind))]


def own_code(config: Mapping[str, object], *, knows: bool) -> str:
    """The entry of config.json's auto_map for which vLLM needs the checkpoint's own code; empty where it needs none.

    knows: whether the release has the architecture.
    """
    own = config.get("auto_map")
    if not isinstance(own, Mapping) or (knows and "AutoConfig" not in own):
        return ""
    return "AutoConfig" if "AutoConfig" in own else str(next(iter(own), ""))


def _quantization(checkpoint: Checkpoint) -> Mapping[str, Any]:
    """What ModelOpt wrote beside config.json."""
    found = checkpoint["quantization"].get("quantization", {})
    return found if isinstance(found, Mapping) else {}


def _kind(checkpoint: Checkpoint, config: ConfigJson) -> str:
    architecture = str(config.architecture or "")
    if any(part in architecture for part in _TRANSCRIBES):
        return TRANSCRIBE
    if architecture.endswith("ForRanking") or "rerank" in checkpoint["repository"].lower():
        return "rerank"
    if checkpoint["task"] in TASKS:
        return TASKS[checkpoint["task"]]
    if checkpoint["library"] == "sentence-transformers":
        return "embed"
    if architecture.endswith("ForSequenceClassification") and checkpoint["config"].get("num_labels") == 1:
        return "score"
    return next((kind for ending, kind in _ENDINGS.items() if architecture.endswith(ending)), CHAT)


def _image(config: ConfigJson, catalogue: Catalogue, place: str) -> tuple[dict[str, Any], list[Finding]]:
    """The image that is known to run on a GB10; or, of later releases with the architecture, the first's whose cache
    the plan can size, else the first's."""
    architecture = config.architecture
    known = {key: fact("image", key) for key in ("reference", "digest", "family", "release")}
    if architecture is None:
        return known, [worded.error("model-architecture/image", place)]
    ranges = [catalogue.name_range("architecture", name) for name in classes_of(architecture)]
    releases = [
        release for release in catalogue.releases if any(held is not None and release in held for held in ranges)
    ]
    if known["release"] in releases:
        return known, []
    if releases:
        later = [release for release in releases if _later(release, known["release"])] or releases[-1:]
        first = next((release for release in later if _is_sized(config, release)), later[0])
        found = f"{architecture}, which vLLM {known['release']} does not have; vLLM {first} does"
        return {"reference": f"vllm/vllm-openai:v{first}", "digest": None, "family": "upstream", "release": first}, [
            worded.warning("model-image", place, found=found, reference=known["reference"])
        ]
    return known, [
        worded.error(
            "model-architecture/image-which",
            place,
            architecture=architecture,
            first_release=catalogue.releases[0],
            last_release=catalogue.releases[-1],
        )
    ]


def _is_sized(config: ConfigJson, release: str) -> bool:
    try:
        kv_for_service(config.values, {}, release)
    except FleetError:
        return False
    return True


def _later(text: str, other: str) -> bool:
    builds = parse(text), parse(other)
    return builds[0] is not None and builds[1] is not None and builds[0].release > builds[1].release


def _form(model: Model, kind: str) -> dict[str, tuple[Any, str]]:
    """How requests are read and answers written."""
    if kind in POOLING:
        overrides, source = pooling_of(model.repository)
        own = {"hf-overrides": (overrides, source)} if overrides else {}
        return {"runner": ("pooling", f"a model to {kind}"), **own}
    if kind != CHAT:
        return {}
    found: dict[str, tuple[Any, str]] = {}
    if model.tool_parsers:
        found["enable-auto-tool-choice"] = (True, "clients may send tools")
        found["tool-call-parser"] = (model.tool_parsers[0], f"the form of {model.family}'s calls")
    if model.reasoning is not False and model.reasoning_parser:
        found["reasoning-parser"] = (model.reasoning_parser, f"the form of {model.family}'s thoughts")
    return found


def _length(config: ConfigJson, kind: str) -> dict[str, tuple[Any, str]]:
    native = config.positions
    if native is None or kind == TRANSCRIBE:
        return {}
    if native <= _PROPOSED_LENGTH:
        return {"max-model-len": (native, "what the model was trained for")}
    return {"max-model-len": (_PROPOSED_LENGTH, f"of the native {native}, whose KV cache costs as much more")}


def _cache(checkpoint: Checkpoint) -> dict[str, tuple[Any, str]]:
    """An FP8 cache only where the checkpoint brings its scales: everywhere else it is the owner's choice."""
    of_config = ConfigJson(checkpoint["config"]).quantization
    algorithm = _quantization(checkpoint).get("kv_cache_quant_algo")
    scheme = of_config.get("kv_cache_scheme")
    bits = scheme.get("num_bits") if isinstance(scheme, Mapping) else None
    if algorithm == "FP8" or of_config.get("kv_cache_quant_algo") == "FP8" or bits == 8:
        return {"kv-cache-dtype": ("fp8", "the checkpoint was made for it; half the bytes of a request")}
    return {}


def _draft(model: Model, checkpoint: Checkpoint, kind: str) -> dict[str, tuple[Any, str]]:
    """The prediction layer that came with the weights."""
    if kind != CHAT or not checkpoint["draft_layers"]:
        return {}
    tokens = _DRAFTED.get(model.family or "", 1)
    return {
        "speculative-config": (
            {"method": "mtp", "num_speculative_tokens": tokens},
            "the checkpoint brings the layer that drafts",
        )
    }


def _template(checkpoint: Checkpoint, kind: str) -> Iterator[Finding]:
    if kind == CHAT and not checkpoint["chat_template"]:
        yield worded.warning("model-template", f"model {checkpoint['repository']}")
