# SPDX-License-Identifier: GPL-3.0-or-later
"""Flags and environment as layers with each value's origin.

Lowest first: GB10, fabric, recipe, service, host.
"""

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
    """Merge the layers, lowest first, and return the keys that remain, sorted.

    A later value replaces an earlier one as a whole, maps too: half of two speculative configs is neither. ``None``
    removes the key that a lower layer has set.
    """
    merged: dict[str, Value] = {}
    for layer in layers:
        for key, value in layer.values.items():
            merged[key] = Value(value, layer.origin, layer.reasons.get(key, ""))
    return {key: merged[key] for key in sorted(merged) if merged[key].value is not None}


def fill(value: object, places: Mapping[str, str]) -> Any:
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
