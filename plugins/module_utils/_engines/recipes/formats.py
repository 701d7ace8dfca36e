# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes of NVIDIA/local-ai-inference-recipes and of vllm-project/recipes in the form of spark-vllm-docker's: one
command, its image, its variables. A part of another type than it should have is left out; `_engines.recipes.foreign`
checks the rest."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from ..._base.gb10 import fact

_EXPORT = re.compile(r"^\s*export\s+(\w+)=(.*)$")
_OPTION = re.compile(r"(?:^|\s)(?:-e|--env)\s+\"?(\w+)=([^\s\"$]+)\"?")
# A GB10's memory holds the smallest first.
_PRECISIONS = ("nvfp4", "mxfp4", "int4", "fp8", "default")


def as_known(source: Mapping[str, object]) -> tuple[str, Mapping[Any, Any]]:
    """The project, empty where it is eugr or sparkrun, and the recipe in a form that `_engines.recipes.foreign`
    knows."""
    if "schema_version" in source and isinstance(source.get("serve"), Mapping):
        return "NVIDIA/local-ai-inference-recipes", _nvidia(source)
    if isinstance(source.get("meta"), Mapping) and isinstance(source.get("model"), Mapping):
        return "vllm-project/recipes", _vllm(source)
    return "", source


def _nvidia(source: Mapping[str, object]) -> dict[str, Any]:
    runtime, topology, validation = (_map(source, key) for key in ("runtime", "topology", "validation"))
    text = str(_map(source, "serve").get("command", "")).replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    exported = {str(found[1]): str(found[2]) for found in map(_EXPORT.match, lines) if found}
    variables = dict(_OPTION.findall(str(runtime.get("setup_command", "")))) | {
        name: value.strip().strip("\"'") for name, value in exported.items()
    }
    command = " ".join(line for line in lines if not _EXPORT.match(line))
    before, serve, rest = command.partition("vllm serve ")
    assigned = [word.partition("=") for word in before.split()]
    if assigned and all(name.isidentifier() and equals for name, equals, _ in assigned):
        variables |= {name: value.strip("\"'") for name, _, value in assigned}
        command = serve + rest
    alone = topology.get("node_count") in (None, 1)
    return {
        "name": str(source.get("title", "")),
        "model": _map(source, "checkpoint").get("target_label"),
        "container": str(runtime.get("image", "")),
        "command": _literal(command),
        "env": {name: value for name, value in variables.items() if not name.startswith(("HF_TOKEN", "MASTER_PORT"))},
        "solo_only": alone,
        "cluster_only": not alone,
        "validated": {
            key: str(value)
            for key, value in (("by", "NVIDIA"), ("when", validation.get("validated_at")))
            if validation and value
        },
    }


def _vllm(source: Mapping[str, Any]) -> dict[str, Any]:
    meta, model, features, variants = (_map(source, key) for key in ("meta", "model", "features", "variants"))
    wanted = [name for name in variants if isinstance(variants[name], Mapping)]
    chosen = next((item for kind in _PRECISIONS for item in wanted if item == kind), next(iter(wanted), ""))
    variant = _map(variants, chosen)
    repository = variant.get("model_id") or model.get("model_id")
    optional = source.get("opt_in_features") or ()
    words = ["vllm", "serve", str(repository), *_words(model.get("base_args"))]
    for name, feature in features.items():
        if isinstance(feature, Mapping) and name not in optional:
            words += _words(feature.get("args"))
    words += _words(variant.get("extra_args"))
    length = model.get("context_length")
    if isinstance(length, int) and "--max-model-len" not in words:
        words += ["--max-model-len", str(length)]
    return {
        "name": str(meta.get("title", repository)),
        "description": str(meta.get("description", "")) or str(repository),
        "model": repository,
        "container": f"{fact('image', 'reference')}@{fact('image', 'digest')}",
        "command": _literal(shlex.join(words)),
        "env": {**_map(model, "base_env"), **_map(variant, "extra_env")},
    }


def _literal(command: str) -> str:
    """Their braces are JSON's, and no placeholders."""
    return command.replace("{", "{{").replace("}", "}}")


def _map(source: Mapping[str, object], key: str) -> Mapping[Any, Any]:
    value = source.get(key)
    return value if isinstance(value, Mapping) else {}


def _words(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
