# SPDX-License-Identifier: GPL-3.0-or-later
"""What each vLLM release knows: options of `vllm serve`, environment variables, registered names.

Made from the releases' own packages by the extractor (`catalogue.extract`), kept as ``data/vllm_catalogue.json``:
one line for an entry and the releases that it holds for, so that a new release shows as a readable difference.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from ...._base.received import LINE
from ...._base.schema import Spec
from .version import Range, as_range, neighbours, parse, parse_range

# Options whose choices are a registry.
_CHOICES = {
    "--kv-cache-dtype": "kv_cache_dtype",
    "--linear-backend": "linear_backend",
    "--moe-backend": "moe_backend",
    "--reasoning-parser": "reasoning_parser",
    "--spec-method": "speculative_method",
}

_NAME: Spec = {"type": "str", "min": 1, "max": 200, "pattern": LINE, "expected": "text on one line"}
_TEXT: Spec = {**_NAME, "min": 0, "max": 2000}
_NAMES: Spec = {"type": "list", "max": 1000, "elements": _NAME}
_YES_NO: Spec = {"type": "bool"}
_ENTRY: dict[str, Spec] = {
    **{key: {**_NAME, "required": True} for key in ("name", "in")},
    **dict.fromkeys(("type", "deprecated"), _TEXT),
    "folded": _YES_NO,
    "default": {"any_of": [_YES_NO, {"type": "number"}, _TEXT]},
}
_OPTION: Spec = {
    "type": "map",
    "options": {
        **_ENTRY,
        **dict.fromkeys(("aliases", "negations"), _NAMES),
        **dict.fromkeys(("optional", "repeatable", "strict"), _YES_NO),
        "nargs": {"any_of": [{"type": "int"}, _NAME]},
        "choices": {"type": "str", "choices": ["choices", "suggested"]},
    },
}
_VARIABLE: Spec = {"type": "map", "options": {**_ENTRY, "choices": _NAMES}}
_MANY = 20000
# What `catalogue.store` writes of releases, or of one image's build.
STORED: Spec = {
    "type": "map",
    "expected": "what gb10.fleet.vllm_catalogue_info returns",
    "options": {
        "releases": {"type": "list", "required": True, "min": 1, "max": 1000, "elements": _NAME},
        "options": {"type": "list", "required": True, "max": _MANY, "elements": _OPTION},
        "variables": {"type": "list", "required": True, "max": _MANY, "elements": _VARIABLE},
        "registries": {
            "type": "map",
            "required": True,
            "max": 1000,
            "keys": _NAME,
            "values": {"type": "map", "max": _MANY, "keys": _NAME, "values": _NAME},
        },
    },
}

DATA = Path(__file__).resolve().parents[5] / "data" / "vllm_catalogue.json"


@dataclass(frozen=True)
class Option:
    """One option of `vllm serve`.

    type: switch (no value, can be negated), flag (no value), int, float, str, size (1k, 2M), size-auto (or `auto`),
    json, json-or-text. nargs: as argparse has it. choices: enforced by the parser; suggested: only shown. optional:
    `None` is a value. folded: the value's case and its `-` or `_` don't matter. keys: of its JSON value; strict: others
    are refused. default: where the source says it. deprecated: the release's own words.
    """

    name: str
    aliases: tuple[str, ...] = ()
    negations: tuple[str, ...] = ()
    type: str = "str"
    nargs: str | int | None = None
    choices: tuple[str, ...] = ()
    suggested: tuple[str, ...] = ()
    optional: bool = False
    folded: bool = False
    repeatable: bool = False
    default: str | int | float | bool | None = None
    deprecated: str = ""
    keys: tuple[str, ...] = ()
    strict: bool = False

    @property
    def takes_value(self) -> bool:
        return self.type not in ("switch", "flag")


@dataclass(frozen=True)
class Variable:
    """One environment variable of `vllm.envs`: type as annotated there, choices where it refuses others."""

    name: str
    type: str = ""
    choices: tuple[str, ...] = ()
    folded: bool = False
    default: str | int | float | bool | None = None
    deprecated: str = ""


@dataclass(frozen=True)
class Release:
    """One release, or one image's own build.

    registries: reasoning_parser, tool_call_parser, quantization, attention_backend, moe_backend, linear_backend,
    load_format, kv_cache_dtype, speculative_method, speculative_config (its JSON keys), architecture.
    """

    version: str
    options: Mapping[str, Option]
    variables: Mapping[str, Variable]
    registries: Mapping[str, tuple[str, ...]]

    @cached_property
    def spellings(self) -> Mapping[str, tuple[Option, bool]]:
        """Every option string: its option, and whether it switches it off."""
        found: dict[str, tuple[Option, bool]] = {}
        for option in self.options.values():
            found |= dict.fromkeys((option.name, *option.aliases), (option, False))
            found |= dict.fromkeys(option.negations, (option, True))
        return found


class Catalogue:
    """Every known release. The stored form is expanded for a release when it is asked for.

    stored: of the form `STORED`. ValueError where it names a range of releases that is none.
    """

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self.releases: tuple[str, ...] = tuple(stored["releases"])
        self._options: Sequence[Mapping[str, Any]] = stored["options"]
        self._variables: Sequence[Mapping[str, Any]] = stored["variables"]
        self._registries: Mapping[str, Mapping[str, str]] = stored["registries"]
        self._expanded: dict[str, Release] = {}

    def release(self, version: str) -> Release:
        """A release by its exact number; KeyError if the catalogue doesn't hold it (see `nearest`)."""
        if version not in self.releases:
            raise KeyError(version)
        if version not in self._expanded:
            self._expanded[version] = self._expand(version)
        return self._expanded[version]

    def nearest(self, version: str) -> tuple[Release, ...]:
        """The release that a build is, or the two that it lies between; empty if the text is no usable version."""
        build = parse(version)
        return tuple(self.release(text) for text in neighbours(build, self.releases)) if build else ()

    @property
    def newest(self) -> Release:
        return self.release(self.releases[-1])

    @cached_property
    def any_options(self) -> Mapping[str, Option]:
        """Options by their spelling in the oldest or the newest release, to know which of them have a value."""
        known = {**self.release(self.releases[0]).spellings, **self.newest.spellings}
        return {spelling: option for spelling, (option, _) in known.items()}

    def option_range(self, spelling: str) -> Range | None:
        """The releases that accept an option string, an alias or a negation; None if none does."""
        return self._united(self._option_texts.get(spelling, ()))

    def variable_range(self, name: str) -> Range | None:
        """The releases that know an environment variable; None if none does."""
        return self._united(self._variable_texts.get(name, ()))

    def name_range(self, registry: str, name: str) -> Range | None:
        """The releases in which a registry holds a name; None if none does."""
        text = self._registries.get(registry, {}).get(name)
        return None if text is None else parse_range(text)

    @cached_property
    def _option_texts(self) -> Mapping[str, Sequence[str]]:
        return _grouped((spelling, row["in"]) for row in self._options for spelling in _spellings(row))

    @cached_property
    def _variable_texts(self) -> Mapping[str, Sequence[str]]:
        return _grouped((row["name"], row["in"]) for row in self._variables)

    def _united(self, texts: Sequence[str]) -> Range | None:
        """One range out of those of an entry's rows, which differ in attributes."""
        ranges = [parse_range(text) for text in texts]
        present = [any(release in found for found in ranges) for release in self.releases]
        return parse_range(as_range(present, self.releases)) if ranges else None

    def _expand(self, version: str) -> Release:
        registries = {
            registry: tuple(name for name, text in names.items() if version in parse_range(text))
            for registry, names in self._registries.items()
        }
        options = [_option(row, registries) for row in self._options if version in parse_range(row["in"])]
        variables = [_variable(row) for row in self._variables if version in parse_range(row["in"])]
        return Release(
            version,
            {option.name: option for option in options},
            {variable.name: variable for variable in variables},
            {name: values for name, values in registries.items() if not name.startswith("--")},
        )


def _spellings(row: Mapping[str, Any]) -> Iterable[str]:
    return (row["name"], *row.get("aliases", ()), *row.get("negations", ()))


def _grouped(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for name, text in rows:
        texts.setdefault(name, []).append(text)
    return texts


# What a model that pools calls itself, where vLLM serves it by the class of the one that generates
# (vllm/model_executor/models/registry.py, _normalize_arch).
_POOLING = (
    "ForTextEncoding",
    "EmbeddingModel",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForRewardModeling",
    "RewardModel",
    "Model",
)


def classes_of(architecture: str) -> tuple[str, ...]:
    """The names of classes that vLLM serves an architecture by: its own, then that of the model that generates."""
    stem = next((architecture.removesuffix(end) for end in _POOLING if architecture.endswith(end)), None)
    return (architecture,) if stem is None else (architecture, f"{stem}ForCausalLM", f"{stem}ForConditionalGeneration")


def choices_of(option: str) -> str:
    """The stored registry that holds an option's choices: one of vLLM's own, or one by the option's name."""
    return _CHOICES.get(option, option)


def keys_of(option: str) -> str:
    """The stored registry that holds the keys of an option's JSON value."""
    return option + " keys"


def _option(row: Mapping[str, Any], registries: Mapping[str, tuple[str, ...]]) -> Option:
    option = Option(
        row["name"],
        tuple(row.get("aliases", ())),
        tuple(row.get("negations", ())),
        **{
            key: row[key]
            for key in ("type", "nargs", "optional", "folded", "repeatable", "default", "deprecated", "strict")
            if key in row
        },
    )
    names = registries.get(choices_of(option.name), ())
    return replace(
        option,
        choices=names if row.get("choices") == "choices" else (),
        suggested=names if row.get("choices") == "suggested" else (),
        keys=registries.get(keys_of(option.name), ()),
    )


def _variable(row: Mapping[str, Any]) -> Variable:
    attributes = {key: value for key, value in row.items() if key != "in"}
    return Variable(**(attributes | {"choices": tuple(row.get("choices", ()))}))


@lru_cache(maxsize=1)
def load() -> Catalogue:
    """The collection's own catalogue, read once a process."""
    return Catalogue(json.loads(DATA.read_text(encoding="utf-8")))
