# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift that somebody accepted: with a reason, and until a day."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from ..._base.findings import Difference


@dataclass(frozen=True)
class Acceptance:
    """host, resource, rule: patterns. until: the last day that it holds, ``2026-12-31``."""

    host: str
    resource: str
    rule: str
    reason: str
    until: str

    def fits(self, difference: Difference) -> bool:
        patterns = ((difference.host, self.host), (difference.place, self.resource), (difference.rule, self.rule))
        return all(fnmatchcase(value, pattern) for value, pattern in patterns)


def sort_out(
    differences: Iterable[Difference], accept: Iterable[Mapping[str, Any]], today: str
) -> tuple[list[Difference], list[tuple[Difference, Acceptance]]]:
    """What counts, and what is accepted today. One whose acceptance has ended counts again, and says so."""
    known = [Acceptance(**item) for item in accept]
    counted, accepted = [], []
    for difference in differences:
        fitting = [acceptance for acceptance in known if acceptance.fits(difference)]
        valid = next((acceptance for acceptance in fitting if acceptance.until >= today), None)
        if valid:
            accepted.append((difference, valid))
        elif fitting:
            ended = f"its acceptance ended on {fitting[0].until} ({fitting[0].reason})"
            counted.append(replace(difference, reason="; ".join(filter(None, (difference.reason, ended)))))
        else:
            counted.append(difference)
    return counted, accepted
