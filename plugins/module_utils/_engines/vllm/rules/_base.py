# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule is: data beside a small predicate over a launch."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from ...._base.findings import Finding, Severity
from ...._base.place import Place, place_of
from ..catalogue.version import parse_range
from .launch import Launch

ALL = ".."
# Why a rule has no last release.
LASTS = {
    "machine": "it follows from GB10 and its network, whatever the release",
    "vllm": "the newest catalogued release does it too",
    "image": "it is about an image as published; a newer one has another name",
    "checkpoint": "it is about a checkpoint as published",
    "operation": "it is about hosts and containers, not about the release",
    "measured": "somebody measured it, and nobody has shown it otherwise since",
}


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
    """One rule. severities: by range of releases; a rule for all of them is judged without knowing the release too.

    needs: facts without which it stays silent, as tests/unit/rule_needs.py names them.
    covers: rules and catalogue findings that explain less about the same place, and are left out where this one speaks.
    lasts: a key of `LASTS` where it has no last release, else empty.
    """

    identity: str
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


RULES: dict[str, Rule] = {}


@lru_cache(maxsize=64)
def rules_for(version: str | None) -> tuple[tuple[Rule, Severity], ...]:
    """The rules that hold for a release, with their weight; None: those that hold for all."""
    weighed = ((entry, entry.severity(version)) for entry in RULES.values())
    return tuple((entry, severity) for entry, severity in weighed if severity is not None)


def rule(
    identity: str,
    severity: Severity | Mapping[str, Severity],
    *,
    expected: str,
    remedy: str,
    reason: str,
    source: str,
    kind: str = "combination",
    needs: tuple[str, ...] = (),
    covers: tuple[str, ...] = (),
    lasts: str = "",
) -> Callable[[Check], Check]:
    """Enter a predicate into the table. severity: for all releases, or by range: ``{"0.15.0..0.19.1": "error"}``.

    The predicate's docstring is the rule's summary. lasts: a key of `LASTS`, for a rule without a last release.
    """

    def enter(check: Check) -> Check:
        if identity in RULES:
            raise ValueError(f"rule {identity} is defined twice")
        severities = {ALL: severity} if isinstance(severity, str) else severity
        summary = " ".join((check.__doc__ or "").split())
        words = (expected, remedy, reason, source)
        RULES[identity] = Rule(identity, summary, kind, severities, *words, check, needs, covers, lasts)
        return check

    return enter


# The same for what a host's memory, a host's other state and the catalogue say.
memory_rule, host_rule, catalogue_rule = (partial(rule, kind=kind) for kind in ("memory", "host", "catalogue"))


def show(value: object) -> str:
    """A value in a sentence; nothing is named plainly."""
    return "not set" if value is None else f'"{value}"'
