# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""A host's answer to a drift check: checked by size, depth and form before anything is done with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._schema import Spec
from ansible_collections.gb10.fleet.plugins.module_utils._transfer.received import checked

# A host of a hundred services answers with less than a tenth of it.
MOST_BYTES = 32 << 20
# Brackets, quotes and commas around a value.
_EACH_BYTES = 4
_MOST_LEVELS = 32
_ANSWER: Spec = {
    "type": "map",
    "options": {
        "state": {"type": "map", "required": True},
        "unknown": {"type": "map", "required": True, "values": {"type": "str"}},
    },
}


def read_answer(answer: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """``(state, unknown)`` of what ``host_info`` returned. ValueError with one sentence for anything else.

    What a part of the state holds is judged by who compares it (``compare.judged``).
    """
    found: dict[str, Any] = {key: answer.get(key) for key in _ANSWER["options"]}
    _require_bounds(found)
    checked(_ANSWER, found, "its answer")
    return found["state"], found["unknown"]


def _require_bounds(value: Any) -> None:
    """Level by level, so that nothing is copied and no nesting is too deep to look at it."""
    level, size = [value], 0
    for _ in range(_MOST_LEVELS):
        size += sum(map(_bytes, level))
        if size > MOST_BYTES:
            raise ValueError(f"its answer has more than {MOST_BYTES} bytes")
        level = [child for one in level if isinstance(one, (dict, list)) for child in _children(one)]
    if level:
        raise ValueError(f"its answer nests deeper than {_MOST_LEVELS} levels")


def _children(value: dict[Any, Any] | list[Any]) -> list[Any]:
    return [*value, *value.values()] if isinstance(value, dict) else value


def _bytes(value: Any) -> int:
    """At least as many as it has in a JSON text, roughly: a character may be four."""
    return _EACH_BYTES + (len(value) if isinstance(value, str) else 0)
