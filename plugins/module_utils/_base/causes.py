# SPDX-License-Identifier: GPL-3.0-or-later
"""What went wrong on many hosts, by cause: one sentence for all whose own differ in names and quantities alone."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

# Two sentences that differ in a literal have different causes.
_Kind = Literal["literal", "quantity", "name", "part"]
Member = tuple[str, list[str]]

# A number is a quantity by its unit alone: exit statuses, ports, versions and HTTP's codes tell causes apart.
_UNIT = r"(?: ?(?:[KMGT]i?B|[KMG]b/s|bytes|ms|s|min|h|d|W|tokens)\b| ?[%°])"
_PIECES = re.compile(
    rf"(?P<quantity>\d[\d,]{{0,30}}(?:\.\d{{1,30}})?(?={_UNIT}))"
    r"|(?P<name>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?"  # a time
    r"|\d{1,3}(?:\.\d{1,3}){3}(?!\.?\w)"  # addresses of IPv4, IPv6 and adapters, a clock's time
    r"|[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])"
    r"|(?=[0-9a-f]*\d)[0-9a-f]{10,}(?!\w)"  # a digest, or what is drawn
    r"|(?<=pid )\d+)"
    r"|(?P<word>\w[\w.-]*)"
)
_SEPARATOR = re.compile(r"([.-])")
_NUMBER = re.compile(r"(\d+)(\D*)\Z")
_DIGITS = re.compile(r"(\d+)")
# How many different names stand in one place of a sentence, from how many hosts on a row is shown by its ends, and
# how many characters of names stand before a sentence.
_SHOWN, _ROW, _BEFORE = 3, 3, 60
_JOINTS = ("=", "/", "-", "_", ",", "-l ")


@dataclass(frozen=True)
class Cause:
    """hosts: on which, each once, ``spark-9`` before ``spark-10``. text: one sentence for all of them."""

    hosts: tuple[str, ...]
    text: str

    def paragraph(self) -> str:
        """``spark-001 to spark-100: no route``; where the names are longer, their number, and a line of all."""
        names = spans(self.hosts)
        if len(names) <= _BEFORE:
            return f"{names}: {self.text}"
        return f"{len(self.hosts)} hosts: {self.text}\n{names}"


def by_cause(reasons: Iterable[tuple[str, str]], names: Collection[str] = ()) -> list[Cause]:
    """The causes of (host, sentence), that of most hosts first, else in the order given.

    names: of the fleet's hosts and services. They may differ within one cause, as addresses, times, digests and numbers
    with a unit may. In the text for several hosts ``HOST`` is each one's own name, ``3.1 to 79.4`` the range of a
    quantity, and of other names the first few are given; ``NAME`` stands for them within a word that is typed. A
    sentence of its own is its cause, unchanged.
    """
    given = [*reasons]
    known = {*names, *(host for host, _text in given)}
    longest = max((len(_SEPARATOR.split(name)) for name in known), default=0)
    alike: dict[tuple[tuple[_Kind, str], ...], list[Member]] = {}
    for host, text in given:
        pieces = [*_pieces(text, known, longest)]
        shape = tuple((kind, piece if kind == "literal" else "") for kind, piece in pieces)
        alike.setdefault(shape, []).append((host, [piece for _kind, piece in pieces]))
    causes = [
        Cause(
            tuple(sorted({host for host, _values in members}, key=_natural)),
            "".join(
                _common("part" if at in typed else kind, [(host, values[at]) for host, values in members])
                for at, (kind, _) in enumerate(shape)
            ),
        )
        for shape, alike_ones in alike.items()
        for typed in [_typed(shape, alike_ones, known)]
        for members in _apart(typed, alike_ones)
    ]
    return sorted(causes, key=lambda cause: -len(cause.hosts))


def _typed(shape: Sequence[tuple[str, str]], members: Sequence[Member], names: Collection[str]) -> list[int]:
    """Where different names are part of a word, as in ``service=chat``: what is typed takes one of them."""
    inside = [at for at, (kind, _) in enumerate(shape) if kind == "name" and shape[at - 1][1].endswith(_JOINTS)]
    differ = [at for at in inside if len({values[at] for _host, values in members} & {*names}) > 1]
    return [at for at in differ if any(values[at] != host for host, values in members)]


def _apart(typed: Sequence[int], members: Sequence[Member]) -> list[list[Member]]:
    """A few are told one by one, so that each can be typed."""
    found: dict[tuple[str, ...], list[Member]] = {}
    for member in members:
        found.setdefault(tuple(member[1][at] for at in typed), []).append(member)
    return [*found.values()] if len(found) <= _SHOWN else [[*members]]


def spans(hosts: Sequence[str]) -> str:
    """All names, those that count on by their first and last: ``spark-001 to spark-100, titan``."""
    rows: list[list[str]] = []
    for host in hosts:
        if rows and _next(rows[-1][-1]) == host:
            rows[-1].append(host)
        else:
            rows.append([host])
    return ", ".join(f"{row[0]} to {row[-1]}" if len(row) >= _ROW else ", ".join(row) for row in rows)


def _pieces(text: str, names: Collection[str], longest: int) -> Iterator[tuple[_Kind, str]]:
    """The sentence again, in pieces. longest: of how many parts and separators a name consists at most."""
    literal = ""
    at = 0
    for match in _PIECES.finditer(text):
        literal += text[at : match.start()]
        at = match.end()
        found = [(match.lastgroup, match[0])] if match.lastgroup != "word" else _named(match[0], names, longest)
        for kind, piece in found:
            if kind == "literal":
                literal += piece
                continue
            yield "literal", literal
            yield "quantity" if kind == "quantity" else "name", piece
            literal = ""
    yield "literal", literal + text[at:]


def _named(word: str, names: Collection[str], longest: int) -> Iterator[tuple[_Kind, str]]:
    """The names in ``gb10-service-chat.service`` or ``titan.lan``, and what is around them."""
    parts = _SEPARATOR.split(word)
    at = 0
    while at < len(parts):
        ends = range(min(len(parts), at + longest), at, -1)
        end = next((end for end in ends if "".join(parts[at:end]) in names), None)
        yield ("literal", parts[at]) if end is None else ("name", "".join(parts[at:end]))
        at = end or at + 1


def _common(kind: _Kind, values: Sequence[tuple[str, str]]) -> str:
    """One place of a sentence, for all its (host, value)."""
    different = [*dict.fromkeys(value for _host, value in values)]
    if len(different) == 1:
        return different[0]
    if all(value == host for host, value in values):
        return "HOST"
    if kind == "part":
        return "NAME"
    if kind == "quantity":
        amounts = sorted(different, key=lambda value: float(value.replace(",", "")))
        return f"{amounts[0]} to {amounts[-1]}"
    more = len(different) - _SHOWN
    return ", ".join(different[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Orders numbers in names by their value."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in _DIGITS.split(name)]


def _next(name: str) -> str | None:
    """The name with the next number, of as many digits where zeros lead."""
    match = _NUMBER.search(name)
    if match is None:
        return None
    return f"{name[: match.start()]}{int(match[1]) + 1:0{len(match[1])}}{match[2]}"
