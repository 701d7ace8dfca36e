# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes of NVIDIA/local-ai-inference-recipes and of vllm-project/recipes, compose files and `docker run` lines in the
form of spark-vllm-docker's: one command, its image, its variables. A part of another type than it should have is left
out; `_engines.recipes.foreign` checks the rest."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ..._base.findings import FleetError, refusal
from ..._base.gb10 import fact
from ..._base.yaml_text import read_yaml
from ..vllm.catalogue.version import parse
from ..vllm.text.docker_command import split_docker_command, words_of
from ..vllm.text.image_facts import image_of

_EXPORT = re.compile(r"export\s+(\w+)=(.*)")
_ASSIGNED = re.compile(r"(?:env\s+)?(\w+)=(\"[^\"]*\"|'[^']*'|\S*)\s+")
# Where a shell is to put what a program prints.
_TAIL = re.compile(r"\s+(?:\d?>{1,2}\s*&?\S+|\|\s*tee\s[^|]*|&)\s*$")
_OPTION = re.compile(r"(?:^|\s)(?:-e|--env)\s+\"?(\w+)=([^\s\"$]+)\"?")
_RUN = re.compile(r"(?m)^\s*(?:sudo\s+)?(?:docker|podman|nerdctl)\s+(?:container\s+)?run\b")
# A shell's variable with a value for when it is not set.
_DEFAULT = re.compile(r"\$\{\w+:?-([^}]*)\}")
_COMMIT_OF = re.compile(r"/(?:tree|blob|resolve|commit)/([0-9a-f]{40})")
# Engines by the names that others give them, as sparkrun writes them.
_RUNTIMES = {"sglang": "sglang", "llama.cpp": "llama-cpp", "llamacpp": "llama-cpp", "tensorrt-llm": "trtllm"}
_SHELLS = ("bash", "sh", "/bin/bash", "/bin/sh")
# A GB10's memory holds the smallest first.
_PRECISIONS = ("nvfp4", "mxfp4", "int4", "fp8", "default")


def _unusable(found: str, expected: str, remedy: str) -> FleetError:
    """Nothing in it can be served by what we have."""
    return refusal("import-format", "", found=found, expected=expected, remedy=remedy)


def own_name(stem: str) -> str:
    """A recipe's name by that of its file."""
    return re.sub("[^a-z0-9.]+", "-", stem.lower()).strip("-.")


def read_text(text: str) -> object:
    """What YAML makes of a recipe's text; of a `docker run` line, its words alone. Raises ValueError."""
    run = _RUN.search(text)
    if run is None or text[: run.start()].lstrip().startswith("services:") or ":\n" in text[: run.start()]:
        return read_yaml(text)
    return {"docker": text[run.start() :]}


def read_script(text: str) -> tuple[dict[str, str], str, list[str]]:
    """Of a shell's text: the variables that it sets, the command that it ends with, and the programs before that."""
    variables: dict[str, str] = {}
    parts: list[str] = []
    text = re.sub(r"`#[^`]*`", " ", text).replace("\\\n", " ")
    for part in map(str.strip, re.split(r"\n|\s&&\s", text)):
        if found := _EXPORT.fullmatch(part):
            variables[found[1]] = re.sub(r"\s#.*", "", found[2]).strip().strip("\"'")
        elif part.startswith("-") and parts:
            parts[-1] += f" {part}"
        elif part and not part.startswith(("#", "set -")):
            parts.append(part)
    command = parts.pop() if parts else ""
    while (shorter := _TAIL.sub("", command)) != command:
        command = shorter
    while found := _ASSIGNED.match(command):
        variables[found[1]], command = found[2].strip("\"'"), command[found.end() :]
    return variables, command.removeprefix("exec "), parts


def as_known(source: Mapping[str, object]) -> tuple[str, Mapping[Any, Any]]:
    """The project, empty where it is eugr or sparkrun, and the recipe in a form that `_engines.recipes.foreign`
    knows. Raises FleetError."""
    if "schema_version" in source and isinstance(source.get("serve"), Mapping):
        return "NVIDIA/local-ai-inference-recipes", _nvidia(source)
    if isinstance(source.get("meta"), Mapping) and isinstance(source.get("model"), Mapping):
        return "vllm-project/recipes", _vllm(source)
    if isinstance(source.get("docker"), str):
        return "docker run", _docker_run(str(source["docker"]))
    if isinstance(source.get("services"), Mapping):
        return "compose", _compose(_map(source, "services"))
    return "", source


def _docker_run(text: str) -> dict[str, Any]:
    run = split_docker_command(_DEFAULT.sub(r"\1", text))
    return _container(run.image, [*([run.entrypoint] if run.entrypoint else []), *run.argv], run.env)


def _compose(services: Mapping[object, object]) -> dict[str, Any]:
    """The one service that serves a model."""
    found = {str(name): one for name, one in services.items() if isinstance(one, Mapping) and one.get("image")}
    serve = {name: one for name, one in found.items() if _serves(one)}
    if len(serve) != 1:
        named = ", ".join(serve or map(str, services)) or "no service"
        remedy = "keep the service that serves the model in the file that is imported"
        raise _unusable(named[:200], "one service with an engine's image or command", remedy)
    (service,) = serve.values()
    written = service.get("environment") or {}
    pairs = written.items() if isinstance(written, Mapping) else (str(line).partition("=")[::2] for line in written)
    env = {str(name): _DEFAULT.sub(r"\1", "" if value is None else str(value)) for name, value in pairs}
    words = [*_command_words(service.get("entrypoint")), *_command_words(service.get("command"))]
    return _container(_DEFAULT.sub(r"\1", str(service["image"])), words, env)


def _serves(service: Mapping[object, object]) -> bool:
    image = image_of(_DEFAULT.sub(r"\1", str(service["image"])).replace("$", ""))
    words = f"{service.get('entrypoint')} {service.get('command')}"
    return image.engine is not None or not image.unknown or bool(re.search("vllm|sglang|llama-server", words))


def _command_words(command: object) -> list[str]:
    """compose splits a text as a shell does; its dollar is written twice."""
    if not command:
        return []
    try:
        words = _words(command) if isinstance(command, list) else words_of(str(command))
    except ValueError as problem:
        raise _unusable(str(problem), "a command that a shell reads", "close the quotes") from None
    return [_DEFAULT.sub(r"\1", word.replace("$$", "$")) for word in words]


def _container(image: str, words: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """What runs in a container. words: its entrypoint's, where one is written, and its command's."""
    words, runtime = [*words], _RUNTIMES.get(str(image_of(image).engine).lower(), "vllm")
    before: list[str] = []
    if words and words[0] in _SHELLS:
        variables, script, before = read_script(next((word for word in words[1:] if not word.startswith("-")), ""))
        words, env = words_of(script), {**env, **variables}
    if runtime == "vllm":
        module = next((at for at, word in enumerate(words) if word.startswith("vllm.entrypoints.")), None)
        words = words[module + 1 :] if module is not None else words
        words = words if "serve" in words[:2] else ["vllm", "serve", *words]
    elif runtime == "llama-cpp" and not any(word.endswith("llama-server") for word in words):
        words = ["llama-server", *words]
    elif runtime == "sglang" and words[:1] and words[0].startswith("-"):
        words = ["sglang", "serve", *words]
    known: dict[str, Any] = {"container": image, "command": _literal(shlex.join(words)), "env": dict(env)}
    known |= {"pre_exec": before} if before else {}
    if runtime == "vllm":
        return known
    named = ("--model-path", "--model", "-hf", "--hf-repo", "-m")
    model = next((words[at + 1] for at, word in enumerate(words[:-1]) if word in named), "")
    model = model or next((word for word in words if re.fullmatch(r"\w[\w.-]*/[\w.-]+", word)), "")
    return {**known, "runtime": runtime, "model": model}


def _nvidia(source: Mapping[str, object]) -> dict[str, Any]:
    runtime, topology, validation = (_map(source, key) for key in ("runtime", "topology", "validation"))
    variables = dict(_OPTION.findall(str(runtime.get("setup_command", ""))))
    command = str(_map(source, "serve").get("command", ""))
    alone = topology.get("node_count") in (None, 1)
    checkpoint = _map(source, "checkpoint")
    entries = [
        {"name": checkpoint.get(f"{part}_label"), "revision": commit[1]}
        for part in ("target", "draft")
        if (commit := _COMMIT_OF.search(str(checkpoint.get(part))))
    ]
    backend = _RUNTIMES.get(str(source.get("backend")).lower())
    return {
        **({"runtime": backend} if backend else {}),
        "distribution_config": {"models": {"entries": entries}},
        "name": str(source.get("title", "")),
        "model": checkpoint.get("target_label"),
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
    if "--omni" in words or length == 0:
        raise _unusable(
            f"{repository} for vLLM-Omni", "a model that vLLM serves", "serve it by vLLM-Omni, beside the fleet"
        )
    if isinstance(length, int) and "--max-model-len" not in words:
        words += ["--max-model-len", str(length)]
    return {
        "name": str(meta.get("title", repository)),
        "description": str(meta.get("description", "")) or str(repository),
        "model": repository,
        "container": _image_since(str(model.get("min_vllm_version"))),
        "command": _literal(shlex.join(words)),
        "env": {**_map(model, "base_env"), **_map(variant, "extra_env")},
    }


def _image_since(release: str) -> str:
    """The image that is proven here, or the release's own where the model needs a newer one."""
    proven, wanted = parse(str(image_of(fact("image", "reference")).vllm)), parse(release)
    if proven and wanted and not proven.since(release):
        return f"vllm/vllm-openai:v{release}"
    return f"{fact('image', 'reference')}@{fact('image', 'digest')}"


def _literal(command: str) -> str:
    """Their braces are JSON's, and no placeholders."""
    return command.replace("{", "{{").replace("}", "}}")


def _map(source: Mapping[str, object], key: str) -> Mapping[Any, Any]:
    value = source.get(key)
    return value if isinstance(value, Mapping) else {}


def _words(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
