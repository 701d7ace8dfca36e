# SPDX-License-Identifier: GPL-3.0-or-later
"""``report.html`` of a drift check, from the role's template."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..module_utils._operations.drift.document import Document, Level, Night
from ..module_utils._operations.drift.report import summary
from ._page import rendered

_WORDS = {"clean": "as declared", "drift": "drift", "unknown": "unknown"}
# A sign beside the colour: not everybody sees the colours.
_SIGNS = {"clean": "✓", "drift": "✗", "unknown": "?"}
_SEVERITIES: tuple[Level, ...] = ("error", "warning", "hint")
_SHOWN_NIGHTS = 30
_BAR_WIDTH = 200


def page(document: Document, nights: Sequence[Night]) -> str:
    """The whole page. document: `_operations.drift.report.report`. nights: as `_operations.drift.history` keeps them,
    the newest last."""
    headline, _, counts = summary(document).removeprefix("drift: ").rpartition(": ")
    return rendered(
        "roles/drift/templates/report.html.j2",
        document=document,
        headline=headline[0].upper() + headline[1:],
        summary=counts,
        hosts=_hosts(document),
        nights=_nights(nights[-_SHOWN_NIGHTS:]),
        words=_WORDS,
        signs=_SIGNS,
        severities=_SEVERITIES,
        bar_width=_BAR_WIDTH,
    )


def _hosts(document: Document) -> list[dict[str, Any]]:
    """The hosts with their findings, those with most to do first."""
    ordered = sorted(document["hosts"], key=lambda host: (*(-host[name] for name in _SEVERITIES), host["host"]))
    findings = document["findings"]
    return [
        {**host_row, "findings": [each for each in findings if each["host"] == host_row["host"]]}
        for host_row in ordered
    ]


def _nights(nights: Sequence[Night]) -> list[dict[str, Any]]:
    """The last checks, the newest first: how much there was to do, as numbers and as a bar."""
    rows = [{name: sum(host[name] for host in night["hosts"].values()) for name in _SEVERITIES} for night in nights]
    most = max([1, *(sum(row.values()) for row in rows)])
    return [
        {"at": night["at"], "verdict": night["verdict"], "total": sum(row.values()), "bar": _bar(row, most)}
        | {str(name): count for name, count in row.items()}
        for night, row in zip(reversed(nights), reversed(rows), strict=True)
    ]


def _bar(row: Mapping[Level, int], most: int) -> list[dict[str, Any]]:
    """As wide as there are findings, the severities beside each other; in pixels."""
    ends = [
        0,
        *(round(_BAR_WIDTH * sum(row[severity] for severity in _SEVERITIES[: end + 1]) / most) for end in range(3)),
    ]
    return [
        {"severity": name, "start": ends[index], "width": ends[index + 1] - ends[index]}
        for index, name in enumerate(_SEVERITIES)
    ]
