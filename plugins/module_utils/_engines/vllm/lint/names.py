# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that mislead (``data/vllm_names.yml``): what to write instead of an option or variable that a release lacks."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...._base.findings import Finding, Severity
from ...._base.gb10 import data_file
from ...._base.place import Place, argv
from ...._base.place import env as variable_of
from ..catalogue.version import Range, parse_range
from ..text.command import Command
from .wording import cut, judged


@dataclass(frozen=True)
class Name:
    """One row. names: each with what to write instead. value: only with this value; releases: None for all of them."""

    id: str
    what: str
    names: Mapping[str, str]
    remedy: str
    reason: str
    source: str
    value: str = ""
    releases: Range | None = None
    severity: Severity = "error"

    def finding(self, name: str, place: Place, value: str | None) -> Finding:
        """What is found about one of its names where it is used."""
        return judged(
            rule=self.id,
            severity=self.severity,
            place=place,
            found="given" if value is None else f'"{cut(value)}"',
            expected=self.names[name],
            remedy=self.remedy,
            reason=self.reason,
            source=self.source,
        )


@functools.cache
def misleading() -> tuple[Name, ...]:
    """The table."""
    rows = data_file("vllm_names")
    return tuple(
        Name(**{**row, "releases": parse_range(row["releases"]) if "releases" in row else None}) for row in rows
    )


def name_findings(command: Command, env: Mapping[str, str], version: str | None) -> Iterator[Finding]:
    """Of every misleading name in a command and its environment. version: the release, None where it isn't known."""
    used = [(given.name, argv(cut(given.spelling)), next(iter(given.values), None)) for given in command.given]
    used += [(name, variable_of(cut(name)), value) for name, value in env.items()]
    for row in misleading():
        if row.releases is None or (version is not None and version in row.releases):
            for name, place, value in used:
                if name in row.names and row.value in ("", value):
                    yield row.finding(name, place, value)
