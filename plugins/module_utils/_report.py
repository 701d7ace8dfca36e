# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What a person reads: aligned tables, sizes in units, the table at the end of a run."""

from __future__ import annotations

import itertools
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
_GAP = 2
# What a table's last column gets at least, and the others.
_LEAST, _NARROWEST = 24, 8
NOT_REACHED = "not reached"


def size(count: int | None) -> str:
    """Bytes in the largest binary unit that leaves a number of at least one: `32.0 MiB`."""
    if count is None:
        return "-"
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(count) >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def table(rows: Sequence[Mapping[str, str]], width: int | None = None) -> str:
    """Rows with the same keys, as text: a heading and aligned columns, two spaces apart.

    width: of the whole; cells are wrapped where it doesn't suffice, the last column most.
    """
    if not rows:
        return ""
    lines = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    widths = _widths([max(len(line[column]) for line in lines) for column in range(len(lines[0]))], width)
    return "\n".join(text for line in lines for text in _line(line, widths))


def _widths(natural: list[int], width: int | None) -> list[int]:
    """The columns' widths: what they need, else the last is narrowed first, then always the widest of the others."""
    spaces = _GAP * (len(natural) - 1)
    if width is None or sum(natural) + spaces <= width:
        return natural
    *others, last = natural
    least = min(last, _LEAST)
    while sum(others) + spaces + least > width and max(others) > _NARROWEST:
        others[others.index(max(others))] -= 1
    return [*others, max(least, width - sum(others) - spaces)]


def _line(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """One row, of as many lines as its longest cell takes; a word longer than its column is broken."""
    pairs = zip(cells, widths, strict=True)
    wrapped = [[cell] if len(cell) <= width else textwrap.wrap(cell, width) for cell, width in pairs]
    for parts in itertools.zip_longest(*wrapped, fillvalue=""):
        yield (" " * _GAP).join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip()


def end_table(
    plan: Mapping[str, Any],
    services: Sequence[str],
    hosts: Sequence[str],
    verified: Mapping[tuple[str, str], Mapping[str, Any]],
    ranks: Mapping[tuple[str, str], Mapping[str, Any]],
    failed: Mapping[str, str],
) -> str:
    """The end of a run about these services and hosts: a row for each rank, then the answers, then what went wrong.

    verified: (host, service) -> what a head's endpoint gave: state, answer, comparison, problems. ranks: (host,
    service) -> how its rank does: health. failed: host -> what stopped it.
    """
    rows, answers = [], []
    for name in services:
        service = plan["services"][name]
        for rank in service["ranks"]:
            host = rank["host"]
            if host not in hosts:
                continue
            proof, look = verified.get((host, name)), ranks.get((host, name))
            state = proof["state"] if proof else look["health"] if look else NOT_REACHED
            rows.append(_row(name, service, rank, "failed" if host in failed else state))
            if proof and proof["answer"]:
                answers.append(f'{name} on {host} says: "{_one_line(proof["answer"])}"')
            if proof and proof["comparison"]:
                answers.append(f"{name} on {host}: {proof['comparison']}")
    bare = [host for host in hosts if not any(row["host"] == host for row in rows)]
    rows += [dict.fromkeys(rows[0] if rows else ("host", "state"), "-") | _bare(host, failed) for host in bare]
    problems = [f"{host}: {message}" for host, message in failed.items() if host in hosts]
    problems += [f"{host}: {sentence}" for (host, _name), proof in verified.items() for sentence in proof["problems"]]
    return "\n\n".join(part for part in (table(rows), "\n".join(answers), _wrapped(problems)) if part)


def _row(name: str, service: Mapping[str, Any], rank: Mapping[str, Any], state: str) -> dict[str, str]:
    kv = service["kv"]
    return {
        "host": rank["host"],
        "service": name,
        "endpoint": service["endpoint"],
        "model": service["model"],
        "context": f"{kv['context']:,}" if kv["context"] else "-",
        "KV pool": f"{size(kv['bytes'])}, {kv['tokens']:,} tokens" if kv["tokens"] else "-",
        "memory": size(rank["memory_bytes"]),
        "state": state,
    }


def _bare(host: str, failed: Mapping[str, str]) -> dict[str, str]:
    return {"host": host, "state": "failed" if host in failed else "no service"}


def _one_line(text: str) -> str:
    """A model may answer anything, also what would move the terminal's cursor."""
    return "".join(character if character.isprintable() else " " for character in text).strip()


def _wrapped(problems: Sequence[str]) -> str:
    width = max(60, shutil.get_terminal_size((140, 24)).columns)
    return "\n".join(
        textwrap.fill(problem, width, subsequent_indent="    ", break_long_words=False) for problem in problems
    )
