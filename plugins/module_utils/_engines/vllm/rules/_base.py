# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule is: a small predicate over a launch, and its row of ``data/rules.yml``."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, TypedDict

from ...._base.findings import Finding, Severity
from ...._base.gb10 import data_file, data_table
from ...._base.place import Place, place_of
from ..catalogue.version import parse_range
from .launch import Launch

ALL = ".."
# Why a rule has no last release.
LASTS: Mapping[str, str] = data_table("rules_last")


@dataclass(frozen=True)
class Hit:
    """Where a rule applies, and what was found there. The rest: where it differs from the rule's."""

    place: Place | str
    found: str
    severity: Severity | None = None
    expected: str = ""
    remedy: str = ""
    reason: str = ""
    source: str = ""


Hits = Iterator[Hit]
Check = Callable[[Launch], Hits]


@dataclass(frozen=True)
class Rule:
    """One rule. area: its chapter of the document. severities: by range of releases; a rule for all of
    them is judged without knowing the release too.

    needs: facts without which it stays silent, as tests/unit/rule_needs.py names them.
    covers: rules and catalogue findings that explain less about the same place, and are left out where this one speaks.
    lasts: a key of `LASTS` where it has no last release, else empty.
    """

    identity: str
    area: str
    summary: str
    kind: str
    severities: Mapping[str, Severity]
    expected: str
    remedy: str
    reason: str
    source: str
    check: Check
    needs: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    lasts: str = ""

    def severity(self, version: str | None) -> Severity | None:
        """How much it weighs for a release; None where it doesn't hold, or isn't known."""
        if set(self.severities) == {ALL}:
            return self.severities[ALL]
        ranges = ((parse_range(text), severity) for text, severity in self.severities.items())
        return next((severity for known, severity in ranges if version is not None and version in known), None)

    def findings(self, launch: Launch, severity: Severity) -> Iterator[Finding]:
        """What the rule says about a launch."""
        for hit in self.check(launch):
            yield Finding(
                rule=self.identity,
                kind=self.kind,
                severity=hit.severity or severity,
                at=place_of(hit.place),
                found=hit.found,
                expected=hit.expected or self.expected,
                remedy=hit.remedy or self.remedy,
                reason=hit.reason or self.reason,
                source=hit.source or self.source,
                covers=self.covers,
            )


class _Text(TypedDict, total=False):
    """When it holds, where, and what is said then."""

    when: dict[str, Any]
    warning: dict[str, Any]
    at: str
    each: list[str]
    found: str
    expected: str
    remedy: str
    reason: str
    source: str


class Case(_Text, total=False):
    """One of several of a rule; a text or severity that it lacks is the rule's."""

    severity: Severity


class Row(_Text, total=False):
    """What is known of a rule beside its predicate, as the head of ``data/rules.yml`` says."""

    severity: Severity | dict[str, Severity]
    kind: str
    lasts: str
    needs: list[str]
    covers: list[str]
    what: str
    area: str
    cases: list[Case]
    facts: list[str]


RULES: dict[str, Rule] = {}


@lru_cache(maxsize=64)
def rules_for(version: str | None) -> tuple[tuple[Rule, Severity], ...]:
    """The rules that hold for a release, with their weight; None: those that hold for all."""
    weighed = ((entry, entry.severity(version)) for entry in RULES.values())
    return tuple((entry, severity) for entry, severity in weighed if severity is not None)


@cache
def words() -> Mapping[str, Row]:
    """``data/rules.yml``, by the rules' ids."""
    table: dict[str, Row] = data_file("rules")
    return table


def rule(identity: str, **figures: object) -> Callable[[Check], Check]:
    """Enter a predicate into the table, with its row of ``data/rules.yml``. Its docstring is the rule's summary.

    figures: what the row's texts name in braces.
    """
    return entered(identity, words()[identity], figures)


def entered(identity: str, row: Row, figures: Mapping[str, object]) -> Callable[[Check], Check]:
    """Enter a predicate into the table, with a row of the form of ``data/rules.yml``."""

    def enter(check: Check) -> Check:
        if identity in RULES:
            raise ValueError(f"rule {identity} is defined twice")
        severity = row["severity"]
        texts = (row["expected"], row["remedy"], row["reason"], row["source"])
        expected, remedy, reason, source = (text.format(**figures) if figures else text for text in texts)
        RULES[identity] = Rule(
            identity=identity,
            area=row["area"],
            summary=row.get("what", " ".join((check.__doc__ or "").split())),
            kind=row.get("kind", "combination"),
            severities={ALL: severity} if isinstance(severity, str) else severity,
            expected=expected,
            remedy=remedy,
            reason=reason,
            source=source,
            check=check,
            needs=tuple(row.get("needs", ())),
            covers=tuple(row.get("covers", ())),
            lasts=row.get("lasts", ""),
        )
        return check

    return enter


def show(value: object) -> str:
    """A value in a sentence; nothing is named plainly."""
    return "not set" if value is None else f'"{value}"'
