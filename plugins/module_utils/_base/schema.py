# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks a map that a person wrote (a recipe, ``fleet_services``, ``fleet_fabric``) against a spec in plain data.

All problems are collected, none is raised: a wrong value becomes a finding with its exact place, and the walk goes on.
Nothing is converted: ``"8003"`` is not a port, since the file that says so would mean something else elsewhere. A map
with `normal` is an exception: several spellings of one key come to one.
"""

import copy
import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from typing import Any, Literal, TypedDict, cast

from .findings import Finding, did_you_mean, error
from .place import Place, shown
from .sizes import is_bytes, quantity

TypeName = Literal["str", "int", "count", "bytes", "number", "bool", "list", "map", "any"]

_TYPES: dict[str, tuple[Any, str]] = {
    "str": (str, "text"),
    "int": (int, "a whole number"),
    "count": (int | str, "a whole number, as 170000 or 170k"),
    "bytes": (int | str, "a number of bytes, as 21474836480 or 20GiB"),
    "number": (int | float, "a number"),
    "bool": (bool, "true or false"),
    "list": (list, "a list"),
    "map": (Mapping, "a map"),
    "any": (object, "a value"),
}
_COUNTED = ("count", "bytes")
# Text that YAML reads as a value of this type once its quotes are gone.
_UNQUOTED = {"int": r"[+-]?\d+", "number": r"[+-]?\d+(\.\d+)?", "bool": "(?i)true|false|yes|no|on|off"}
_OPTIONAL = ", or take the line out"
# What is offered instead of a text is no longer than this.
_NEAR = 80
# What a terminal or a page obeys instead of showing it: controls, signs that turn or hide text, halves of letters.
UNSHOWN = (
    r"\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    r"\U000e0000-\U000e007f"
)
# A letter or two of a name: names that differ in a whole word are less alike.
_SLIP = 0.85
_BOUNDS: tuple[tuple[Literal["min", "max"], str], ...] = (("min", "at least"), ("max", "at most"))


class Spec(TypedDict, total=False):
    """What is allowed at one place. The words are those of Ansible's argument specs where it has them.

    type: kind of value; without it anything goes. count, bytes: what `_base.sizes.quantity` reads, bytes with GiB too.
    nullable: null is a value of its own (else null counts as absent).
    required, default: of a key in a map; a default gets its own defaults in turn. choices: the only values allowed.
    min, max: of a number; the length of a text, list or map. pattern: a regular expression that the whole text matches.
    elements: spec of a list's items. options: the known keys of a map, all others are misspelt.
    values, keys: of a map with free keys: spec of each value, spec of each key.
    known: of a text that may be any: names that nearly the same one is a slip of.
    any_of: alternatives of different types, instead of type. expected: words for a person, instead of made ones.
    normal: of a map whose keys have several spellings: makes the one that everybody reads, of the map and its place.
    """

    type: TypeName
    nullable: bool
    required: bool
    default: Any
    choices: list[Any]
    min: float
    max: float
    pattern: str
    elements: "Spec"
    options: "dict[str, Spec]"
    values: "Spec"
    keys: "Spec"
    known: Sequence[str]
    any_of: "list[Spec]"
    expected: str
    normal: Callable[[Mapping[str, Any], Place], tuple[dict[str, Any], list[Finding]]]


def option(spec: Spec, **default: Any) -> Any:
    """A field of a dataclass with the spec of its value; its default is None unless one is given, as to ``field``."""
    return field(metadata=cast(dict[str, Any], spec), **(default or {"default": None}))


def options_of(kind: Any) -> dict[str, Spec]:
    """The specs of a dataclass's fields that have one."""
    return {entry.name: cast(Spec, entry.metadata) for entry in fields(kind) if entry.metadata}


def check(spec: Spec, value: object, place: Place | str) -> tuple[Any, list[Finding]]:
    """Return a copy of ``value`` with the defaults of ``spec`` filled in, and every problem found below ``place``.

    place: a text alone is the name of a variable.
    A value with a problem is handed back as it was: use the result only if there is no finding. Never raises.
    """
    findings: list[Finding] = []
    at = Place(variable=place) if isinstance(place, str) else place
    return _checked(spec, value, at, findings), findings


def _checked(spec: Spec, value: Any, place: Place, findings: list[Finding]) -> Any:
    if "any_of" in spec:
        fitting = [alternative for alternative in spec["any_of"] if _is_type(alternative, value)]
        if fitting:
            return _checked(fitting[0], value, place, findings)
    if not _is_type(spec, value) or "any_of" in spec:
        findings.append(
            _problem(
                "schema-type",
                place,
                found=describe(value),
                expected=expectation(spec),
                remedy=_type_remedy(spec, value),
            )
        )
        return value
    if value is None:
        return None
    _check_bounds(spec, value, place, findings)
    if spec.get("type") == "map":
        return _checked_map(spec, value, place, findings)
    if spec.get("type") == "list":
        items = spec.get("elements", {})
        return [_checked(items, item, place.below(index), findings) for index, item in enumerate(value)]
    return value


def _checked_map(spec: Spec, value: Mapping[str, object], place: Place, findings: list[Finding]) -> dict[Any, Any]:
    options = spec.get("options")
    result: dict[Any, Any] = {}
    if options is None:
        value = _with_free_keys(spec, value, place, findings)
    suggested: set[str] = set()  # remedies of misspelt keys: what they are meant for isn't missing as well
    for key, item in value.items():
        if options is None:
            result[key] = _checked(spec.get("values", {}), item, place.below(key), findings)
        elif key not in options:
            findings.append(_unknown_key(key, place, options))
            suggested.add(findings[-1].remedy)
        elif item is not None or options[key].get("nullable"):
            result[key] = _checked(options[key], item, place.below(key), findings)
    if len(result) < spec.get("min", 0) and value and all(item is None for item in value.values()):
        findings.append(
            _problem(
                "schema-range",
                place,
                found="a map whose keys are null",
                expected=expectation(spec),
                remedy="write at least one of them, or take it out",
            )
        )
    for key, option in (options or {}).items():
        if key in result:
            continue
        if option.get("required"):
            remedy = f'write "{key}"'
            if remedy in suggested:
                continue
            findings.append(
                _problem(
                    "schema-required", place.below(key), found="missing", expected=expectation(option), remedy=remedy
                )
            )
        elif "default" in option:
            result[key] = _checked(option, copy.deepcopy(option["default"]), place.below(key), findings)
    return result


def _with_free_keys(
    spec: Spec, value: Mapping[str, object], place: Place, findings: list[Finding]
) -> Mapping[Any, Any]:
    """The map with its keys checked, as written, and then in their normal form."""
    for key in value:
        _checked(spec.get("keys", {}), key, place.of_key(key), findings)
    if "normal" not in spec or not all(isinstance(key, str) for key in value):
        return value
    normal, problems = spec["normal"](value, place)
    findings += problems
    return normal


def _check_bounds(spec: Spec, value: Any, place: Place, findings: list[Finding]) -> None:
    """Choices, pattern, range, slips of known names: what goes beyond the type. The first of them is enough."""
    name = None
    if "choices" in spec and value not in spec["choices"]:
        rule = "schema-choice"
    elif "pattern" in spec and not re.fullmatch(spec["pattern"], value):
        rule = "schema-pattern"
    elif not _in_range(spec, value):
        rule = "schema-range"
    elif (name := meant(spec, value)) is not None:
        rule = "schema-misspelt"
    else:
        return
    expected, remedy = expectation(spec), _correction(spec, value)
    if rule == "schema-choice" and isinstance(value, str):
        remedy = did_you_mean(value[:80], map(str, spec["choices"]))
    if name is not None:
        expected, remedy = "a name that is known, or one unlike each of them", f'write "{name}"'
    findings.append(_problem(rule, place, found=describe(value), expected=expected, remedy=remedy))


def meant(spec: Spec, value: object) -> str | None:
    """The known name that a text is a slip of."""
    known = spec.get("known", ())
    if not known or not isinstance(value, str) or value in known:
        return None
    return next(iter(difflib.get_close_matches(value[:_NEAR], known, n=1, cutoff=_SLIP)), None)


def _in_range(spec: Spec, value: Any) -> bool:
    if "min" not in spec and "max" not in spec:
        return True
    if spec.get("type") in _COUNTED:
        value = quantity(value)
    size = value if isinstance(value, int | float) else len(value)
    return bool(spec.get("min", -math.inf) <= size <= spec.get("max", math.inf))


def _is_type(spec: Spec, value: object) -> bool:
    kind = spec.get("type", "any")
    if isinstance(value, bool) and kind in ("int", "number", *_COUNTED):
        return False
    if isinstance(value, str) and kind in _COUNTED:
        return quantity(value) is not None and (kind == "bytes" or not is_bytes(value))
    return isinstance(value, _TYPES[kind][0]) or (value is None and spec.get("nullable", False))


def expectation(spec: Spec) -> str:
    """What a value that fits looks like, in words."""
    if "expected" in spec:
        return spec["expected"]
    if "any_of" in spec:
        return " or ".join(expectation(alternative) for alternative in spec["any_of"])
    if "choices" in spec:
        return "one of " + ", ".join(map(shown, spec["choices"]))
    words = _TYPES[spec.get("type", "any")][1]
    if "options" in spec:
        words += " with " + ", ".join(sorted(spec["options"]))
    if "pattern" in spec:
        words += f" like {spec['pattern']}"
    if "min" in spec or "max" in spec:
        limits = [f"{limit} {spec[bound]}" for bound, limit in _BOUNDS if bound in spec]
        counts = spec.get("type") in ("str", "list", "map")
        words += (" of length " if counts else " of ") + " and ".join(limits)
    return words + (" or null" if spec.get("nullable") else "")


def _type_remedy(spec: Spec, value: object) -> str:
    """Two slips of YAML have a known cure: quotes too many and quotes too few."""
    wanted = spec.get("type", "any")
    if isinstance(value, str) and re.fullmatch(_UNQUOTED.get(wanted, "(?!)"), value):
        return "write it without quotes"
    if isinstance(value, bool | int | float) and wanted == "str":
        return "write it in quotes"
    if wanted == "list" and isinstance(value, str) and _is_type(spec.get("elements", {}), value):
        return f"write [{value}]"
    if wanted == "int" and isinstance(value, str) and (number := quantity(value)) is not None:
        return f"write {number}"
    return _correction(spec, value)


def _correction(spec: Spec, value: object) -> str:
    """The nearest text that fits, where there is one; else that it has to be another one."""
    if isinstance(value, str) and "pattern" in spec:
        # of an address the host, or what follows it
        parts = re.fullmatch(r"\w+://([^/]+)/*(.*?)/*", value)
        for near in (
            *(parts.groups() if parts else ()),
            value.replace("_", "-"),
            value.replace("_", "-").lower(),
            re.sub(r"[^a-z0-9]+", "-", value.lower()),
        ):
            if near != value and len(near) <= _NEAR and re.fullmatch(spec["pattern"], near):
                return f'write "{near}"'
    return "write what is expected" + ("" if spec.get("required") else _OPTIONAL)


def _unknown_key(key: object, place: Place, options: Mapping[str, Spec]) -> Finding:
    remedy = "YAML takes a bare yes, no, on, off, null or number for a value: write the key in quotes"
    if isinstance(key, str):
        remedy = did_you_mean(key[:80], options)
    return _problem("schema-unknown-key", place.below(key), found="unknown key", expected="", remedy=remedy)


def describe(value: object) -> str:
    """A value with its type, as an owner would say it: ``text "8003"``, ``a list``."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, Mapping):
        return "a map" if value else "an empty map"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    words = {str: "text", bool: "the boolean", int | float: "the number"}
    kind = next((word for known, word in words.items() if isinstance(value, known)), type(value).__name__)
    return f"{kind} {shown(value)}"


def _problem(rule: str, place: Place, *, found: str, expected: str, remedy: str = "") -> Finding:
    return error(rule, place, found=found, expected=expected, remedy=remedy)
