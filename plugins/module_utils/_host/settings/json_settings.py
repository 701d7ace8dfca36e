# SPDX-License-Identifier: GPL-3.0-or-later
"""A JSON file that others also write: our keys are merged into theirs, and what we don't name stays as it is."""

import json
from collections.abc import Mapping
from typing import Any

from ..._base.findings import FleetError, refusal


def parsed(path: str, text: str) -> dict[str, Any]:
    """The map that a file's text holds; an empty file holds an empty one. Raises FleetError for anything else."""
    if not text.strip():
        return {}
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise _unusable(path, f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    if not isinstance(data, dict):
        raise _unusable(path, f"a {type(data).__name__} at the top")
    return data


def merged(current: Mapping[str, object], settings: Mapping[str, object]) -> dict[str, Any]:
    """`settings` merged into `current`: maps are merged, null removes a key, anything else replaces what was there."""
    result = dict(current)
    for key, value in settings.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            there = result.get(key)
            result[key] = merged(there if isinstance(there, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def restored(now: Mapping[str, object], before: Mapping[str, object], ours: Mapping[str, object]) -> dict[str, Any]:
    """``now`` with the values of before for the keys that ``ours``, all that was ever merged, names; others stay.

    A map that we made goes when nothing of others is in it."""
    result = dict(now)
    for key, inner in ours.items():
        there, was = now.get(key), before.get(key, {})
        if isinstance(inner, Mapping) and isinstance(there, Mapping) and isinstance(was, Mapping):
            result[key] = restored(there, was, inner)
            if result[key] or key in before:
                continue
        elif key in before:
            result[key] = was
            continue
        result.pop(key, None)
    return result


def both(ours: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Two settings as one for `restored`: what either names, a whole key where one of them names it whole."""
    result = {**ours, **later}
    for key in {*ours} & {*later}:
        one, other = ours[key], later[key]
        are_maps = isinstance(one, Mapping) and isinstance(other, Mapping)
        result[key] = both(one, other) if are_maps else None
    return result


def changed_keys(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """The top-level keys that were added, removed or changed."""
    return sorted(key for key in {*before, *after} if before.get(key) != after.get(key))


def written(data: Mapping[str, object]) -> str:
    """The file's text; keys keep the order that their owner gave them."""
    return json.dumps(data, indent=4) + "\n"


def _unusable(path: str, found: str) -> FleetError:
    return refusal(
        "json-unusable",
        path,
        found=found,
        expected="one JSON map",
        remedy="mend the file, or move it away; it was left as it is",
        kind="host",
    )
