# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec of a value, made from its type: what mypy knows of an answer is what it is checked for."""

import types
from typing import Annotated, Any, NotRequired, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

from .schema import Spec

# Text that any file can hold: JSON knows half of a pair of surrogates, UTF-8 doesn't.
_TEXT = r"[^\ud800-\udfff]*"
_MOST = 1 << 62
_PLAIN: dict[Any, Spec] = {
    Any: {"nullable": True},
    str: {"type": "str", "pattern": _TEXT, "expected": "text"},
    bool: {"type": "bool"},
    int: {"type": "int", "min": -_MOST, "max": _MOST},
    float: {"type": "number", "min": -1e18, "max": 1e18},
}


class Limits:
    """What a spec has beside its type, for `Annotated`."""

    def __init__(self, **spec: Any) -> None:
        self.spec = spec


def spec_of(kind: object) -> Spec:
    """kind: a TypedDict; a list or dict of such types, ``X | None``, text, a number. What ``Annotated`` says is added.

    A key of a TypedDict is required, unless it is `NotRequired` or its spec has a default. TypeError for other types.
    """
    origin, words = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return cast(
            Spec, {**spec_of(words[0]), **{name: word for limits in words[1:] for name, word in limits.spec.items()}}
        )
    if origin is None and kind in _PLAIN:
        return _PLAIN[kind]
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        return {"type": "map", "options": {name: _of_key(hint) for name, hint in hints.items()}}
    if origin is list:
        return {"type": "list", "elements": spec_of(words[0])}
    if origin is dict:
        return {"type": "map", "keys": spec_of(words[0]), "values": spec_of(words[1])}
    if origin in (types.UnionType, Union):
        kinds = [spec_of(word) for word in words if word is not type(None)]
        return {**(kinds[0] if len(kinds) == 1 else {"any_of": kinds}), "nullable": len(kinds) < len(words)}
    raise TypeError(f"no spec of {kind!r}")


def _of_key(hint: object) -> Spec:
    if get_origin(hint) is NotRequired:
        return spec_of(get_args(hint)[0])
    spec = spec_of(hint)
    return spec if "default" in spec else {**spec, "required": True}
