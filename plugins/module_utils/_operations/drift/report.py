# SPDX-License-Identifier: GPL-3.0-or-later
"""A check's result as data for machines and as text for a person at a terminal."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, cast

from ..._base.findings import Difference
from ..._base.received import one_line
from ..._base.report import table
from .compare import EXIT_CODES, Result
from .document import Document, Finding, Row
from .files import NOT_THERE
from .history import tally

_HEADLINES = {
    "clean": "everything is as declared",
    "drift": "not everything is as declared",
    "unknown": "unknown: not everything could be read",
}
_LABELS: tuple[Literal["want", "have", "reason", "remedy", "source"], ...] = (
    "want",
    "have",
    "reason",
    "remedy",
    "source",
)
_WIDTH = 44
_line = partial(one_line, most=None)
_MANY = 6  # files missing on a host, from which on they are shown as one finding


def report(result: Result, since: Mapping[str, str], generated: str) -> Document:
    """One map. ``generated`` and each ``since`` are times; all else is the same for a fleet in the same state."""
    return {
        "generated": generated,
        "verdict": result.verdict,
        "exit_code": EXIT_CODES[result.verdict],
        "hosts": [{"host": host, **tally(result, host)} for host in result.hosts],
        "findings": [
            {**_row_of(difference), "since": since.get(difference.id, generated)} for difference in result.differences
        ],
        "accepted": [{**_row_of(one), "accepted": why.reason, "until": why.until} for one, why in result.accepted],
        "unknown": [{"host": item.host, "part": item.part, "why": item.why} for item in result.unknown],
    }


def _row_of(difference: Difference) -> Row:
    return cast(Row, difference.as_dict())


def as_json(document: Mapping[str, object]) -> str:
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def as_text(document: Document) -> str:
    """The table, then for each finding what to do and its diff, what could not be read, and the verdict in one line."""
    findings = [*_folded(document["findings"])]
    parts = [
        table([_row(finding) for finding in findings]),
        "\n\n".join("\n".join(_details(finding)) for finding in findings),
        "\n".join(f"unknown: {item['host']}: {item['part']}: {_line(item['why'])}" for item in document["unknown"]),
        "\n".join(
            f"accepted until {item['until']}: {item['host']}: {_line(item['resource'])} ({item['accepted']})"
            for item in document["accepted"]
        ),
        summary(document),
    ]
    return "\n\n".join(part for part in parts if part)


def _folded(findings: Sequence[Finding]) -> Iterator[Finding]:
    """What is missing on a host that has not been converged is one finding, not one for each file."""
    missing: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding["rule"] == "file-kind" and finding["have"] == NOT_THERE and finding["repairs"]:
            missing.setdefault((finding["host"], finding["remedy"]), []).append(finding)
    for finding in findings:
        same = missing.get((finding["host"], finding["remedy"]), [])
        if len(same) < _MANY or finding not in same:
            yield finding
        elif finding is same[0]:
            names = ", ".join(each["resource"] for each in same[:3])
            yield {
                **finding,
                "resource": f"{len(same)} files, folders and links",
                "want": "as declared",
                "reason": f"{names} and {len(same) - 3} more; -e drift_format=json lists them",
            }


def summary(document: Document) -> str:
    """The verdict in one line."""
    hosts, findings = len(document["hosts"]), document["findings"]
    counts = [
        (sum(finding["severity"] == severity for finding in findings), severity)
        for severity in ("error", "warning", "hint")
    ]
    counted = [_count(number, word) for number, word in counts if number]
    counted += [_count(len(document["unknown"]), "unknown")] if document["unknown"] else []
    counted += [f"{len(document['accepted'])} accepted"] if document["accepted"] else []
    return f"drift: {_HEADLINES[document['verdict']]}: " + ", ".join([_count(hosts, "host"), *counted])


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("s" if number != 1 and word != "unknown" else "")


def _row(finding: Finding) -> dict[str, str]:
    return {
        "host": finding["host"],
        "severity": finding["severity"],
        "resource": _line(finding["resource"]),
        "want": _short(finding["want"]),
        "have": _short(finding["have"]),
        "since": finding["since"][:10],
    }


def _details(finding: Finding) -> Iterator[str]:
    yield f"{finding['host']}: {_line(finding['resource'])}"
    for label in _LABELS:
        if finding[label]:
            yield f"    {label}: {_line(finding[label])}"
    if finding["diff"]:
        yield from (f"        {_line(line)}" for line in finding["diff"].splitlines())


def _short(text: str) -> str:
    return textwrap.shorten(_line(text), _WIDTH, placeholder=" ...") or "-"
