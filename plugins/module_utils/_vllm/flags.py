# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The options of ``vllm serve`` as a map of flags: written as arguments, and read from a written command."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

# vLLM's own short forms (vllm/entrypoints/openai/cli_args.py, vllm/engine/arg_utils.py).
_SHORT = {
    "-ac": "attention-config",
    "-cc": "compilation-config",
    "-dp": "data-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-q": "quantization",
    "-sc": "speculative-config",
    "-tp": "tensor-parallel-size",
    "-O": "optimization-level",
}


def flags_to_argv(flags: Mapping[str, Any]) -> list[str]:
    """Options of ``vllm serve`` as arguments, sorted by name, for a process and not for a shell.

    True is the bare option, False its ``--no-`` form, a list several arguments after one option, a map one JSON
    argument, None nothing. Numbers and texts are written as they are.
    """
    return [argument for name in sorted(flags) for argument in _arguments(name, flags[name])]


def _arguments(name: str, value: Any) -> list[str]:
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


def _as_text(value: Any) -> str:
    if isinstance(value, Mapping | list | bool):
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    return str(value)


def split_command(text: str) -> list[str]:
    """The words of a shell command; ``ValueError`` says why there are none. Continued lines are one line."""
    return shlex.split(text.replace("\\\n", " "), comments=True)


def read_flags(words: Sequence[str]) -> tuple[str | None, dict[str, Any]]:
    """The model and the flags of the words after ``vllm serve``; numbers and JSON become values, repeats a list.

    Which options take a value is seen from the words: what follows an option up to the next one is its value. So the
    model must stand before the first option or in ``--model``.
    """
    positional = [*_until_option(words)]
    flags: dict[str, Any] = {}
    rest = list(words[len(positional) :])
    while rest:
        name, equals, inline = rest.pop(0).partition("=")
        values = [inline] if equals else [*_until_option(rest)]
        del rest[: 0 if equals else len(values)]
        _add(flags, name, [_value(word) for word in values])
    model = flags.pop("model", None) or (positional[0] if positional else None)
    return model, flags


def _until_option(words: Sequence[str]) -> Sequence[str]:
    end = next((index for index, word in enumerate(words) if _is_option(word)), len(words))
    return words[:end]


def _is_option(word: str) -> bool:
    return bool(re.match(r"--?[A-Za-z]", word))


def _add(flags: dict[str, Any], written: str, values: list[Any]) -> None:
    head, dot, path = written.partition(".")
    name = _SHORT.get(head, head.lstrip("-").replace("_", "-")) + dot + path
    if not values and name.startswith("no-"):
        flags[name.removeprefix("no-")] = False
    elif not values:
        flags[name] = True
    elif name in flags:
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
