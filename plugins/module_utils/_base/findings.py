# SPDX-License-Identifier: GPL-3.0-or-later
"""What a check says: one finding a fact, in a form that a person can act on and a machine can compare."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, fields, replace
from functools import partial
from typing import Any, Literal, TypeVar

from .place import Place, place_of

Severity = Literal["error", "warning", "hint"]
_ORDER: dict[str, int] = {"error": 0, "warning": 1, "hint": 2}
# What Ansible and sudo say where a password is missing or wrong, and what there is to do.
_PASSWORDS = {
    "Missing sudo password": "-K asks for it",
    "a password is required": "-K asks for it",
    "Incorrect sudo password": "type it again with -K, or correct ansible_become_password",
}


@dataclass(frozen=True)
class Finding:
    """One statement about the declaration, the plan or a host.

    rule: stable id, e.g. ``schema-unknown-key`` or ``R045``; what an owner writes to silence it.
    kind: what was looked at: input, catalogue, combination, memory, fabric, host.
    at: where. found, expected: in the owner's words and units. reason: why it matters. remedy: what to do or write
    next. source: the document, vLLM file and version, or measurement that the rule comes from. since: the month of the
    newest proof of a rule that refuses (`proofs`).
    covers: rules that say the same and less, and are left out where this one speaks (`uncovered`).
    """

    severity: Severity
    rule: str
    at: Place
    _: KW_ONLY
    found: str
    expected: str = ""
    remedy: str = ""
    reason: str = ""
    source: str = ""
    since: str = ""
    kind: str = "input"
    covers: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where, for a person."""
        return self.at.text

    @property
    def host(self) -> str:
        return self.at.host

    @property
    def service(self) -> str:
        return self.at.service

    @property
    def recipe(self) -> str:
        return self.at.recipe

    @property
    def option(self) -> str:
        return self.at.option

    def as_dict(self) -> dict[str, Any]:
        """A map of texts: the place for a person, and its parts for a program."""
        own = {name: getattr(self, name) for name in _fields_of(type(self))}
        return {"place": self.place} | asdict(self.at) | own

    def sentence(self) -> str:
        """One line for a person: place, what was found, what was expected, what to do."""
        expected = f"expected {self.expected}" if self.expected else ""
        words = filter(None, (f"{self.place}: {self.found}", expected, self.remedy))
        return "; ".join(words) + f" [{self.rule}]"


def sentence(row: Mapping[str, Any]) -> str:
    """The sentence of a finding that is a map."""
    return replace(finding_of(row), at=Place(thing=row["place"])).sentence()


def _fields_of(kind: type[Finding]) -> list[str]:
    """What of a finding a map of it has by itself."""
    return [field.name for field in fields(kind) if field.name not in ("at", "covers")]


def finding_of(row: Mapping[str, Any]) -> Finding:
    """The finding of a map that `Finding.as_dict` made."""
    at = Place(**{field.name: row[field.name] for field in fields(Place)})
    return Finding(at=at, **{name: row[name] for name in _fields_of(Finding)})


def of_sudo(why: str) -> str:
    """What to do about a password that sudo wants; empty where it is not that why a host gave no answer."""
    return next((remedy for words, remedy in _PASSWORDS.items() if words in why), "")


def finding(
    severity: Severity,
    rule: str,
    place: Place | str,
    *,
    found: str,
    expected: str = "",
    remedy: str = "",
    reason: str = "",
    source: str = "",
    kind: str = "input",
    covers: tuple[str, ...] = (),
) -> Finding:
    """A finding of any severity. place: a text alone is the name of a thing."""
    return Finding(
        severity,
        rule,
        place_of(place),
        found=found,
        expected=expected,
        remedy=remedy,
        reason=reason,
        source=source,
        kind=kind,
        covers=covers,
    )


# The builders of findings, `error(rule, place, found=..., expected=..., remedy=...)`: an error stops the run, a warning
# says what works and will hurt, a hint what could be better.
error, warning, hint = partial(finding, "error"), partial(finding, "warning"), partial(finding, "hint")
host_error, host_warning = partial(error, kind="host"), partial(warning, kind="host")
fabric_error, fabric_warning, fabric_hint = (partial(build, kind="fabric") for build in (error, warning, hint))
memory_error, memory_warning, memory_hint = (partial(build, kind="memory") for build in (error, warning, hint))


F = TypeVar("F", bound=Finding)


@dataclass(frozen=True, kw_only=True)
class Difference(Finding):
    """A finding of a drift check: what a host has differs from what is declared.

    host, place and rule name it, for good: ``titan``, ``file /etc/x.conf``, ``file-content``. repairs: the playbook
    that puts it right, or empty where a person must. diff: expected against found as a unified diff, for texts.
    """

    kind: str = "host"
    repairs: str = ""
    diff: str = ""

    @property
    def place(self) -> str:
        """Where on its host."""
        return replace(self.at, host="").text

    @property
    def id(self) -> str:
        return f"{self.host}: {self.place}: {self.rule}"

    def as_dict(self) -> dict[str, Any]:
        """By the names that reports have."""
        kept = ("rule", "severity", "remedy", "repairs", "reason", "source", "diff")
        named = {"id": self.id, "resource": self.place, "want": self.expected, "have": self.found}
        address = {"host": self.host, "service": self.service}
        return named | address | {name: getattr(self, name) for name in kept}


class FleetError(Exception):
    """Input that can't be used; carries the findings that say why."""

    def __init__(self, *findings: Finding) -> None:
        self.findings = findings
        super().__init__("\n".join(finding.sentence() for finding in findings))


def refusal(rule: str, place: Place | str, **words: Any) -> FleetError:
    """One error that stops at once. words: as of `error`."""
    return FleetError(error(rule, place, **words))


def ordered(findings: Iterable[F]) -> list[F]:
    """Errors first, then by place and rule: the same findings always come in the same order, each once."""
    return sorted(set(findings), key=lambda f: (_ORDER[f.severity], f.place, f.rule, f.found))


def uncovered(findings: Iterable[F]) -> list[F]:
    """Without those that another one of the same service says better; the catalogue's only at the same place."""
    kept = list(findings)
    better: dict[tuple[str, str], list[F]] = {}
    for finding in kept:
        for rule in finding.covers:
            better.setdefault((finding.service, rule), []).append(finding)
    return [
        finding
        for finding in kept
        if not any(
            finding.kind != "catalogue" or item.at == finding.at
            for item in better.get((finding.service, finding.rule), ())
        )
    ]


def first_of(places: Sequence[object], note: str = "") -> str:
    """Places with the same fault: the first, with what is to be said of it, and how many more there are."""
    return f"{places[0]}{note}" + (f" and {len(places) - 1} more" if len(places) > 1 else "")


# More names than a person reads through.
_MOST_NAMES = 24


def unknown_host(place: Place, name: str, hosts: Iterable[str]) -> Finding:
    """Something is declared for a host that the inventory has not. hosts: those that it has."""
    return error(
        "input-unknown-host",
        place,
        found=f'no host "{name}"',
        expected="a host of the inventory",
        remedy=did_you_mean(name, hosts),
    )


_SIZES = re.compile(r"\d+b\b")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A remedy for a misspelt name: ``write "port"``, or the list of what is known."""
    names = sorted(known)
    near = re.sub(r"[\s_]+", "-", word.strip()).lower()
    # a model of another size is none that was meant
    alike = [name for name in names if {*_SIZES.findall(near)} <= {*_SIZES.findall(name.lower())}]
    close = difflib.get_close_matches(word, alike, n=1, cutoff=0.6) or difflib.get_close_matches(near, alike, n=1)
    # all that was written, in a longer name
    parts = near.split("-")
    close = close or sorted((name for name in names if all(len(part) > 2 and part in name for part in parts)), key=len)
    if close:
        return f'write "{close[0]}"'
    if len(names) > _MOST_NAMES:
        alike = sorted(names, key=lambda name: difflib.SequenceMatcher(None, near, name).ratio())[-_MOST_NAMES:]
        return f"known are {len(names)}, the most alike of them: " + ", ".join(sorted(alike))
    return "known are: " + (", ".join(names) if names else "none")
