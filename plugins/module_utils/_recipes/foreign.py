# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Recipes of spark-vllm-docker (eugr, version 1) and of sparkrun (version 2) as recipes of ours.

Both write a shell command with ``{placeholders}`` and their values. What has no counterpart is reported, not dropped
in silence: patches of the image, hooks, privileged containers, and what the plan decides itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import DEFAULT, ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.releases import load
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.docker_command import words_of
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.flags import read_flags
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.image_facts import image_of
from ansible_collections.gb10.fleet.plugins.module_utils._findings import (
    Finding,
    Severity,
    error,
    hint,
    ordered,
    warning,
)
from ansible_collections.gb10.fleet.plugins.module_utils._recipes.recipe import (
    parse,
    planned_env,
    secrets,
)
from ansible_collections.gb10.fleet.plugins.module_utils._recipes.spec import MODEL
from ansible_collections.gb10.fleet.plugins.module_utils._schema import Spec, check, describe

_TEXTS: Spec = {"type": "list", "default": [], "elements": {"type": "str"}}
_VALUES: Spec = {
    "type": "map",
    "default": {},
    "keys": {"type": "str"},
    "values": {
        "any_of": [
            {"type": "str"},
            {"type": "bool"},
            {"type": "number", "min": -1e15, "max": 1e15},
        ],
    },
}
_COMMON: dict[str, Spec] = {
    "container": {"type": "str", "required": True, "min": 1},
    "description": {"type": "str"},
    "defaults": _VALUES,
    "env": _VALUES,
    "mods": _TEXTS,
    "solo_only": {"type": "bool", "default": False},
    "cluster_only": {"type": "bool", "default": False},
    "recipe_version": {},
}
_EUGR: dict[str, Spec] = {
    **_COMMON,
    "name": {"type": "str"},
    "command": {"type": "str", "required": True},
    "model": {"type": "str"},
    "build_args": _TEXTS,
}
_SPARKRUN: dict[str, Spec] = {
    **_COMMON,
    "model": {"type": "str", "required": True},
    "model_revision": {"type": "str", "nullable": True},
    "metadata": {"type": "map", "default": {}},
    "runtime": {"type": "str", "default": "vllm"},
    "runtime_version": {},
    "command": {"type": "str"},
    "min_nodes": {"type": "int", "min": 1, "default": 1},
    "max_nodes": {"type": "int", "min": 1, "nullable": True},
}
# sparkrun's keys that prepare, surround or measure the server instead of describing it.
_LEFT_OUT = frozenset(
    {
        *(
            "benchmark",
            "builder",
            "builder_config",
            "executor_config",
            "mode",
            "post_commands",
            "post_exec",
            "pre_exec",
        ),
        *("runtime_config", "stop_after_post"),
    }
)

# The defaults of sparkrun whose names are not vLLM's.
_SPARKRUN_FLAGS = {"tensor_parallel": "tensor_parallel_size", "pipeline_parallel": "pipeline_parallel_size"}

# Both projects serve by vLLM.
ENGINE = ENGINES[DEFAULT].spec
# Local names that eugr's build script gives to what it pulls from the registry.
_EUGR_IMAGES = {"vllm-node": "eugr/spark-vllm:latest", "vllm-node-b12x": "eugr/spark-vllm-b12x:latest"}

# Mods whose effect we have by other means; every other one is a patch of the image that a recipe can't carry.
_COVERED_MODS = {
    "drop-caches": "the page cache is dropped before every start",
    "gpu-mem-util-gb": "memory is planned in bytes",
    "nemotron-nano": "the checkpoint brings the parser",
}
_FILE_FLAGS = ("chat-template", "reasoning-parser-plugin", "tool-parser-plugin")
_SHIPPED_WITH_MODEL = frozenset({"nano_v3_reasoning_parser.py", "super_v3_reasoning_parser.py"})
_OURS = frozenset({"distributed-executor-backend", "gpu-memory-utilization", "kv-cache-memory-bytes"})


def import_recipe(source: Any, name: str) -> tuple[dict[str, Any] | None, list[Finding]]:
    """Return our recipe, named ``name``, and all that could not be carried over; no recipe where an error prevents it.

    source: the other recipe's content as YAML gives it.
    """
    if not isinstance(source, Mapping):
        return None, [error("import-format", name, found=describe(source), expected="a recipe of eugr or sparkrun")]
    is_sparkrun = bool({"runtime", "metadata", "model_revision", "min_nodes"} & source.keys())
    spec = _SPARKRUN if is_sparkrun else _EUGR
    known = {key: value for key, value in source.items() if key in spec}
    theirs, findings = check({"type": "map", "options": spec}, known, name)
    findings += _unknown_keys(source, spec, name)
    if any(finding.severity == "error" for finding in findings):
        return None, ordered(findings)
    recipe = _convert(theirs, name, "sparkrun" if is_sparkrun else "eugr", findings)
    if recipe is not None:
        recipe, problems = parse(recipe, f"{name}: ")
        findings += problems
    return recipe or None, ordered(findings)


def _unknown_keys(source: Mapping[Any, Any], spec: Mapping[str, Spec], name: str) -> Iterator[Finding]:
    for key in source:
        if key in spec:
            continue
        severity: Severity = "warning" if key in _LEFT_OUT else "hint"
        yield Finding(
            rule="import-left-out",
            kind="input",
            severity=severity,
            place=f"{name}.{key}",
            found="has no counterpart",
            remedy="see that it isn't needed",
        )


def _convert(theirs: Mapping[str, Any], name: str, project: str, findings: list[Finding]) -> dict[str, Any] | None:
    if not theirs.get("runtime", "vllm").removeprefix("eugr-").startswith("vllm"):
        found = theirs["runtime"]
        findings.append(
            error(
                "import-runtime", f"{name}.runtime", found=found, expected="a vLLM runtime", remedy="serve it elsewhere"
            )
        )
        return None
    model, flags = _command(theirs, name, findings)
    repository = theirs.get("model") or model
    if repository is None or any(finding.severity == "error" for finding in findings):
        return None
    ranks = _take_ranks(theirs, flags, name, findings)
    overlays = _take_files(flags, project, theirs["mods"])
    _take_planned(flags, name, findings)
    findings += _mods(theirs["mods"], overlays, name)
    recipe = {
        "name": name,
        "summary": _summary(theirs, repository),
        "host_counts": ranks,
        "model": _model(theirs, repository, flags, name, findings),
        "image": _image(theirs, name, findings),
        "flags": flags,
        "env": _environment(theirs["env"], name, findings),
        "overlays": overlays,
        "status": {
            "state": "reported",
            "by": f"the author of {project}'s recipe",
            "hardware": "DGX Spark, as its author says",
            "note": "imported; nothing of it was run by us",
        },
        "sources": [f"{project}, {name}"],
    }
    return recipe


def _summary(theirs: Mapping[str, Any], repository: str) -> str:
    described = theirs.get("description") or theirs.get("metadata", {}).get("description") or theirs.get("name")
    return " ".join(str(described or repository).split()) or repository


def _command(theirs: Mapping[str, Any], name: str, findings: list[Finding]) -> tuple[str | None, dict[str, Any]]:
    """Model and flags from the command, or, where sparkrun writes none, from the defaults."""
    if "command" not in theirs:
        return None, {
            _SPARKRUN_FLAGS.get(key, key).replace("_", "-"): value for key, value in theirs["defaults"].items()
        }
    place = f"{name}.command"
    text, missing = _filled(theirs["command"], theirs["defaults"] | {"model": theirs.get("model")})
    for placeholder in missing:
        found = f"{{{placeholder}}} has no value"
        findings.append(
            error("import-placeholder", place, found=found, expected="a value in defaults", remedy=f"add {placeholder}")
        )
    try:
        words = words_of(text)
    except ValueError as cause:
        findings.append(error("import-command", place, found=str(cause), expected="a shell command"))
        return None, {}
    start = next((at + 2 for at in range(len(words)) if words[at : at + 2] == ["vllm", "serve"]), None)
    operators = sorted({"&&", "||", "|", ";", "&"} & set(words))
    if start is None or operators:
        found = f"a program with {operators[0]}" if operators else "no vllm serve"
        findings.append(error("import-command", place, found=found, expected="one command that begins with vllm serve"))
        return None, {}
    return read_flags(words[start:], load())


def _filled(text: str, values: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Put the defaults in place of ``{placeholders}``; doubled braces are single ones, as in Python's format."""
    missing: list[str] = []

    def replacement(match: re.Match[str]) -> str:
        if match[0] in ("{{", "}}"):
            return match[0][0]
        if values.get(match[1]) is None:
            missing.append(match[1])
            return ""
        return str(values[match[1]])

    return re.sub(r"\{\{|\}\}|\{(\w+)\}", replacement, text), missing


def _take_ranks(theirs: Mapping[str, Any], flags: dict[str, Any], name: str, findings: list[Finding]) -> list[int]:
    """On how many hosts it may run; the tensor parallel size follows from that."""
    tensor, pipeline = flags.pop("tensor-parallel-size", 1), flags.get("pipeline-parallel-size", 1)
    whole = isinstance(tensor, int) and isinstance(pipeline, int)
    ranks = max(1, tensor * pipeline if whole else 1, theirs.get("min_nodes", 1))
    if pipeline == 1:
        flags.pop("pipeline-parallel-size", None)
    if theirs["solo_only"] or theirs.get("max_nodes") == 1:
        if ranks > 1:
            found = f"solo_only, with {ranks} ranks in its defaults"
            findings.append(
                hint("import-solo", f"{name}.solo_only", found=found, expected="one rank", remedy="taken as one host")
            )
        return [1]
    return [ranks] if theirs["cluster_only"] or theirs.get("min_nodes", 1) > 1 else sorted({1, ranks})


def _take_planned(flags: dict[str, Any], name: str, findings: list[Finding]) -> None:
    """Take out what the plan decides, and report which values were given up."""
    ours = sorted((ENGINE.planned_flags.keys() | _OURS) & flags.keys())
    if flags.get("max-model-len") in ("auto", -1):
        ours.append("max-model-len")
    for flag in ours:
        value = flags.pop(flag)
        found, remedy = f"{flag} {value}", "write it in the service if you want that very value"
        if flag == "api-key":
            found, remedy = "an API key", "write api_key_file in the service"
        if flag == "max-model-len":
            remedy = "write the workload's max_model_len in the service"
        findings.append(
            hint("import-planned", f"{name}.command", found=found, expected="what the plan decides", remedy=remedy)
        )


def _take_files(flags: dict[str, Any], project: str, mods: list[str]) -> list[dict[str, Any]]:
    """Options that name a file beside the other project's recipe: from the checkpoint, or an overlay to be provided."""
    overlays: list[dict[str, Any]] = []
    for flag in _FILE_FLAGS:
        written = flags.get(flag)
        if not isinstance(written, str) or "{" in written:
            continue
        file = written.rsplit("/", maxsplit=1)[-1]
        if file in _SHIPPED_WITH_MODEL:
            flags[flag] = f"{{model_path}}/{file}"
        elif not written.startswith("/"):
            flags[flag] = f"/overlays/{file}"
            where = f"{project}'s mods {', '.join(sorted(mods))}" if mods else f"{project}'s recipe"
            source = f"{project}, its recipe"
            overlay = {"target": flags[flag], "file": file, "where": where, "reason": f"the recipe sets {flag}"}
            overlays.append({**overlay, "source": source})
    return overlays


def _mods(mods: list[str], overlays: list[dict[str, Any]], name: str) -> Iterator[Finding]:
    for mod in mods:
        short = mod.rstrip("/").rsplit("/", maxsplit=1)[-1]
        if short in _COVERED_MODS:
            yield hint("import-mod", f"{name}.mods", found=short, remedy=f"nothing: {_COVERED_MODS[short]}")
        elif "chat-template" in short and overlays:
            remedy = f"put {overlays[0]['file']} into overlays/ of your recipe folder"
            yield warning(
                "import-mod", f"{name}.mods", found=short, expected="a chat template as an overlay", remedy=remedy
            )
        else:
            remedy = "use an image that has the change, or declare the changed files as overlays"
            yield warning(
                "import-mod", f"{name}.mods", found=f"{short} patches the image", expected="no patch", remedy=remedy
            )


def _model(
    theirs: Mapping[str, Any], repository: str, flags: Mapping[str, Any], name: str, findings: list[Finding]
) -> dict[str, Any]:
    model: dict[str, Any] = {"repository": repository}
    remedy = "put its config.json into configs/ beside the recipe and name it in model.config"
    found = "the model's shape is not known, so that no KV pool can be planned"
    findings.append(hint("import-config", f"{name}.model", found=found, expected="its config.json", remedy=remedy))
    revision = theirs.get("model_revision")
    if revision is not None:
        if re.fullmatch("[0-9a-f]{40}", revision):
            model["revision"] = revision
        else:
            remedy = "write the commit that it stands for"
            findings.append(
                warning("import-revision", f"{name}.model_revision", found=revision, expected="a commit", remedy=remedy)
            )
    written = str(flags.get("quantization") or theirs.get("metadata", {}).get("quantization") or "").lower()
    if written in MODEL["options"]["quantization"]["choices"]:
        model["quantization"] = written
    draft = ENGINES[DEFAULT].draft(flags)
    if draft:
        model["draft"] = {"repository": draft}
    return model


def _image(theirs: Mapping[str, Any], name: str, findings: list[Finding]) -> dict[str, Any]:
    written = theirs["container"]
    reference, _, digest = _EUGR_IMAGES.get(written, written).partition("@")
    if ":" not in reference.rsplit("/", maxsplit=1)[-1]:
        reference += ":latest"
    family = image_of(reference).family
    image: dict[str, Any] = {"reference": reference, "family": family}
    if digest:
        image["digest"] = digest
    if "/" not in reference:
        remedy = "write image.source {host: <a host that has it>} in the service"
        findings.append(
            warning("import-image", f"{name}.container", found=f"{written} is built by hand", remedy=remedy)
        )
    if family == "custom":
        image["entrypoint"] = "/usr/bin/env"
    for argument in theirs.get("build_args", []):
        remedy = "see that the image has it"
        findings.append(
            warning("import-build", f"{name}.build_args", found=argument, expected="a finished image", remedy=remedy)
        )
    return image


def _environment(theirs: Mapping[Any, Any], name: str, findings: list[Finding]) -> dict[str, str]:
    environment: dict[str, str] = {}
    for key, value in theirs.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        place = f"{name}.env.{key}"
        if key in secrets(ENGINE):
            findings.append(
                warning(
                    "import-secret",
                    place,
                    found="a secret",
                    expected="a file",
                    remedy="use api_key_file or HF's token file",
                )
            )
        elif key in planned_env(ENGINE):
            found, remedy = f"{key} {text}", planned_env(ENGINE)[key].partition("; ")[2]
            findings.append(hint("import-planned", place, found=found, expected="what the plan decides", remedy=remedy))
        elif "$" in text:
            findings.append(
                warning(
                    "import-variable", place, found=text, expected="a value", remedy="write the value in the service"
                )
            )
        else:
            environment[key] = text
    return environment
