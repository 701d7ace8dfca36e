# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of `llama-server` by release, as its own ``--help`` prints them: ``data/llama_cpp_catalogue.json``."""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[4] / "data" / "llama_cpp_catalogue.json"

# A line of an option begins at its left edge; what belongs to it is indented by so much.
_TEXT_AT = 40
_NAME = re.compile(r"--?[A-Za-z0-9][\w.-]*")
_CHOICES = re.compile(r"[\[{<]([\w+-]+(?:[|,][\w+-]+)+)[\]}>]")
_VERSION = re.compile(r"version: (\d+\.\d+\.\d+\S*) \(build (\d+)")
_GONE = "the argument has been removed"


@dataclass(frozen=True)
class Option:
    """names: all that switch it on or take its value, without dashes, the first one ours. negative: those that switch
    it off. short: names with one dash. value: how help names what it takes, empty for a switch. choices: the only
    values, where help lists them. gone: what to write instead of one that is refused."""

    names: tuple[str, ...]
    negative: tuple[str, ...] = ()
    value: str = ""
    choices: tuple[str, ...] = ()
    gone: str = ""
    short: tuple[str, ...] = ()


@dataclass(frozen=True)
class Release:
    """version: as `llama-server --version` prints it. build: the number in its log. options: by every long name."""

    version: str
    build: int
    options: Mapping[str, Option]


def read_version(text: str) -> tuple[str, int]:
    """What `llama-server --version` prints. Raises ValueError."""
    found = _VERSION.search(text)
    if found is None:
        raise ValueError(f"no line `version: 0.7.0 (build 11669, ...)` in {text[:200]!r}")
    return found[1], int(found[2])


def read_help(text: str) -> Iterator[Option]:
    """The options of what `llama-server --help` prints."""
    for lines in _paragraphs(text):
        head, described = _split(lines)
        names = []
        while (found := _NAME.match(head)) is not None:
            names.append(found.group())
            head = head[found.end() :].lstrip(", ")
        positive = tuple(name.lstrip("-") for name in names if name.startswith("--") and not name.startswith("--no-"))
        negative = tuple(name.lstrip("-") for name in names if name.startswith("--no-"))
        if not positive:
            positive, negative = negative, ()
        choices = _CHOICES.fullmatch(head)
        listed = re.search(r"allowed values: (.+?)(?: \(|$)", described)
        values = re.split(r"[|,]", choices[1]) if choices else re.split(r",\s*", listed[1]) if listed else []
        gone = described.partition(_GONE)[2].partition("(env")[0].strip(" .") if _GONE in described else ""
        short = tuple(name.lstrip("-") for name in names if not name.startswith("--"))
        if positive:
            yield Option(positive, negative, head, tuple(values), gone, short)


def _paragraphs(text: str) -> Iterator[list[str]]:
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("-") and not line.startswith("---"):
            if lines:
                yield lines
            lines = [line]
        elif lines and line.startswith(" "):
            lines.append(line)
    if lines:
        yield lines


def _split(lines: list[str]) -> tuple[str, str]:
    """An option's names with its value, and what is said of it."""
    first = lines[0]
    # names are padded to a column where they are short enough
    whole = len(first) <= _TEXT_AT or first[_TEXT_AT - 1] != " "
    head, described = (first, "") if whole else (first[:_TEXT_AT], first[_TEXT_AT:])
    return " ".join(head.split()), " ".join([described, *(line.strip() for line in lines[1:])]).strip()


def as_json(releases: Mapping[str, Release]) -> str:
    """The file's text: each option once."""
    rows: dict[str, Any] = {}
    for version, release in sorted(releases.items()):
        options = sorted({*release.options.values()}, key=lambda option: option.names)
        rows[version] = {"build": release.build, "options": [_short(option) for option in options]}
    return json.dumps({"releases": rows}, indent=1, sort_keys=True) + "\n"


def _short(option: Option) -> dict[str, Any]:
    return {name: value for name, value in asdict(option).items() if value}


@functools.cache
def load() -> Mapping[str, Release]:
    """The catalogued releases by version."""
    data = json.loads(DATA.read_text("utf-8"))
    return {version: release_of(version, row["build"], row["options"]) for version, row in data["releases"].items()}


def release_of(version: str, build: int, rows: list[Mapping[str, Any]]) -> Release:
    """rows: options as the file has them."""
    options = [
        Option(
            tuple(row["names"]),
            tuple(row.get("negative", ())),
            row.get("value", ""),
            tuple(row.get("choices", ())),
            row.get("gone", ""),
            tuple(row.get("short", ())),
        )
        for row in rows
    ]
    return Release(version, build, {name: option for option in options for name in (*option.names, *option.negative)})


def newest() -> Release:
    """The last catalogued release, by its build."""
    return max(load().values(), key=lambda release: release.build)
