# SPDX-License-Identifier: GPL-3.0-or-later
"""What doctor.yml prints: a table of the hosts, what their machines are, and each obstacle with its remedy."""

from collections.abc import Iterator, Sequence
from functools import partial

from ..._base.findings import Finding
from ..._base.received import one_line
from ..._base.report import table
from .judge import Examined, facts

_line = partial(one_line, most=None)


def as_text(hosts: Sequence[Examined], plan_errors: Sequence[str], files: Sequence[str], width: int) -> str:
    """plan_errors: sentences about the inventory. files: the bundles that were written."""
    bundles = [host.bundle for host in hosts if host.bundle is not None]
    parts = [
        "\n".join(_line(sentence) for sentence in plan_errors),
        "\n\n".join(_obstacles(hosts)),
        "\n".join(
            _line(f"not judged: {each.host}: {fault.part}: {fault.why}") for each in hosts for fault in each.faults
        ),
        table([{name: _line(text) for name, text in facts(bundle).items()} for bundle in bundles], width),
        table([_row(host) for host in hosts], width),
        "to post in an issue: " + ", ".join(files) if files else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _row(examined: Examined) -> dict[str, str]:
    counts = {word: sum(finding.severity == word for finding in examined.findings) for word in ("error", "warning")}
    words = [f"{number} {word}{'s' if number > 1 else ''}" for word, number in counts.items() if number]
    if examined.bundle is not None and examined.bundle["changes"]:
        words.append(f"{len(examined.bundle['changes'])} things that site.yml changes")
    if examined.faults:
        words.append(f"{len(examined.faults)} part{'s' if len(examined.faults) > 1 else ''} not judged")
    return {"host": examined.host, "": examined.verdict, "what": ", ".join(words) or "as declared"}


def _obstacles(hosts: Sequence[Examined]) -> Iterator[str]:
    """Each finding with all hosts that have it."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for host in hosts:
        for finding in host.findings:
            alike.setdefault(tuple(_details(host.host, finding)), []).append(_line(host.host))
    for (severity, place, *details), names in alike.items():
        yield "\n".join([f"{severity}: {', '.join(names)}{place}", *details])


def _details(host: str, finding: Finding) -> Iterator[str]:
    yield finding.severity
    yield f"{'' if finding.place == host else f': {_line(finding.place)}'} [{finding.rule}]"
    for label in ("found", "expected", "remedy", "reason", "source"):
        if text := getattr(finding, label):
            yield f"    {label}: {_line(text)}"
