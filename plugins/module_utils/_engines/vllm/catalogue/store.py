# SPDX-License-Identifier: GPL-3.0-or-later
"""The stored form of the catalogue: many releases in, one line an entry out.

An entry that is the same in consecutive releases is one row with a range; what belongs to an option but changes often
(its choices, the keys of its JSON) is kept as a registry, so that one new choice is one new line.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from .releases import Option, Release, Variable, choices_of, keys_of
from .version import as_range, parse


def store(releases: Iterable[Release]) -> dict[str, Any]:
    """All releases as plain data: {releases, options, variables, registries}, sorted, the same for any input order."""
    ordered = sorted(releases, key=lambda release: _number(release.version))
    return {
        "releases": [release.version for release in ordered],
        "options": _rows(ordered, lambda release: release.options, _option_row),
        "variables": _rows(ordered, lambda release: release.variables, _plain_row),
        "registries": _registries(ordered),
    }


def _number(text: str) -> tuple[int, ...]:
    version = parse(text)
    return version.release if version else ()


def _rows(
    releases: Sequence[Release], entries: Callable[[Release], Mapping[str, Any]], row: Callable[[Any], dict[str, Any]]
) -> list[dict[str, Any]]:
    """One row for each different state of an entry, with the releases that have it so."""
    names = sorted({name for release in releases for name in entries(release)})
    rows = []
    for name in names:
        states = [json.dumps(row(entries(release)[name])) if name in entries(release) else None for release in releases]
        for state in dict.fromkeys(state for state in states if state is not None):
            span = as_range([other == state for other in states], [release.version for release in releases])
            rows.append({"name": name, "in": span, **json.loads(str(state))})
    return rows


def _plain_row(entry: Option | Variable) -> dict[str, Any]:
    """What differs from the dataclass's defaults, but the name."""
    return {
        field.name: getattr(entry, field.name)
        for field in fields(entry)
        if field.name != "name" and getattr(entry, field.name) != field.default
    }


def _option_row(option: Option) -> dict[str, Any]:
    row = _plain_row(option)
    row.pop("keys", None)
    for kind in ("choices", "suggested"):
        if row.pop(kind, None):
            row["choices"] = kind
    return row


def _registries(releases: Sequence[Release]) -> dict[str, dict[str, str]]:
    named = [_named(release) for release in releases]
    versions = [release.version for release in releases]
    return {
        registry: {
            name: as_range([name in names.get(registry, ()) for names in named], versions)
            for name in sorted({name for names in named for name in names.get(registry, ())})
        }
        for registry in sorted({registry for names in named for registry in names})
    }


def _named(release: Release) -> dict[str, tuple[str, ...]]:
    """A release's registries, and those of its options."""
    named = {name: values for name, values in release.registries.items() if values}
    for option in release.options.values():
        if option.choices or option.suggested:
            named[choices_of(option.name)] = option.choices or option.suggested
        if option.keys:
            named[keys_of(option.name)] = option.keys
    return named


def text(stored: Mapping[str, Any]) -> str:
    """JSON with one entry a line."""
    rows = {key: ",\n".join("  " + json.dumps(row) for row in stored[key]) for key in ("options", "variables")}
    registries = ",\n".join(
        f"  {json.dumps(registry)}: {{\n"
        + ",\n".join(f"   {json.dumps(name)}: {json.dumps(span)}" for name, span in names.items())
        + "\n  }"
        for registry, names in stored["registries"].items()
    )
    return (
        f'{{\n "releases": {json.dumps(stored["releases"])},\n'
        f' "options": [\n{rows["options"]}\n ],\n'
        f' "variables": [\n{rows["variables"]}\n ],\n'
        f' "registries": {{\n{registries}\n }}\n}}\n'
    )
