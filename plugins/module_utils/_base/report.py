# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person reads: aligned tables."""

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence

_GAP = 2
# What a table's last column gets at least, and the others.
_LEAST, _NARROWEST = 24, 8


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
