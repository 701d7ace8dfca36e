# SPDX-License-Identifier: GPL-3.0-or-later
"""A recipe for a model that nobody wrote one for, from its checkpoint; and the same as a file for its owner to edit."""

import json
import re
from collections.abc import Iterator, Mapping

from ..._base import worded
from ..._base.findings import Finding, error
from ..._base.gb10 import facts
from ..._base.place import Place
from ..._base.sizes import size
from ..._facts.models.checkpoint import Checkpoint
from ..._facts.models.config import ConfigJson
from ..._facts.models.gguf_files import meant, sizes_to_name
from ..._facts.models.other_forms import drafter_form
from ..declaration import RecipeData
from ..registry import DEFAULT, ENGINES
from .recipe import parse

DERIVED = "derived"


def name_of(repository: str) -> str:
    """A recipe's name for a model: its own without the organisation, in the letters that a recipe's name has."""
    plain = re.sub(r"[^a-z0-9.-]+", "-", repository.rpartition("/")[2].lower()).strip("-.")
    return plain[:80] or "model"


def derive(
    checkpoint: Checkpoint, *, file: str | None = None, names_image: bool = False, names_template: bool = False
) -> tuple[RecipeData | None, list[Finding]]:
    """A recipe with its defaults filled in, and what stands against the model; None where it can't be served.

    file: the GGUF file or its size, where it is named. names_image, names_template: the service brings its own.
    """
    repository, engine = checkpoint["repository"], DEFAULT
    if (made := str(checkpoint["task"]).rpartition("-to-")[2]) in _MADE:
        return None, [worded.error("model-task", Place(thing=f"model {repository}"), made=made)]
    if file or (checkpoint["gguf"] and not checkpoint["weights_bytes"]):
        found = meant(checkpoint["gguf"], file)
        if len(found) != 1:
            return None, [_unclear(checkpoint, file)]
        engine = next(name for name, one in ENGINES.items() if one.spec.single_files)
        several = file is None and len([*sizes_to_name(checkpoint["gguf"])]) > 1
        checkpoint = {**checkpoint, "file": found[0], "unnamed": several}
    elif drafter := drafter_form(repository, ConfigJson(checkpoint["config"])):
        return None, [error("model-drafter", Place(thing=f"model {repository}"), **drafter._asdict())]
    proposal, findings = ENGINES[engine].propose(checkpoint, names_image, names_template)
    if proposal is None or any(finding.severity == "error" for finding in findings):
        return None, findings
    written = {
        "name": name_of(repository),
        "summary": f"{repository}, derived from its {'file' if proposal.model else 'config.json'}",
        "kind": proposal.kind,
        "engine": engine,
        "model": {
            "repository": repository,
            "revision": checkpoint["revision"],
            "weights_bytes": checkpoint["weights_bytes"],
            "quantization": proposal.quantization,
            "gated": checkpoint["gated"],
            **proposal.model,
        },
        "image": {**proposal.image},
        "flags": {**proposal.flags},
        "reasons": {**proposal.reasons},
        "status": {
            "state": DERIVED,
            "by": "gb10.fleet, from tables",
            "hardware": "on no machine yet",
            "note": "nobody has shown it on a DGX Spark",
        },
        "sources": [checkpoint["source"]],
    }
    recipe, problems = parse(written, Place(thing=f"model {repository}"))
    return recipe, [*findings, *problems]


# What no engine here makes of a text.
_MADE = ("image", "video", "audio", "speech", "3d")


def _unclear(checkpoint: Checkpoint, file: str | None) -> Finding:
    repository, files = checkpoint["repository"], checkpoint["gguf"]
    names = [*sizes_to_name(files)]
    several = ", ".join(f"{name} ({size(files[of])})" for name, of in names[:_MOST_NAMED])
    if len(names) > _MOST_NAMED:
        several += f" and {len(names) - _MOST_NAMED} more"
    named = f'"{file}", which is ' if file else ""
    which = f"none of {several}" if file and not meant(files, file) else f"several files: {several}"
    name = names[0][0] if names else ""
    model = f"{{repository: {repository}, file: {name}}}" if name.endswith(".gguf") else f"{repository}:{name}"
    found = f"{named}{which}" if names else "no GGUF file of a model"
    remedy = f"write model: {model}" if names else "name the repository without a size, or another repository"
    return worded.error("model-gguf", Place(thing=f"model {repository}"), found=found, remedy=remedy)


_MOST_NAMED = 12


def as_file(recipe: RecipeData, checkpoint: Checkpoint, config: str | None) -> str:
    """The recipe as YAML, each value with its reason as a comment. config: the name of config.json beside it."""
    return "\n".join(_lines(recipe, checkpoint, config)) + "\n"


def _lines(recipe: RecipeData, checkpoint: Checkpoint, config: str | None) -> Iterator[str]:
    model, image, source = recipe["model"], recipe["image"], checkpoint["source"]
    yield "---"
    yield f"# Derived from {source}. Edit it: it is yours. docs/how-to/recipes.md says what each key means."
    yield f"name: {_word(recipe['name'])}"
    yield f"summary: {_word(model['repository'] + ', derived from its config.json')}"
    yield f"kind: {recipe['kind']}  # {_why_kind(checkpoint)}"
    yield f"engine: {recipe['engine']}"
    yield "host_counts: [1]  # on how many hosts somebody has shown it; others are planned with a warning"
    yield "model:"
    yield f"  repository: {_word(model['repository'])}"
    yield f"  revision: {_word(model['revision'])}  # the commit that was read; what is served stays the same"
    yield f"  config: {_word(config)}  # configs/{config}.json: what the KV cache is sized by"
    yield from (f"  {key}: {_word(model[key])}" for key in ("file", "mmproj") if key in model)
    of_size = f"  # {size(model['weights_bytes'])}, all its files" if model["weights_bytes"] else ""
    yield f"  weights_bytes: {_word(model['weights_bytes'])}{of_size}"
    yield f"  quantization: {_word(model['quantization'])}  # as config.json names it"
    if isinstance(model["source"], Mapping):
        yield f"  source: {_word(model['source'])}  # where it lies on its hosts"
    yield f"  gated: {_word(model['gated'])}  # true: staging needs a token of the hub"
    yield "image:"
    for key in ("reference", "digest", "family", "release"):
        known = facts()["image" if recipe["engine"] == DEFAULT else "llama_cpp_image"][key]
        reason = (
            known["reason"]
            if known["value"] == image[key]
            else "the first release with this architecture, or the first whose cache is sized"
        )
        yield f"  {key}: {_word(image[key])}  # {reason}"
    yield "flags:" if recipe["flags"] else "flags: {}"
    for key, value in recipe["flags"].items():
        yield f"  {key}: {_word(value)}  # {recipe['reasons'][key]}"
    yield "status:"
    yield "  state: derived  # write reported or tested, by whom and when, once it has run"
    status = recipe["status"]
    yield from (f"  {key}: {_word(status.get(key))}" for key in ("by", "hardware", "note"))
    yield "sources:"
    yield f"  - {_word(source)}"


def _why_kind(checkpoint: Checkpoint) -> str:
    task = checkpoint["task"]
    return f"the hub calls its task {task}" if task else "by its architecture; the hub names no task"


def _word(value: object) -> str:
    """A value as YAML reads it back: JSON is YAML, and plain words need no quotes."""
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w./:@-]*[\w/]", value)
    if (
        plain
        and isinstance(value, str)
        and value.lower() not in ("true", "false", "yes", "no", "on", "off", "null")
        and ": " not in value
    ):
        return value
    return json.dumps(value, ensure_ascii=False)
