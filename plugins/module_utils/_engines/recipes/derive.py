# SPDX-License-Identifier: GPL-3.0-or-later
"""A recipe for a model that nobody wrote one for, from its checkpoint; and the same as a file for its owner to edit."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..._base.findings import Finding
from ..._base.gb10 import facts
from ..._base.place import Place
from ..._base.sizes import size
from ..declaration import RecipeData
from ..registry import DEFAULT, ENGINES
from .recipe import parse

DERIVED = "derived"


def name_of(repository: str) -> str:
    """A recipe's name for a model: its own without the organisation, in the letters that a recipe's name has."""
    plain = re.sub(r"[^a-z0-9.-]+", "-", repository.rpartition("/")[2].lower()).strip("-.")
    return plain[:80] or "model"


def derive(
    checkpoint: Mapping[str, Any], *, names_image: bool = False, names_template: bool = False
) -> tuple[RecipeData | None, list[Finding]]:
    """A recipe with its defaults filled in, and what stands against the model; None where it can't be served.

    names_image, names_template: the service brings its own.
    """
    repository = checkpoint["repository"]
    proposal, findings = ENGINES[DEFAULT].propose(checkpoint, names_image, names_template)
    if proposal is None or any(finding.severity == "error" for finding in findings):
        return None, findings
    written = {
        "name": name_of(repository),
        "summary": f"{repository}, derived from its config.json",
        "kind": proposal.kind,
        "model": {
            "repository": repository,
            "revision": checkpoint["revision"],
            "weights_bytes": checkpoint["weights_bytes"],
            "quantization": proposal.quantization,
            "gated": checkpoint["gated"],
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
    # its image is known by its digest alone where the collection has one
    findings += [one for one in problems if one.severity == "error" or one.rule != "recipe-unpinned-image"]
    return recipe, findings


def as_file(recipe: RecipeData, checkpoint: Mapping[str, object], config: str | None) -> str:
    """The recipe as YAML, each value with its reason as a comment. config: the name of config.json beside it."""
    return "\n".join(_lines(recipe, checkpoint, config)) + "\n"


def _lines(recipe: RecipeData, checkpoint: Mapping[str, Any], config: str | None) -> Iterator[str]:
    model, image, source = recipe["model"], recipe["image"], checkpoint["source"]
    yield "---"
    yield f"# Derived from {source}. Edit it: it is yours. docs/recipes.md says what each key means."
    yield f"name: {_word(recipe['name'])}"
    yield f"summary: {_word(model['repository'] + ', derived from its config.json')}"
    yield f"kind: {recipe['kind']}  # {_why_kind(checkpoint)}"
    yield "host_counts: [1]  # on how many hosts somebody has shown it; others are planned with a warning"
    yield "model:"
    yield f"  repository: {_word(model['repository'])}"
    yield f"  revision: {_word(model['revision'])}  # the commit that was read; what is served stays the same"
    yield f"  config: {_word(config)}  # configs/{config}.json: what the KV cache is sized by"
    of_size = f"  # {size(model['weights_bytes'])}, all safetensors files" if model["weights_bytes"] else ""
    yield f"  weights_bytes: {_word(model['weights_bytes'])}{of_size}"
    yield f"  quantization: {_word(model['quantization'])}  # as config.json names it"
    if isinstance(model["source"], Mapping):
        yield f"  source: {_word(model['source'])}  # where it lies on its hosts"
    yield f"  gated: {_word(model['gated'])}  # true: staging needs a token of the hub"
    yield "image:"
    for key in ("reference", "digest", "family", "release"):
        known = facts()["image"][key]
        reason = known["reason"] if known["value"] == image[key] else "the first release that has this architecture"
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


def _why_kind(checkpoint: Mapping[str, Any]) -> str:
    task = checkpoint["task"]
    return f"the hub calls its task {task}" if task else "by its architecture; the hub names no task"


def _word(value: Any) -> str:
    """A value as YAML reads it back: JSON is YAML, and plain words need no quotes."""
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w./:@-]*[\w/]", value)
    if plain and value.lower() not in ("true", "false", "yes", "no", "on", "off", "null") and ": " not in value:
        return str(value)
    return json.dumps(value, ensure_ascii=False)
