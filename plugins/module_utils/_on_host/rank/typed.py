# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON values as dataclasses, checked by the types of their fields."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

_PLAIN = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_NAMES = {**_PLAIN, Mapping: "a map", Sequence: "a list"}


def read(kind: Any, value: Any, place: str = "") -> Any:
    """The value as a dataclass, Sequence, Mapping, union or plain value; ValueError says what is wrong, and where.

    A dataclass takes a map with its fields as keys, and no others; fields with a default may be missing.
    """
    if kind is Any:
        return value
    if get_origin(kind) is UnionType:
        return _one_of(get_args(kind), value, place)
    if is_dataclass(kind):
        return _dataclass(kind, _as(Mapping, value, place), place)
    if get_origin(kind) is Mapping:
        inner = get_args(kind)[1]
        found = {_as(str, key, place): item for key, item in _as(Mapping, value, place).items()}
        return {key: read(inner, item, _below(place, key)) for key, item in found.items()}
    if get_origin(kind) is Sequence:
        (inner,) = get_args(kind)
        return [read(inner, item, f"{place}[{at}]") for at, item in enumerate(_as(Sequence, value, place))]
    return _as(kind, value, place)


def _one_of(kinds: Sequence[Any], value: Any, place: str) -> Any:
    """A value of one of the types; of the first that is not None where it is of none."""
    if value is None and NoneType in kinds:
        return None
    others = [kind for kind in kinds if kind is not NoneType]
    fitting = [kind for kind in others if isinstance(value, kind)] if len(others) > 1 else others
    return read((fitting or others)[0], value, place)


def _dataclass(kind: Any, written: Mapping[str, Any], place: str) -> Any:
    known: dict[str, Field[Any]] = {field.name: field for field in fields(kind)}
    for name in written:
        if name not in known:
            raise ValueError(f"{_below(place, name)} is not known")
    for name, one in known.items():
        if name not in written and one.default is MISSING and one.default_factory is MISSING:
            raise ValueError(f"{_below(place, name)} is missing")
    hints = get_type_hints(kind)
    values = {name: read(hints[name], value, _below(place, name)) for name, value in written.items()}
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{place}: {error}" if place else str(error)) from None


def _as(kind: Any, value: Any, place: str) -> Any:
    accepted = {float: (int, float), Mapping: (dict,), Sequence: (list,)}.get(kind, (kind,))
    if not isinstance(value, accepted) or isinstance(value, bool) is not (kind is bool):
        raise ValueError(f"{place or 'it'} is {_shown(value)}, expected {_NAMES[kind]}")
    return value


def _below(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."
