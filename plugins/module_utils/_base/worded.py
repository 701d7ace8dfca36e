# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings whose words are a row of ``data/findings.yml``: for the controller, since hosts have no such file."""

from collections.abc import Mapping
from functools import cache, partial

from .findings import Finding, FleetError, Severity
from .gb10 import data_file
from .place import Place, place_of
from .received import harmless


@cache
def rows() -> Mapping[str, Mapping[str, str]]:
    """``data/findings.yml``, by the findings' rules; with several wordings by ``RULE/WHERE``."""
    table: dict[str, dict[str, str]] = data_file("findings")
    return table


def texts(row: str, values: Mapping[str, object]) -> dict[str, str]:
    """The texts of a row with the values put in, and those that it lacks and the call gives itself."""
    words = rows()[row]
    values = {name: harmless(value) if isinstance(value, str) else value for name, value in values.items()}
    own = {name: str(values[name]) for name in ("found", "expected", "remedy", "reason", "source") if name in values}
    return own | {name: text.format_map(values) for name, text in words.items()}


def rule_of(row: str) -> str:
    """The rule of a row."""
    return row.partition("/")[0]


def finding(
    severity: Severity,
    row: str,
    place: Place | str,
    /,
    *,
    kind: str = "input",
    covers: tuple[str, ...] = (),
    **values: object,
) -> Finding:
    """A finding of any severity. values: what the texts of the row name in braces, and texts that it lacks."""
    return Finding(severity, rule_of(row), place_of(place), kind=kind, covers=covers, **texts(row, values))


# The builders of findings, `worded.error(row, place, name=value)`; what they mean: findings.py.
error, warning, hint = partial(finding, "error"), partial(finding, "warning"), partial(finding, "hint")
host_error, host_warning = partial(error, kind="host"), partial(warning, kind="host")
fabric_error, fabric_warning, fabric_hint = (partial(build, kind="fabric") for build in (error, warning, hint))
memory_error, memory_warning, memory_hint = (partial(build, kind="memory") for build in (error, warning, hint))
catalogued = partial(finding, kind="catalogue")
catalogue_error, catalogue_warning = partial(catalogued, "error"), partial(catalogued, "warning")
catalogue_hint = partial(catalogued, "hint")


def refusal(row: str, place: Place | str, /, **values: object) -> FleetError:
    """One error that stops at once."""
    return FleetError(Finding("error", rule_of(row), place_of(place), covers=(), **texts(row, values)))
