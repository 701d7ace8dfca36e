# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module answers from a host: checked by size, depth and form before anything is done with it."""

from collections.abc import Mapping
from typing import Any

from ..._base.received import checked
from ..._base.schema import Spec

# A host of a hundred services answers a drift check with less than a tenth of it.
MOST_BYTES = 32 << 20
# Brackets, quotes and commas around a value.
_EACH_BYTES = 4
_MOST_LEVELS = 32


def read_answer(form: Spec, answer: Mapping[str, object]) -> dict[str, Any]:
    """What ``form`` names of a module's answer, with its defaults; what a host adds is left out.

    form: of a map with ``options``. ValueError with one sentence for an answer that does not fit.
    """
    found = {key: answer.get(key) for key in form["options"]}
    _require_bounds(found)
    result: dict[str, Any] = checked(form, known(form, found), "its answer")
    return result


def known(form: Spec, value: object) -> Any:
    """The value without keys that the form doesn't have: a host of a newer release may tell more."""
    if isinstance(value, dict):
        options, values = form.get("options"), form.get("values", {})
        if options is None:
            return {key: known(values, item) for key, item in value.items()}
        return {key: known(options[key], item) for key, item in value.items() if key in options}
    if isinstance(value, list):
        return [known(form.get("elements", {}), item) for item in value]
    return value


def _require_bounds(value: object) -> None:
    """Level by level, so that nothing is copied and no nesting is too deep to look at it."""
    level, size = [value], 0
    for _ in range(_MOST_LEVELS):
        size += sum(map(_bytes, level))
        if size > MOST_BYTES:
            raise ValueError(f"its answer has more than {MOST_BYTES} bytes")
        level = [child for node in level if isinstance(node, (dict, list)) for child in _children(node)]
    if level:
        raise ValueError(f"its answer nests deeper than {_MOST_LEVELS} levels")


def _children(value: dict[object, object] | list[object]) -> list[object]:
    return [*value, *value.values()] if isinstance(value, dict) else value


def _bytes(value: object) -> int:
    """At least as many as it has in a JSON text, roughly: a character may be four."""
    return _EACH_BYTES + (len(value) if isinstance(value, str) else 0)
