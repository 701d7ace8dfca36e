# SPDX-License-Identifier: GPL-3.0-or-later
"""What doctor.yml prints: a table of the hosts, what their machines are, and each obstacle with its remedy."""

from collections.abc import Iterator, Sequence

from ..._base.findings import Finding
from ..._base.report import table
from .judge import Examined, facts


def as_text(hosts: Sequence[Examined], plan_errors: Sequence[str], files: Sequence[str], width: int) -> str:
    """plan_errors: sentences about the inventory. files: the bundles that were written."""
    bundles = [one.bundle for one in hosts if one.bundle is not None]
    parts = [
        "\n".join(_line(sentence) for sentence in plan_errors),
        "\n\n".join("\n".join(_details(one.host, finding)) for one in hosts for finding in one.findings),
        "\n".join(_line(f"not judged: {each.host}: {one.part}: {one.why}") for each in hosts for one in each.faults),
        table([{name: _line(text) for name, text in facts(bundle).items()} for bundle in bundles], width),
        table([_row(one) for one in hosts], width),
        "to post in an issue: " + ", ".join(files) if files else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _row(one: Examined) -> dict[str, str]:
    counts = {word: sum(finding.severity == word for finding in one.findings) for word in ("error", "warning")}
    words = [f"{number} {word}{'s' if number > 1 else ''}" for word, number in counts.items() if number]
    if one.bundle is not None and one.bundle["changes"]:
        words.append(f"{len(one.bundle['changes'])} things that site.yml changes")
    if one.faults:
        words.append(f"{len(one.faults)} part{'s' if len(one.faults) > 1 else ''} not judged")
    return {"host": one.host, "": one.verdict, "what": ", ".join(words) or "as declared"}


def _details(host: str, finding: Finding) -> Iterator[str]:
    yield f"{finding.severity}: {_line(host)}: {_line(finding.place)} [{finding.rule}]"
    for label in ("found", "expected", "remedy", "reason", "source"):
        if text := getattr(finding, label):
            yield f"    {label}: {_line(text)}"


def _line(text: str) -> str:
    """A host may have written anything, also what would move the terminal's cursor."""
    return "".join(character if character.isprintable() else " " for character in text).rstrip()
