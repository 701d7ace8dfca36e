# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a Python server by release, as its own parser has them: how they are written, read and judged.

A catalogue is a file of ``data/``, which ``tools/engine_catalogue.py`` writes by asking the real program.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .._base.findings import Finding, did_you_mean, error, hint
from .._base.place import Place

NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True)
class Option:
    """names: all that it is called, without dashes, the first one the parser's own. negative: those that switch it off.
    switch: whether it takes no value. many: whether it takes several words. choices: the only values, where they are
    listed. gone: whether the program only says that another option is to be written."""

    names: tuple[str, ...]
    negative: tuple[str, ...] = ()
    switch: bool = False
    many: bool = False
    choices: tuple[str, ...] = ()
    gone: bool = False


@dataclass(frozen=True)
class Release:
    """version: as the program names itself. options: by every name."""

    version: str
    options: Mapping[str, Option]


def release_of(version: str, rows: Sequence[Mapping[str, Any]]) -> Release:
    """rows: options as the file has them, `Option`'s fields without those that are empty."""
    options = [
        Option(
            tuple(row["names"]),
            tuple(row.get("negative", ())),
            row.get("switch", False),
            row.get("many", False),
            tuple(row.get("choices", ())),
            row.get("gone", False),
        )
        for row in rows
    ]
    return Release(version, {name: option for option in options for name in (*option.names, *option.negative)})


def releases_of(text: str) -> dict[str, Release]:
    """A catalogue's text as `as_json` writes it."""
    return {version: release_of(version, rows) for version, rows in json.loads(text)["releases"].items()}


def as_json(releases: Mapping[str, Release]) -> str:
    """The file's text: each option once, and a line each."""
    lines = []
    for version, release in sorted(releases.items()):
        options = sorted({*release.options.values()}, key=lambda option: option.names)
        rows = ",\n".join(json.dumps(_short(option), sort_keys=True) for option in options)
        lines.append(f'"{version}": [\n{rows}\n]')
    return '{"releases": {\n' + ",\n".join(lines) + "\n}}\n"


def _short(option: Option) -> dict[str, Any]:
    return {name: value for name, value in asdict(option).items() if value}


# Words -----------------------------------------------------------------------------------------------------------


def words_of(values: Mapping[str, object]) -> Iterator[str]:
    """Options as arguments, sorted by name, for a process and not for a shell: True is the bare option, False and None
    nothing, a list one word an item, a map one JSON argument."""
    for name, value in sorted(values.items()):
        if value is None or value is False:
            continue
        yield f"--{name}"
        if isinstance(value, Mapping):
            yield json.dumps(value, sort_keys=True, separators=(",", ":"))
        elif value is not True:
            yield from map(str, value if isinstance(value, list) else [value])


def read_words(words: Sequence[str], release: Release) -> dict[str, Any]:
    """Options by the parser's own names, values as numbers where they are; later ones win, as in the program. One that
    is not catalogued keeps its name, and takes the words behind it that are no options."""
    found: dict[str, Any] = {}
    rest = list(words)
    while rest:
        name, equals, value = rest.pop(0).lstrip("-").partition("=")
        option = _named(name, release)
        own = option.names[0] if option else name
        if equals:
            found[own] = value_of(value)
        elif option is not None and option.switch:
            found[own] = name not in option.negative
        else:
            taken = _behind(rest, many=option is None or option.many)
            found[own] = True if not taken else taken[0] if len(taken) == 1 else taken
    return found


def _named(name: str, release: Release) -> Option | None:
    """The option of that name, or the only one whose name begins so, as argparse takes it."""
    if name in release.options:
        return release.options[name]
    longer = {option for known, option in release.options.items() if known.startswith(name)}
    return longer.pop() if len(longer) == 1 else None


def _behind(rest: list[str], *, many: bool) -> list[Any]:
    """The values that an option takes, which are taken away from the words."""
    taken: list[Any] = []
    while rest and (many or not taken) and (not rest[0].startswith("-") or NUMBER.fullmatch(rest[0])):
        taken.append(value_of(rest.pop(0)))
    return taken


def value_of(text: str) -> Any:
    """What an option's word stands for: a number where it is one."""
    if not NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


def first_of(values: Mapping[str, object], names: Sequence[str]) -> Any:
    """The value of an option that has several names; None where none of them is written."""
    return next((values[name] for name in names if values.get(name) is not None), None)


# Judging ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """What a launch's options are judged by. engine: the beginning of its rules. title: as people write it. source: who
    says which options there are."""

    engine: str
    title: str
    source: str


def judge(
    by: Judged, releases: Mapping[str, Release], version: str | None, flags: Mapping[str, object], place: Place
) -> list[Finding]:
    """Findings on the options of a launch. version: the image's. place: the service's."""
    release = releases.get(version or "")
    if release is not None:
        return [*_judged(by, release, flags, place.below("flags"))]
    return [
        hint(
            f"{by.engine}-not-judged",
            place.below("image"),
            found=f"{by.title} {version or 'of a release that nobody wrote'}, whose options are not known here",
            expected=f"one of {', '.join(sorted(releases))}",
            remedy="write image.release where it is one of these; options of other releases are not judged",
            kind="catalogue",
        )
    ]


def _judged(by: Judged, release: Release, flags: Mapping[str, object], place: Place) -> Iterator[Finding]:
    def wrong(rule: str, name: str, found: str, expected: str, remedy: str) -> Finding:
        where = place.below(name)
        source = f"{by.source}, release {release.version}"
        return error(
            f"{by.engine}-option-{rule}",
            where,
            found=found,
            expected=expected,
            remedy=remedy,
            source=source,
            kind="catalogue",
        )

    written: dict[Option, str] = {}
    for name, value in flags.items():
        if value is None:
            continue
        option = release.options.get(name)
        if option is None:
            found = f"no option of {by.title} {release.version}"
            yield wrong("unknown", name, found, "one of its own", did_you_mean(name, release.options))
            continue
        if option.gone:
            found = f"{by.title} {release.version} only names its successor"
            yield wrong("gone", name, found, "the option that took its place", "see the program's own --help")
        elif expected := _expected(option, value):
            yield wrong("value", name, repr(value), expected, "write one of these")
        if option in written:
            found = f"the same option as {written[option]}"
            yield wrong("twice", name, found, "each option once", f"write {option.names[0]} alone")
        written[option] = name


def _expected(option: Option, value: object) -> str | None:
    """What the option takes, of a value that is none of it."""
    if option.switch:
        return None if isinstance(value, bool) else "true or false"
    if isinstance(value, bool):
        # false is an option that is left out
        return "a value" if value and not {"true", "True"} & {*option.choices} else None
    values = value if isinstance(value, list) else [value]
    if len(values) > 1 and not option.many:
        return "one value"
    if option.choices and not {*map(str, values)} <= {*option.choices}:
        return "one of " + ", ".join(option.choices)
    return None
