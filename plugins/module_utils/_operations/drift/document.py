# SPDX-License-Identifier: GPL-3.0-or-later
"""A check's result as the map that reports are made of, and its history."""

from typing import Literal, NotRequired, TypedDict

Verdict = Literal["clean", "drift", "unknown"]
Level = Literal["error", "warning", "hint"]


class Tally(TypedDict):
    """A host's verdict, how many differences it has of each severity, and its illnesses by their rules."""

    verdict: Verdict
    error: int
    warning: int
    hint: int
    ills: NotRequired[list[str]]


class HostRow(Tally):
    host: str


class Row(TypedDict):
    """A difference, as `Difference.as_dict` names its parts."""

    id: str
    host: str
    service: str
    rule: str
    severity: Level
    resource: str
    want: str
    have: str
    remedy: str
    repairs: str
    reason: str
    source: str
    diff: str


class Finding(Row):
    since: str


class Accepted(Row):
    accepted: str
    until: str


class UnknownRow(TypedDict):
    host: str
    part: str
    why: str


class Document(TypedDict):
    generated: str
    verdict: Verdict
    exit_code: int
    hosts: list[HostRow]
    findings: list[Finding]
    accepted: list[Accepted]
    unknown: list[UnknownRow]


class Night(TypedDict):
    at: str
    verdict: Verdict
    hosts: dict[str, Tally]


class History(TypedDict):
    """since: by id of a difference, when it was first seen. nights: the newest last. read: by host and file of weights,
    the day (since 1970) when all its bytes were last right. last_success: when a check last reached a verdict."""

    since: dict[str, str]
    nights: list[Night]
    read: dict[str, dict[str, int]]
    last_success: int
