# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Flags and environment as layers with each value's origin, and flags as arguments.

Lowest first: GB10, fabric, recipe, service, host.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Origin = Literal["default", "fabric", "recipe", "service", "host", "computed"]


@dataclass(frozen=True)
class Value:
    """A decided value, where it was written, and why if that is known."""

    value: Any
    origin: Origin
    reason: str = ""


@dataclass(frozen=True)
class Layer:
    """What one place says. reasons: why, by the same keys, as far as known."""

    origin: Origin
    values: Mapping[str, Any]
    reasons: Mapping[str, str] = field(default_factory=dict)


def merge(layers: Iterable[Layer]) -> dict[str, Value]:
    """Lay the layers over each other, lowest first, and return the keys that remain, sorted.

    A later value replaces an earlier one as a whole, maps too: half of two speculative configs is neither. ``None``
    removes the key that a lower layer has set.
    """
    merged: dict[str, Value] = {}
    for layer in layers:
        for key, value in layer.values.items():
            merged[key] = Value(value, layer.origin, layer.reasons.get(key, ""))
    return {key: merged[key] for key in sorted(merged) if merged[key].value is not None}


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
            return [f"--{name}", *map(_text, value)]
    text = _text(value)
    # argparse takes a word that begins with a dash for the next option
    return [f"--{name}={text}"] if text.startswith("-") else [f"--{name}", text]


def _text(value: Any) -> str:
    if isinstance(value, Mapping | list | bool):
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    return str(value)


def fill(value: Any, places: Mapping[str, str]) -> Any:
    """Replace ``{model_path}`` and the other names in ``places`` in every text of a value, however deep."""
    match value:
        case str():
            for name, text in places.items():
                value = value.replace("{" + name + "}", text)
            return value
        case Mapping():
            return {key: fill(item, places) for key, item in value.items()}
        case list():
            return [fill(item, places) for item in value]
    return value
