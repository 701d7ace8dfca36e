# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of a model once, before it is anywhere: from the hub's answers, or from a folder that holds it.

``CHECKPOINT`` is its shape, on its way in and in the file that is kept of it.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, NotRequired, TypedDict

from ..._base.findings import FleetError, error
from ..._base.place import Place
from ..._base.received import ANYTHING, Unread, file_name, is_list, is_map, matching, parsed
from ..._base.schema import Spec, check
from .gguf import GgufError, facts_of, projector_of, read_header
from .gguf_files import meant, projector_file, whole_files
from .other_forms import ADAPTER, gguf_form, missing_shards, other_form, weights_of
from .stored import GGUF, shards_of

CONFIG, QUANTIZATION, INDEX = "config.json", "hf_quant_config.json", "model.safetensors.index.json"
TOKENIZER = "tokenizer_config.json"
# The files that are read, and how long each may be: an index names each tensor of a model once, a tokenizer's file may
# hold its added words.
WANTED = {CONFIG: 4 << 20, QUANTIZATION: 4 << 20, INDEX: 64 << 20, TOKENIZER: 16 << 20, ADAPTER: 4 << 20}
_TEMPLATES = ("chat_template.jinja", "chat_template.json")
_MOST_BYTES = 1 << 50
_MOST_FILES = 100_000
# Numbers of layers, heads and experts; sizes of vocabularies and contexts.
_LARGEST = 1 << 40
_DEEPEST = 40

Read = Callable[[int], bytes]
_WORD: Spec = {"type": "str", "nullable": True, "default": None, "pattern": r"[\w.-]{1,80}"}
CHECKPOINT: Spec = {
    "type": "map",
    "options": {
        "repository": {"type": "str", "required": True, "pattern": r"[\w.-]+/[\w.-]+", "max": 200},
        "revision": {"type": "str", "nullable": True, "default": None, "pattern": "[0-9a-f]{40}"},
        "config": {"type": "map", "required": True, "min": 1},
        "quantization": {"type": "map", "default": {}},
        "weights_bytes": {"type": "int", "nullable": True, "default": None, "min": 1, "max": _MOST_BYTES},
        "gated": {"type": "bool", "default": False},
        "task": _WORD,
        "library": _WORD,
        "chat_template": {"type": "bool", "default": False},
        "draft_layers": {"type": "bool", "nullable": True, "default": None},
        "source": {"type": "str", "required": True, "pattern": r"[ -~]{1,300}"},
        # the bytes of such files, by name
        "gguf": {"type": "map", "default": {}, "keys": GGUF, "values": {"type": "int", "min": 0, "max": _MOST_BYTES}},
    },
}
# Of such files the header takes the place of config.json, where it can be read.
_WITHOUT_CONFIG: Spec = {
    **CHECKPOINT,
    "options": {**CHECKPOINT["options"], "config": {"type": "map", "required": True}},
}


class Checkpoint(TypedDict):
    """As the spec above. file: the GGUF file that is wanted; unnamed: whether nobody named it, of several."""

    repository: str
    revision: str | None
    config: dict[str, Any]
    quantization: dict[str, Any]
    weights_bytes: int | None
    gated: bool
    task: str | None
    library: str | None
    chat_template: bool
    draft_layers: bool | None
    source: str
    gguf: dict[str, int]
    file: NotRequired[str]
    unnamed: NotRequired[bool]


_ANSWER: Spec = {
    "type": "map",
    "options": {
        "sha": {"type": "str", "required": True, "pattern": "[0-9a-f]{40}"},
        "siblings": {
            "type": "list",
            "required": True,
            "max": _MOST_FILES,
            "elements": {
                "type": "map",
                "options": {
                    "rfilename": {"type": "str", "required": True, "min": 1, "max": 1000},
                    "size": {"type": "int", "required": True, "min": 0, "max": _MOST_BYTES},
                },
            },
        },
        "pipeline_tag": _WORD,
        "library_name": _WORD,
    },
}


def sizes_of(answer: Unread, repository: str) -> tuple[str, dict[str, int]]:
    """Commit and files, by name with their sizes, of what the hub's API says of a revision. Raises FleetError."""
    words = {key: matching(ANYTHING, answer.get(key)) for key in ("sha", "pipeline_tag", "library_name")}
    known: dict[str, str | list[dict[str, Unread]]] = {key: word for key, word in words.items() if word is not None}
    rows = answer.get("siblings")
    if is_list(rows):
        keys = ("rfilename", "size")
        known["siblings"] = [{key: row[key] for key in keys if key in row} for row in rows if is_map(row)]
    checked, problems = check(_ANSWER, known, Place(thing=f"the hub's answer about {repository}"))
    if problems:
        raise FleetError(*problems)
    sizes: dict[str, int] = {}
    for row in checked["siblings"]:
        with contextlib.suppress(ValueError):  # a hidden file is none that an engine reads
            sizes[file_name(row["rfilename"])] = row["size"]
    return checked["sha"], sizes


def checkpoint_of(
    repository: str,
    revision: str | None,
    sizes: Mapping[str, int],
    texts: Mapping[str, bytes],
    source: str,
    answer: Unread | None = None,
    header: Mapping[str, object] | None = None,
) -> Checkpoint:
    """A checkpoint of what was read. Raises FleetError for what is not in its form.

    sizes: of all files, in bytes. texts: those of `WANTED` that are there. source: where it was read, in words. answer:
    the hub's.
    """
    answered = answer or parsed("{}", 2, "nothing")
    files = whole_files(sizes)
    adapter = _object(texts[ADAPTER], ADAPTER, repository, source) if ADAPTER in texts else None
    other = None if files else other_form(repository, sizes, adapter, answered, CONFIG in texts)
    refusal = error("model-read", f"{repository}, from {source}", **other._asdict()) if other else None
    if refusal and CONFIG not in texts:
        raise FleetError(refusal)
    without = files and CONFIG not in texts and not weights_of(sizes)
    config = {} if without else _object(texts.get(CONFIG), CONFIG, repository, source)
    quantization = _object(texts[QUANTIZATION], QUANTIZATION, repository, source) if QUANTIZATION in texts else {}
    tokenizer = _object(texts[TOKENIZER], TOKENIZER, repository, source) if TOKENIZER in texts else {}
    index = _object(texts[INDEX], INDEX, repository, source) if INDEX in texts else {}
    named = index.get("weight_map")
    shards = {str(file) for file in named.values()} if isinstance(named, Mapping) else set()
    if missing := missing_shards(sizes, shards):
        raise FleetError(
            error(
                "model-read",
                f"{repository}, from {source}",
                found=f"no {missing[0][:100]}{f' and {len(missing) - 1} more' if missing[1:] else ''}",
                expected="each file of weights that its index or the numbers of the others name",
                remedy="name a commit that holds them all, or fetch the folder again",
            )
        )
    raw = {
        "repository": repository,
        "revision": revision,
        "config": {**config, **(header or {})},
        "quantization": quantization,
        "weights_bytes": weights_of(sizes, shards) or None,
        "gated": bool(answered.get("gated")),
        "task": answered.get("pipeline_tag"),
        "library": answered.get("library_name"),
        "chat_template": bool(tokenizer.get("chat_template")) or any(name in sizes for name in _TEMPLATES),
        "draft_layers": _has_draft_layers(index, config),
        "source": source,
        "gguf": files,
    }
    found = require(raw, Place(thing=f"{repository}, from {source}"))
    if refusal:
        raise FleetError(refusal)
    return found


def require(data: object, place: Place) -> Checkpoint:
    """A checkpoint in its shape. Raises FleetError."""
    of_files = isinstance(data, Mapping) and data.get("gguf")
    checked, problems = check(_WITHOUT_CONFIG if of_files else CHECKPOINT, data, place)
    if not problems:
        problems = [*_numbers(checked["config"], place.below("config")), *_numbers(checked["quantization"], place)]
    if problems:
        raise FleetError(*problems)
    found: Checkpoint = checked
    return found


def read_gguf(
    sizes: Mapping[str, int], wanted: str | None, opened: Callable[[str], AbstractContextManager[Read]]
) -> dict[str, Any]:
    """What the header of the wanted file says, where the name is clear; empty where there is none, or where it is not
    what its format is. opened: a reader of a file. Raises FleetError for a file of another kind, as an adapter."""
    files = whole_files(sizes)
    found = meant(files, wanted) if wanted or not weights_of(sizes) else []
    if len(found) != 1:
        return {}
    headers = []
    eye = projector_file(files)
    try:
        for part in [*shards_of(found[0]), *([eye] if eye else [])]:
            with opened(part) as read:
                headers.append(read_header(read))
        if other := gguf_form(headers[0].metadata):
            raise FleetError(error("model-read", found[0], **other._asdict()))
        of_eye = projector_of(headers.pop()) if eye else {}
        return {**facts_of(headers), **of_eye, "file": found[0]}
    except GgufError:
        return {}


def require_of(data: object, model: str, revision: str | None) -> Checkpoint:
    """A checkpoint in its shape, of the model that was asked for: a host has read it, and its answer may name any.

    revision: the commit that was asked for; what lies in a folder has none. Raises FleetError.
    """
    found = require(data, Place(thing=model))
    if found["repository"] == model and found["revision"] in (None, revision):
        return found
    raise FleetError(
        error(
            "model-read",
            Place(thing=model),
            found=f"{found['repository']}, commit {found['revision']}, in a host's answer",
            expected=f"{model}, commit {revision}",
            remedy="look at that host: it answers for another model than it was asked for",
        )
    )


def _has_draft_layers(index: Mapping[str, Any], config: Mapping[str, Any]) -> bool | None:
    """Whether the tensors of its prediction layer came with it; None where there is no list of tensors.

    Qwen's and Nemotron's begin with ``mtp.``; DeepSeek's and GLM's are a layer behind the last.
    """
    names = index.get("weight_map")
    if not isinstance(names, Mapping):
        return None
    text = next((config[key] for key in ("text_config", "llm_config") if isinstance(config.get(key), Mapping)), config)
    layers = text.get("num_hidden_layers")
    behind = f".layers.{layers}."
    return any(str(name).startswith("mtp.") or ".mtp." in str(name) or behind in str(name) for name in names)


def _object(content: bytes | None, name: str, repository: str, source: str) -> dict[str, Any]:
    place = f"{name} of {repository}, from {source}"
    if content is None:
        raise FleetError(
            error(
                "model-read",
                place,
                found="no such file",
                expected="a model in the hub's form: config.json and safetensors; or GGUF files, for llama.cpp",
                remedy="name the repository that holds the model itself",
            )
        )
    try:
        value = json.loads(content.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as problem:
        raise FleetError(_unusable(place, " ".join(str(problem).split())[:200])) from None
    if not isinstance(value, dict):
        raise FleetError(_unusable(place, "no JSON object"))
    return value


def _numbers(value: object, place: Place, depth: int = 0) -> Iterator[Any]:
    """Figures that no model has would make the plan calculate for ever."""
    if depth > _DEEPEST:
        yield _unusable(place, f"maps in each other more than {_DEEPEST} deep")
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield from _numbers(child, place.below(str(key)[:60]) if depth < 4 else place, depth + 1)
    elif isinstance(value, list):
        for child in value:
            yield from _numbers(child, place, depth + 1)
    elif isinstance(value, int) and abs(value) > _LARGEST:
        yield _unusable(place, "a whole number that no model has")


def _unusable(place: Place | str, found: str) -> Any:
    return error(
        "model-read",
        place,
        found=found,
        expected="what a model's publisher writes there",
        remedy="look at the file; a recipe of your own needs none of it",
    )


def _no_number(word: str) -> float:
    if word in ("Infinity", "-Infinity"):
        return 0.0  # a bound of some models' sampling, which nothing here calculates with
    raise ValueError(f"{word} is no number")
