# SPDX-License-Identifier: GPL-3.0-or-later
"""The door for a host's answer: each part is checked once, by its type and by what was asked.

A part that does not fit is one that could not be read; what fails later is a fault of this collection.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args, get_type_hints

from .._base import forms as data_forms
from .._base.reading import Answer
from .._base.received import Foreign, checked, harmless, one_line
from .._base.schema import Spec
from .._base.typed import spec_of
from .._host.probe.answer import known
from .state import ALWAYS, BEFORE_CHANGE, NOT_BEFORE_CHANGE, READS, UNASKED

# Of these None is an answer: there is no such thing on the host.
_NOTHING = ("driver", "gateway", "gateway_address", "peers_inventory")
_MOST_WORDS = 4096


def _part(name: str, hint: object) -> Spec:
    spec = spec_of(hint)
    return spec if name in _NOTHING else {**spec, "nullable": False}


_HINTS = get_type_hints(Answer, include_extras=True)
PARTS: dict[str, Spec] = {
    name: _part(name, get_args(hint)[0] if name in BEFORE_CHANGE else hint) for name, hint in _HINTS.items()
}
_IDENTITIES = spec_of(dict[str, str | None])
PARTS["fabric"] = data_forms.forms("fabric_answer")["reading"]["options"]["reading"]


def forms(ask: Mapping[str, Any] | None) -> dict[str, Spec]:
    """The form of each part of an answer to these questions, as `read_state` takes them."""
    if ask is None:
        return {name: PARTS[name] for name in (*ALWAYS, *UNASKED)} | {"images": _IDENTITIES}
    before = ask.get("before_change")
    left = NOT_BEFORE_CHANGE if before else ()
    keys: dict[str, Iterable[str]] = {
        "files": [file["path"] for file in ask["files"]],
        **{name: ask[name] for name in ("sysctl", "units", "packages", "disks", "images", "certificates")},
        **({"starts": [service["name"] for service in before["services"]]} if before else {}),
    }
    names = [name for name in (*ALWAYS, *READS, *(BEFORE_CHANGE if before else ())) if name not in left]
    found = {name: _keyed(PARTS[name], keys.get(name)) for name in names}
    models = PARTS["models"]["options"]
    found["models"] = {
        **PARTS["models"],
        "options": {**models, "models": _keyed(models["models"], [model["repository"] for model in ask["models"]])},
    }
    found["json"] = {"type": "map", "options": {question["path"]: _json(question) for question in ask["json"]}}
    for name, files in (("sysctl_later", "sysctl_files"), ("memlock_later", "memlock_files")):
        found[name] = _of_keys(PARTS[name], sorted(ask[files]))
    return found


def taken(
    state: Mapping[str, object], unknown: Mapping[str, Foreign], form: Mapping[str, Spec]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Each part of ``form``, None where it is not known, and why."""
    found: dict[str, Any] = dict.fromkeys(form)
    why = {name: harmless(unknown[name][:_MOST_WORDS]) for name in sorted(form.keys() & unknown.keys())}
    for name, spec in form.items():
        value = state.get(name)
        if name in why or (value is None and spec.get("nullable")):
            continue
        try:
            if value is None:
                raise ValueError("it is missing")
            found[name] = checked(spec, known(spec, value), name)
        except ValueError as problem:
            why[name] = one_line(f"its answer is not what this collection reads: {problem}")
    return found, why


def _keyed(spec: Spec, keys: Iterable[str] | None) -> Spec:
    """The spec of a map with free keys as one that has an answer for each of these."""
    if keys is None:
        return spec
    others = {name: value for name, value in spec.items() if name not in ("keys", "values")}
    return {**others, "options": {key: {**spec["values"], "required": True} for key in keys}}  # type: ignore[typeddict-item]


def _of_keys(spec: Spec, keys: Sequence[str]) -> Spec:
    """The spec of a list of maps whose ``key`` is one of these."""
    options = spec["elements"]["options"]
    return {**spec, "elements": {"type": "map", "options": {**options, "key": {**options["key"], "choices": [*keys]}}}}


def _json(entry: Mapping[str, Any]) -> Spec:
    """Of one JSON file, as `_host.probe.files.read_json` answers."""
    if entry["names_of"]:
        names: Spec = {"type": "list", "required": True, "elements": {"type": "str"}}
        return {"type": "map", "nullable": True, "required": True, "options": {entry["names_of"]: names}}
    values: Spec = {"type": "list", "min": 2, "max": 2, "elements": {"nullable": True}} if entry["original"] else {}
    return {"type": "map", "nullable": True, "required": True, "values": {**values, "nullable": not entry["original"]}}
