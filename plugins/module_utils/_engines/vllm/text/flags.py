# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of ``vllm serve`` as a map of flags: written as arguments, and read from a written command."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..catalogue.releases import Catalogue, Option
from .command import Given, read_command, spelling_of


def flags_to_argv(flags: Mapping[str, object]) -> list[str]:
    """Options of ``vllm serve`` as arguments, sorted by name, for a process and not for a shell.

    True is the bare option, False its ``--no-`` form, a list several arguments after one option, a map one JSON
    argument, None nothing. Numbers and texts are written as they are.
    """
    return [argument for name in sorted(flags) for argument in _arguments(name, flags[name])]


def _arguments(name: str, value: object) -> list[str]:
    match value:
        case None:
            return []
        case True:
            return [f"--{name}"]
        case False:
            return [f"--no-{name}"]
        case list():
            return [f"--{name}", *map(_as_text, value)]
    text = _as_text(value)
    # argparse takes a word that begins with a dash for the next option
    return [f"--{name}={text}"] if text.startswith("-") else [f"--{name}", text]


def _as_text(value: object) -> str:
    if isinstance(value, Mapping | list | bool):
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    return str(value)


def read_flags(words: Sequence[str], catalogue: Catalogue) -> tuple[str | None, dict[str, Any]]:
    """The model and the flags of the words after ``vllm serve``, of an unknown release; repeats become a list.

    Options that the newest release has are read as it reads them. Any other takes the words up to the next option.
    """
    unknown = {spelling: Option(spelling, nargs="*") for spelling in map(spelling_of, words)}
    command = read_command(words, catalogue.newest, {**unknown, **catalogue.any_options})
    flags: dict[str, Any] = {}
    for given in command.given:
        _add(flags, given)
    model = flags.pop("model", None) or next(iter(command.positional), None)
    return model, flags


def _add(flags: dict[str, Any], given: Given) -> None:
    name = given.name.lstrip("-") + (f".{given.path}" if given.path else "")
    words = (*given.values, *([] if given.surplus is None else [given.surplus]))
    # a list would be several words again
    values = [word if word.startswith("[") and not given.path else _value(word) for word in words]
    if not values and given.option is None and name.startswith("no-"):
        flags[name.removeprefix("no-")] = False
    elif not values:
        flags[name] = given.on
    elif name in flags and (given.option is None or given.option.repeatable):
        earlier = flags[name] if isinstance(flags[name], list) else [flags[name]]
        flags[name] = [*earlier, *values]
    else:
        flags[name] = values[0] if len(values) == 1 else values


def _value(word: str) -> Any:
    if re.fullmatch(r"-?\d{1,18}", word):
        return int(word)
    if re.fullmatch(r"-?\d{1,18}\.\d{1,18}", word):
        return float(word)
    if word.startswith(("{", "[")):
        try:
            return json.loads(word)
        except (ValueError, RecursionError):
            return word
    return word


def draft_repository(flags: Mapping[str, object]) -> str | None:
    """The hub's id of the separate draft model that the flags ask for, if they do."""
    speculation = flags.get("speculative-config")
    named = speculation.get("model") if isinstance(speculation, Mapping) else None
    return named if isinstance(named, str) and re.fullmatch(r"[\w.-]+/[\w.-]+", named) else None
