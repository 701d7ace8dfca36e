# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a Python server by release, as its own parser has them: how they are written, read and judged.

A catalogue is a file of ``data/``, which ``tools/engine_catalogue.py`` writes by asking the real program.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from .._base.findings import Finding, did_you_mean, error, hint
from .._base.place import Place

NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True)
class Option:
    """names: all that it is called, without dashes, the first one the parser's own. negative: those that switch it off.
    switch: whether it takes no value. many: whether it takes several words. choices: the only values, where they are
    listed. gone: of one that the program refuses, what to write instead, or only true."""

    names: tuple[str, ...]
    negative: tuple[str, ...] = ()
    switch: bool = False
    many: bool = False
    choices: tuple[str, ...] = ()
    gone: bool | str = False

    def expected(self, name: str, value: object) -> str | None:
        """What the option takes, of a value that is none of it. name: how it is written."""
        if self.switch:
            return None if isinstance(value, bool) else "true or false"
        if isinstance(value, bool):
            # false is an option that is left out
            return "a value" if value and not {"true", "True"} & {*self.choices} else None
        if isinstance(value, list) and len(value) > 1 and not self.many:
            return "one value"
        return self.choice(value)

    def choice(self, value: object) -> str | None:
        """The values that are listed, of one that is not among them."""
        values = value if isinstance(value, list) else [value]
        if self.choices and not {*map(str, values)} <= {*self.choices}:
            return "one of " + ", ".join(self.choices)
        return None


AnOption = TypeVar("AnOption", bound=Option)


@dataclass(frozen=True)
class Release(Generic[AnOption]):
    """version: as the program names itself. options: by every name. build: the number in its log, where it has one."""

    version: str
    options: Mapping[str, AnOption]
    build: int = 0


def release_of(
    version: str, rows: Sequence[Mapping[str, Any]], kind: type[AnOption], build: int = 0
) -> Release[AnOption]:
    """rows: options as the file has them, fields of their kind without those that are empty."""
    options = [kind(**_read(row)) for row in rows]
    named = {name: option for option in options for name in (*option.names, *option.negative)}
    return Release(version, named, build)


def releases_of(text: str) -> dict[str, Release[Option]]:
    """A catalogue's text as `as_json` writes it."""
    return {version: release_of(version, rows, Option) for version, rows in json.loads(text)["releases"].items()}


def as_json(releases: Mapping[str, Release[Option]]) -> str:
    """The file's text: each option once, and a line each."""
    lines = []
    for version, release in sorted(releases.items()):
        options = sorted({*release.options.values()}, key=lambda option: option.names)
        rows = ",\n".join(json.dumps(_short(option), sort_keys=True) for option in options)
        lines.append(f'"{version}": [\n{rows}\n]')
    return '{"releases": {\n' + ",\n".join(lines) + "\n}}\n"


def _read(row: Mapping[str, object]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


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


def read_words(words: Sequence[str], release: Release[Option]) -> dict[str, Any]:
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


def _named(name: str, release: Release[Option]) -> Option | None:
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
    says which options there are. releases: reads those that are known, by version."""

    engine: str
    title: str
    source: str
    releases: Callable[[], Mapping[str, Release[Any]]]


def judge(by: Judged, version: str | None, flags: Mapping[str, object], place: Place) -> Iterator[Finding]:
    """Findings on the options of a launch. version: the image's. place: the service's."""
    release = by.releases().get(version or "")
    if release is not None:
        yield from _judged(by, release, flags, place.below("flags"))
        return
    found = f"{by.title} {version or 'of a release that nobody wrote'}, whose options are not known here"
    expected = f"one of {', '.join(sorted(by.releases()))}"
    remedy = "write image.release where it is one of these; options of other releases are not judged"
    rule = f"{by.engine}-not-judged"
    yield hint(rule, place.below("image"), found=found, expected=expected, remedy=remedy, kind="catalogue")


def _judged(by: Judged, release: Release[Any], flags: Mapping[str, object], place: Place) -> Iterator[Finding]:
    program, written = f"{by.title} {release.version}", dict[Option, str]()
    wrong = partial(error, kind="catalogue", source=f"{by.source}, release {release.version}")
    for name, value in flags.items():
        if value is None:
            continue
        option, where, rule = release.options.get(name), place.below(name), f"{by.engine}-option"
        if option is None:
            found, remedy = f"no option of {program}", did_you_mean(name, release.options)
            yield wrong(f"{rule}-unknown", where, found=found, expected="one of its own", remedy=remedy)
            continue
        if option.gone:
            found, instead = f"{program} refuses it", "the option that took its place"
            remedy = option.gone if isinstance(option.gone, str) else "see the program's own --help"
            yield wrong(f"{rule}-gone", where, found=found, expected=instead, remedy=remedy)
        elif expected := option.expected(name, value):
            yield wrong(f"{rule}-value", where, found=repr(value), expected=expected, remedy="write one of these")
        if option in written:
            found, remedy = f"the same option as {written[option]}", f"write {option.names[0]} alone"
            yield wrong(f"{rule}-twice", where, found=found, expected="each option once", remedy=remedy)
        written[option] = name
