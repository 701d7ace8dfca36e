# SPDX-License-Identifier: GPL-3.0-or-later
"""``fleet_drift``: what the owner accepts and expects, and from where on drift says something."""

from collections.abc import Collection, Iterator, Mapping
from datetime import date
from typing import Any

from .._base.findings import Finding, did_you_mean, error
from .._base.forms import forms
from .._base.place import Place
from .._base.schema import check

DRIFT = forms("drift")["drift"]


def read_drift(written: object) -> tuple[Mapping[str, Any], list[Finding]]:
    """The checked settings with their defaults, those of nothing written where there is a problem; and the problems."""
    settings, findings = check(
        DRIFT, _with_dates_as_text({} if written is None else written), Place(variable="fleet_drift")
    )
    return (check(DRIFT, {}, "")[0] if findings else settings), findings


def unmeasured(
    drift: Mapping[str, Any], services: Collection[str], engines: Mapping[str, str], measured: Collection[str]
) -> Iterator[Finding]:
    """Services of ``benchmark`` that can't be measured at night. services: all that are declared; engines: by name, of
    those that are planned. measured: engines whose images bring a load generator."""
    place = Place(variable="fleet_drift", option="benchmark")
    for name in drift["benchmark"]:
        if name not in services:
            found, remedy = f'no service "{name}"', did_you_mean(name, [*services])
            yield error("input-benchmark", place, found=found, expected="services", remedy=remedy)
        elif name in engines and engines[name] not in measured:
            found = f"{name}, served by {engines[name]}, whose images bring no load generator"
            expected = f"services of {', '.join(sorted(measured))}"
            yield error("input-benchmark", place, found=found, expected=expected, remedy="take it out")


def _with_dates_as_text(value: object) -> Any:
    """YAML makes a date of 2026-12-31, which is no value of ours."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: _with_dates_as_text(item) for key, item in value.items()}
    return [_with_dates_as_text(item) for item in value] if isinstance(value, list) else value
