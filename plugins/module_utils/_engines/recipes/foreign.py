# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes of spark-vllm-docker (eugr, version 1), of sparkrun (version 2), of NVIDIA's local-ai-inference-recipes and
of vllm-project/recipes, compose files and `docker run` lines as recipes of ours.

The first two write a shell command with ``{placeholders}`` and their values; the others are brought into that form
(`_engines.recipes.formats`). What has no counterpart is reported, not dropped in silence: patches of the image, hooks,
privileged containers, and what the plan decides itself.
"""

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, FleetError, Severity, error, finding, hint, ordered, warning
from ..._base.forms import forms
from ..._base.gb10 import data_table, fact
from ..._base.place import Place
from ..._base.received import one_line
from ..._base.schema import Spec, check, describe
from ..._base.sizes import quantity
from ..._facts.models.facts import config_name, drafter_named, model_of
from ..._facts.models.purpose import CHAT
from ..declaration import RecipeData
from ..engine import Engine
from ..interface import EngineSpec
from ..normal_form import normal_options
from ..registry import DEFAULT, ENGINES
from ..vllm.catalogue.releases import load
from ..vllm.text.docker_command import words_of
from ..vllm.text.flags import read_flags
from ..vllm.text.image_facts import image_of
from . import foreign_llama, foreign_python
from .formats import as_known, read_script
from .recipe import parse, planned_env, secrets
from .spec import MODEL

_FORMS = forms("foreign")
_EUGR, _SPARKRUN = _FORMS["eugr"]["options"], _FORMS["sparkrun"]["options"]
# sparkrun's keys that prepare, surround or measure the server instead of describing it.
_LEFT_OUT = frozenset(data_table("sparkrun_left_out"))

# The defaults of sparkrun whose names are not vLLM's.
_SPARKRUN_FLAGS = {"tensor_parallel": "tensor_parallel_size", "pipeline_parallel": "pipeline_parallel_size"}

# What sparkrun's defaults say of a service, whichever engine serves it.
_OF_ANY_ENGINE = frozenset(data_table("sparkrun_of_any_engine"))

# All projects serve by vLLM, sparkrun by others too.
ENGINE = ENGINES[DEFAULT].spec
# Local names that eugr's build script gives to what it pulls from the registry.
_EUGR_IMAGES = {"vllm-node": "eugr/spark-vllm:latest", "vllm-node-b12x": "eugr/spark-vllm-b12x:latest"}

# Mods whose effect we have by other means; every other one is a patch of the image that a recipe can't carry.
_COVERED_MODS: Mapping[str, str] = data_table("eugr_covered_mods")
_FILE_FLAGS = ("chat-template", "reasoning-parser-plugin", "tool-parser-plugin")
_SHIPPED_WITH_MODEL = frozenset({"nano_v3_reasoning_parser.py", "super_v3_reasoning_parser.py"})
_OURS = frozenset(data_table("vllm_decided_flags"))
# What eugr's build adds, and a part of the names of the images that have it.
_BUILT: Mapping[str, str] = data_table("eugr_build_args")
_COMMIT = re.compile("[0-9a-f]{40}")


# A sentence has the words of a file that others wrote.
_MOST_WORDS = 500
_MOST_SUMMARY = 200


def import_recipe(source: object, name: str) -> tuple[RecipeData | None, list[Finding]]:
    """Return our recipe, named ``name``, and all that could not be carried over; no recipe where an error prevents it.

    source: the other recipe's content as YAML gives it.
    """
    if not isinstance(source, Mapping):
        expected = "a recipe of eugr, sparkrun, NVIDIA or vLLM, a compose file or a docker run line"
        return None, [error("import-format", name, found=describe(source), expected=expected)]
    if isinstance(source.get("status"), Mapping) and isinstance(source.get("image"), Mapping):
        return _of_ours(source, name)
    try:
        project, source = as_known(source)
    except FleetError as problem:
        return None, [replace(finding, at=Place(thing=name)) for finding in problem.findings]
    if isinstance(text := source.get("command"), str):
        variables, command, before = read_script(text)
        env = source.get("env", {})
        source = {**source, "command": command, "env": env | variables if isinstance(env, dict) else env}
        source |= {"pre_exec": before} if before else {}
    is_sparkrun = bool({"runtime", "metadata", "model_revision", "min_nodes"} & source.keys())
    spec = _SPARKRUN if is_sparkrun else _EUGR
    known = {key: value for key, value in source.items() if key in spec}
    theirs, findings = check({"type": "map", "options": spec}, known, name)
    findings += _unknown_keys(source, spec, name)
    if any(finding.severity == "error" for finding in findings):
        return None, ordered(findings)
    written = _convert(theirs, name, project or ("sparkrun" if is_sparkrun else "eugr"), findings)
    if written is None:
        if not any(finding.severity == "error" for finding in findings):
            findings.append(worded.error("import-format/model", f"{name}.model"))
        return None, ordered(findings)
    recipe, problems = parse(written, Place(recipe=name, thing=name))
    if recipe is not None and findings:
        recipe["status"]["left_out"] = left_out(findings)
    return recipe, ordered([*findings, *problems])


def left_out(findings: list[Finding]) -> list[str]:
    """What a recipe keeps of the sentences of its import."""
    return [one_line(finding.sentence(), _MOST_WORDS) for finding in ordered(findings)]


def _of_ours(source: Mapping[Any, Any], name: str) -> tuple[RecipeData | None, list[Finding]]:
    """A recipe in our form. That it was tested is not our word, and the rules that its author silences speak here."""
    status: Mapping[Any, Any] = source["status"]
    written = {key: value for key, value in source.items() if key not in ("silence", "origin")} | {"name": name}
    if status.get("state") == "tested":
        written["status"] = {**status, "state": "reported"}
    recipe, problems = parse(written, Place(recipe=name, thing=name))
    silenced = source.get("silence") or ()
    found = [warning("import-left-out", f"{name}.silence", found=one_line(str([*silenced])), remedy="see why")]
    return recipe, ordered([*(found if silenced else ()), *problems])


def _unknown_keys(source: Mapping[str, object], spec: Mapping[str, Spec], name: str) -> Iterator[Finding]:
    for key in source:
        if key in spec:
            continue
        severity: Severity = "warning" if key in _LEFT_OUT else "hint"
        place, remedy = f"{name}.{key}", "see that it isn't needed"
        yield finding(severity, "import-left-out", place, found="has no counterpart", remedy=remedy)


def _convert(theirs: Mapping[str, Any], name: str, project: str, findings: list[Finding]) -> dict[str, Any] | None:
    if theirs.get("runtime") in (foreign_llama.RUNTIME, *foreign_python.RUNTIMES):
        return _of_catalogued(theirs, name, project, findings)
    if not theirs.get("runtime", "vllm").removeprefix("eugr-").startswith("vllm") and "model" in theirs:
        theirs = _of_another_engine(theirs, name, findings)
    named, flags = _command(theirs, name, findings)
    repository = theirs.get("model") or named
    if repository is None or any(finding.severity == "error" for finding in findings):
        return None
    ranks = _take_ranks(theirs, flags, name, findings)
    _take_files(flags, name, findings)
    model = _model(theirs, repository, flags, name, findings)
    memory = _memory_wish(flags, project, name)
    _take_planned(flags, name, findings)
    _take_variables(flags, name, findings)
    findings += _mods(theirs["mods"], name)
    return _recipe(theirs, name, project, repository) | {
        "kind": _kind(flags, repository),
        "host_counts": ranks,
        "model": model,
        "image": _image(theirs, name, findings),
        "flags": flags,
        "env": _environment(theirs["env"], ENGINE, name, findings),
        "memory": memory,
    }


def _recipe(theirs: Mapping[str, Any], name: str, project: str, repository: str) -> dict[str, Any]:
    """What a recipe of any engine has."""
    described = theirs.get("description") or theirs.get("metadata", {}).get("description") or theirs.get("name")
    words = " ".join(str(described or repository).split()).rstrip("\\ ") or repository
    status = {
        "state": "reported",
        "by": theirs["validated"].get("by") or f"the author of {project}'s recipe",
        "when": theirs["validated"].get("when"),
        "hardware": "DGX Spark, as its author says",
        "note": "imported; nothing of it was run by us",
    }
    summary = one_line(textwrap.shorten(words, _MOST_SUMMARY, placeholder=" ..."))
    return {"name": name, "summary": summary, "status": status, "sources": [f"{project}, {name}"]}


def _of_catalogued(
    theirs: Mapping[str, Any], name: str, project: str, findings: list[Finding]
) -> dict[str, Any] | None:
    """Of an engine whose options we have a list of."""
    written = _words(theirs, name, findings) if "command" in theirs else None
    if "command" in theirs and written is None:
        return None
    is_llama = theirs["runtime"] == foreign_llama.RUNTIME
    engine = ENGINES[foreign_llama.ENGINE if is_llama else foreign_python.RUNTIMES[theirs["runtime"]].engine]
    found = (foreign_llama if is_llama else foreign_python).served(theirs, written, name)
    if isinstance(found, list):
        findings += found
        return None
    findings += [*found.findings, *_mods(theirs["mods"], name)]
    image = _image(theirs, name, findings)
    facts = {} if is_llama else engine.image_facts(image["reference"])
    image |= {"family": facts.get("family") or "custom", "release": facts.get("release")}
    if is_llama:
        model = {"repository": found.repository} | _revision(theirs, found.repository, found.flags, name, findings)
    else:
        model = _model(theirs, found.repository, found.flags, name, findings, engine)
    return _recipe(theirs, name, project, found.repository) | {
        "engine": engine.spec.name,
        "kind": found.kind,
        "host_counts": found.host_counts,
        "model": model | ({"file": found.file} if found.file else {}),
        "image": {key: value for key, value in image.items() if key != "entrypoint"},
        "flags": found.flags,
        "env": _environment(theirs["env"], engine.spec, name, findings),
    }


def _command(theirs: Mapping[str, Any], name: str, findings: list[Finding]) -> tuple[str | None, dict[str, Any]]:
    """Model and flags from the command, or, where sparkrun writes none, from the defaults."""
    if "command" not in theirs:
        return None, {
            _SPARKRUN_FLAGS.get(key, key).replace("_", "-"): value for key, value in theirs["defaults"].items()
        }
    words = _words(theirs, name, findings)
    if words is None:
        return None, {}
    start = next((at + 2 for at in range(len(words)) if words[at : at + 2] == ["vllm", "serve"]), None)
    if start is None:
        findings.append(worded.error("import-command", f"{name}.command", program="vllm serve"))
        return None, {}
    model, flags = read_flags(words[start:], load())
    flags, conflicts = normal_options(flags, Place(variable=name, option="command"))
    findings += conflicts
    return model, flags


def _words(theirs: Mapping[str, Any], name: str, findings: list[Finding]) -> list[str] | None:
    """The command's, with its values; None, with an error, where it is none."""
    place = f"{name}.command"
    text, missing = _filled(theirs["command"], theirs["defaults"] | {"model": theirs.get("model")})
    for placeholder in missing:
        findings.append(worded.error("import-placeholder", place, name=placeholder))
    try:
        words = words_of(text)  # which is no longer than shlex bears
        parts = shlex.shlex(text.replace("\\\n", " ").strip(), posix=True, punctuation_chars=";|&")
        parts.whitespace_split = True
        if operators := [word for word in parts if set(word) <= set(";|&")]:
            raise ValueError(f"a program with {operators[0]}")
        return words
    except ValueError as cause:
        findings.append(error("import-command", place, found=str(cause), expected="one shell command"))
        return None


def _filled(text: str, values: Mapping[str, object]) -> tuple[str, list[str]]:
    """Put the defaults in place of ``{placeholders}``; doubled braces are single ones, as in Python's format."""
    missing: list[str] = []

    def replacement(match: re.Match[str]) -> str:
        if match[0] in ("{{", "}}"):
            return match[0][0]
        if values.get(match[1]) is None:
            missing.append(match[1])
            return ""
        return str(values[match[1]])

    return re.sub(r"\{\{|\}\}|\{([\w-]+)\}", replacement, text), missing


def _take_ranks(theirs: Mapping[str, Any], flags: dict[str, Any], name: str, findings: list[Finding]) -> list[int]:
    """On how many hosts it may run; the tensor parallel size follows from that."""
    tensor, pipeline = flags.pop("tensor-parallel-size", 1), flags.get("pipeline-parallel-size", 1)
    whole = isinstance(tensor, int) and isinstance(pipeline, int)
    ranks = max(1, tensor * pipeline if whole else 1, theirs.get("min_nodes", 1))
    if pipeline == 1:
        flags.pop("pipeline-parallel-size", None)
    if theirs["solo_only"] or theirs.get("max_nodes") == 1:
        if ranks > 1:
            findings.append(worded.hint("import-solo", f"{name}.solo_only", ranks=ranks))
        return [1]
    return [ranks] if theirs["cluster_only"] or theirs.get("min_nodes", 1) > 1 else sorted({1, ranks})


def _take_planned(flags: dict[str, object], name: str, findings: list[Finding]) -> None:
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
        findings.append(worded.hint("import-planned", f"{name}.command", found=found, remedy=remedy))


def _take_variables(flags: dict[str, object], name: str, findings: list[Finding]) -> None:
    """A variable of their shell says nothing here."""
    for flag, value in [*flags.items()]:
        if re.search(r"\$[A-Za-z_{]", str(value)):
            findings.append(worded.warning("import-variable", f"{name}.command", found=f"{flag} {flags.pop(flag)}"))


def _take_files(flags: dict[str, object], name: str, findings: list[Finding]) -> None:
    """Options that name a file beside the other project's recipe: from the checkpoint; or left out and named, so that
    the recipe is of use without it."""
    for flag in _FILE_FLAGS:
        written = flags.get(flag)
        if not isinstance(written, str) or "{" in written:
            continue
        file = written.rsplit("/", maxsplit=1)[-1]
        if file in _SHIPPED_WITH_MODEL:
            flags[flag] = f"{{model_path}}/{file}"
        elif not written.startswith("/"):
            flags.pop(flag)
            findings.append(worded.warning("import-file", f"{name}.command", flag=flag, file=file))


def _memory_wish(flags: Mapping[str, object], project: str, name: str) -> dict[str, Any]:
    """The author's share of the memory: the plan stays below it. And his pool, which one rank had."""
    share, fixed = flags.get("gpu-memory-utilization"), flags.get("gpu-memory-utilization-gb")
    if isinstance(fixed, int | float) and not isinstance(fixed, bool):  # eugr's mod gpu-mem-util-gb
        share = round(min(1.0, fixed * 2**20 / fact("hardware", "memory_total_kib")), 4)
    source = f"{project}, {name}"
    wish: dict[str, Any] = {}
    if isinstance(share, int | float) and not isinstance(share, bool) and 0 < share <= 1:
        wish["utilization"] = {"max": share, "source": source}
    if pool := quantity(flags.get("kv-cache-memory-bytes")):
        wish["kv_bytes_max"] = {"value": pool, "source": source}
    return wish


def _kind(flags: Mapping[str, object], repository: str) -> str:
    """vLLM runs a reranker or an embedder as such by its architecture, which its name tells."""
    pools = flags.get("runner") == "pooling" or flags.get("task") in ("embed", "score", "classify", "reward")
    if "rerank" in repository.lower():
        return "rerank"
    return "embed" if pools or re.search("embed(ding)?", repository.lower()) else CHAT


def _of_another_engine(theirs: Mapping[str, Any], name: str, findings: list[Finding]) -> dict[str, Any]:
    """What holds for a model whatever serves it; options, variables and image of another engine don't."""
    runtime = theirs["runtime"]
    findings.append(worded.warning("import-runtime", f"{name}.runtime", runtime=runtime))
    facts = model_of({}, theirs["model"])
    defaults = {key: value for key, value in theirs["defaults"].items() if key in _OF_ANY_ENGINE}
    if facts.tool_parsers:
        defaults |= {"enable_auto_tool_choice": True, "tool_call_parser": facts.tool_parsers[0]}
    if facts.reasoning_parser:
        defaults["reasoning_parser"] = facts.reasoning_parser
    kept = {key: value for key, value in theirs.items() if key != "command"}
    image = f"{fact('image', 'reference')}@{fact('image', 'digest')}"
    return {**kept, "defaults": defaults, "env": {}, "mods": [], "container": image}


def _mods(mods: list[str], name: str) -> Iterator[Finding]:
    for mod in mods:
        short = mod.rstrip("/").rsplit("/", maxsplit=1)[-1]
        if short in _COVERED_MODS:
            yield hint("import-mod", f"{name}.mods", found=short, remedy=f"nothing: {_COVERED_MODS[short]}")
        else:
            remedy = "use an image that has the change, or declare the changed files as overlays"
            yield worded.warning("import-mod/patch", f"{name}.mods", remedy=remedy, short=short)


def _model(
    theirs: Mapping[str, Any],
    repository: str,
    flags: dict[str, Any],
    name: str,
    findings: list[Finding],
    engine: Engine = ENGINES[DEFAULT],
) -> dict[str, Any]:
    model: dict[str, Any] = {"repository": repository, "config": config_name(repository)}
    if model["config"] is None:
        findings.append(worded.hint("import-config/shape", f"{name}.model", repository=repository))
    model |= _revision(theirs, repository, flags, name, findings)
    written = str(flags.get("quantization") or theirs.get("metadata", {}).get("quantization") or "").lower()
    if written in MODEL["options"]["quantization"]["choices"]:
        model["quantization"] = written
    findings += _drafter_of_theirs(flags, name)
    draft = engine.draft(flags)
    if draft:
        speculation = flags.get("speculative-config")
        asked = speculation if isinstance(speculation, dict) else {}
        model["draft"] = {"repository": draft} | _revision(theirs, draft, asked, name, findings)
    return model


def _drafter_of_theirs(flags: Mapping[str, object], name: str) -> Iterator[Finding]:
    """A drafter by a folder on its author's machine: a known one of that name, from the hub."""
    speculation = flags.get("speculative-config")
    asked = speculation if isinstance(speculation, dict) else {}
    written = asked.get("model")
    if isinstance(written, str) and written.startswith(("/", "~", ".", "$")):
        remedy = "write it as model in flags.speculative-config, and as model.draft.repository"
        if known := drafter_named(written.rstrip("/").rsplit("/", maxsplit=1)[-1]):
            asked["model"] = known
            remedy = f"see that it is {known}, which is taken for its name"
        yield worded.warning("import-drafter", f"{name}.command", written=written, remedy=remedy)


def _revision(
    theirs: Mapping[str, Any], repository: str, options: dict[str, Any], name: str, findings: list[Finding]
) -> dict[str, str]:
    """The commit of a model or drafter, as the recipe pins it: for itself, in the command, or for what it hands out.

    options: of the command, or of the drafter; the plan names the commit that is staged by itself.
    """
    handed_out = theirs.get("distribution_config", {}).get("models", {})
    entries = handed_out.get("entries") if isinstance(handed_out, Mapping) else None
    pins = [theirs.get("model_revision") if repository == theirs.get("model") else None, options.pop("revision", None)]
    for entry in entries if isinstance(entries, list) else ():
        named = str(entry.get("name")) if isinstance(entry, Mapping) else ""
        if named == repository or (named == "{model}" and repository == theirs.get("model")):
            pins.append(entry.get("revision"))
    written = [str(pin) for pin in pins if pin is not None]
    if commit := next(filter(_COMMIT.fullmatch, written), None):
        return {"revision": commit}
    findings += [worded.warning("import-revision", f"{name}.model_revision", found=pin) for pin in written[:1]]
    return {}


def _image(theirs: Mapping[str, Any], name: str, findings: list[Finding]) -> dict[str, Any]:
    written = theirs["container"]
    reference, _, digest = _EUGR_IMAGES.get(written, written).partition("@")
    if ":" not in reference.rsplit("/", maxsplit=1)[-1]:
        reference += ":latest"
    facts = image_of(reference)
    family = facts.family
    image: dict[str, Any] = {"reference": reference, "family": family, "release": facts.vllm}
    if digest:
        image["digest"] = digest
    if "/" not in reference:
        findings.append(worded.warning("import-image", f"{name}.container", written=written))
    if family == "custom":
        image["entrypoint"] = "/usr/bin/env"
    for argument in theirs.get("build_args", []):
        if argument in _BUILT and _BUILT[argument] in reference:
            continue
        findings.append(worded.warning("import-build", f"{name}.build_args", found=argument))
    return image


def _environment(
    theirs: Mapping[str, object], engine: EngineSpec, name: str, findings: list[Finding]
) -> dict[str, str]:
    environment: dict[str, str] = {}
    for key, value in theirs.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        place = f"{name}.env.{key}"
        if key in secrets(engine):
            findings.append(worded.warning("import-secret", place))
        elif remedies := [why for pattern, why in planned_env(engine).items() if fnmatch(key, pattern)]:
            found, remedy = f"{key} {text}", remedies[0].partition("; ")[2]
            findings.append(worded.hint("import-planned", place, found=found, remedy=remedy))
        elif "$" in text:
            findings.append(worded.warning("import-variable", place, found=text))
        else:
            environment[key] = text
    return environment
