# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of the KV pool: input that can't be used, models that aren't known, and vLLM's own refusals."""

from collections.abc import Iterable
from dataclasses import replace

from ...._base.findings import Finding, FleetError, error, memory_error
from ...._base.schema import describe


def bad_input(rule: str, place: str, *, value: object, expected: str, remedy: str) -> FleetError:
    return FleetError(error(rule, place, found=describe(value), expected=expected, remedy=remedy))


def with_remedy(findings: Iterable[Finding], *, remedy: str) -> list[Finding]:
    """The findings of a schema check, with something to do where the schema knows nothing."""
    return [finding if finding.remedy else replace(finding, remedy=remedy) for finding in findings]


def not_sized(place: str, *, found: str, expected: str, remedy: str) -> FleetError:
    """What this plugin doesn't know well enough to size: reported, never guessed."""
    return FleetError(memory_error("kv-unknown", place, found=found, expected=expected, remedy=remedy))


def refusal(rule: str, place: str, *, words: str, remedy: str, source: str, covers: tuple[str, ...] = ()) -> FleetError:
    """vLLM would stop its start with these words."""
    return FleetError(memory_error(rule, place, found=words, remedy=remedy, source=source, covers=covers))
