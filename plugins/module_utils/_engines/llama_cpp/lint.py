# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the options of a launch, by its release's own list of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, did_you_mean, error
from ..._base.place import Place
from .catalogue import Option, Release, load

_SOURCE = "llama-server --help"


def judge(request: Mapping[str, Any], place: Place) -> list[Finding]:
    """The findings on a request of `reports.request_of`. place: the service's."""
    release = load().get(request["release"] or "")
    found = [_not_judged(request, place)]
    if release is not None:
        found = [*_judged(release, request["flags"], place.below("flags"))]
    return [finding for finding in found if finding.rule not in request["silence"]]


def _not_judged(request: Mapping[str, object], place: Place) -> Finding:
    found = f"llama.cpp {request['release'] or 'of a release that nobody wrote'}, whose options are not known here"
    expected = f"one of {', '.join(sorted(load()))}"
    return worded.catalogue_hint("llama-not-judged", place.below("image"), found=found, expected=expected)


def _judged(release: Release, flags: Mapping[str, object], place: Place) -> Iterator[Finding]:
    written: dict[Option, str] = {}
    for name, value in flags.items():
        if value is None:
            continue
        option = release.options.get(name)
        where = place.below(name)
        if option is None:
            yield _finding(
                "llama-option-unknown",
                where,
                f"no option of llama-server {release.version}",
                "one of its own",
                did_you_mean(name, release.options),
            )
            continue
        if option.gone:
            yield _finding("llama-option-gone", where, f"{release.version} refuses it", "its successor", option.gone)
        elif wrong := _wrong(option, name, value):
            yield _finding("llama-option-value", where, f"{value!r}", wrong, "write one of these")
        if option in written:
            yield _finding(
                "llama-option-twice",
                where,
                f"the same option as {written[option]}",
                "each option once",
                f"write {option.names[0]} alone",
            )
        written[option] = name


def _wrong(option: Option, name: str, value: object) -> str | None:
    """What the option takes, of a value that is none of it."""
    switch = isinstance(value, bool)
    if name in option.negative:
        return f"{option.names[0]}: false"
    if not option.value:
        if not switch:
            return "true or false" if option.negative else "true"
        return "true, or nothing" if value is False and not option.negative else None
    if switch:
        return None if {"on", "off"} <= {*option.choices} else f"a value: {option.value}"
    values: Sequence[Any] = value if isinstance(value, list) else [value]
    if option.choices and not {*map(str, values)} <= {*option.choices}:
        return "one of " + ", ".join(option.choices)
    return None


def _finding(rule: str, place: Place, found: str, expected: str, remedy: str) -> Finding:
    return error(rule, place, found=found, expected=expected, remedy=remedy, source=_SOURCE, kind="catalogue")
