# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM's versions: order, ranges, and which releases a build lies between.

Images carry releases (0.24.0), rebuilds of one (0.27.1+93523f72.nv26.8, 0.12.0.post1), and builds of the main branch
(0.17.2rc1.dev93+gabc). Main keeps counting from the last tag that it contains, so such a build can hold anything up to
the next minor release (facts/flags.md, section 6).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, total_ordering

_FORM = re.compile(
    r"v?(?P<release>\d+\.\d+(?:\.\d+)*)"
    r"(?P<pre>(?:a|b|rc)\d+)?(?:\.post(?P<post>\d+))?(?:[.-]dev(?P<dev>\d*))?(?P<local>\+[0-9A-Za-z.]+)?$"
)
_RANGE = re.compile(r"(?P<low>[0-9.]*?)\.\.(?P<before><?)(?P<high>[0-9.]*)$")


@total_ordering
@dataclass(frozen=True)
class Version:
    """A parsed version. release: its three numbers. candidate: an rc. dev: a build between tags."""

    text: str
    release: tuple[int, ...]
    candidate: bool = False
    dev: bool = False

    @property
    def unreleased(self) -> bool:
        return self.candidate or self.dev

    @property
    def base(self) -> str:
        """The release that it is or comes to be: 0.19.1 of 0.19.1.dev6."""
        return ".".join(map(str, self.release))

    def since(self, first: str) -> bool:
        """Whether it is that release (``0.17``, ``0.17.1``), a build on the way to it, or a later one."""
        return self.release >= _numbers(first)

    def __lt__(self, other: "Version") -> bool:
        return (self.release, not self.unreleased) < (other.release, not other.unreleased)


@lru_cache(maxsize=4096)
def parse(text: str) -> Version | None:
    """A version, or None for what isn't one and for source builds without a tag (0.1.devN)."""
    match = _FORM.fullmatch(text.strip())
    if match is None or len(text) > 80:
        return None
    release = tuple(map(int, match["release"].split(".")))
    if match["dev"] is not None and release < (0, 2):
        return None
    return Version(text.strip(), (*release, 0, 0)[:3], bool(match["pre"]), match["dev"] is not None)


def neighbours(build: Version, releases: Sequence[str]) -> tuple[str, ...]:
    """The release that a build is, or the two that it lies between; fewer at the ends of what is known.

    0.27.1+nv26.8 and 0.12.0.post1 count as their base. 0.19.1.dev6 lies between 0.19.0 and 0.19.1; an rc of the main
    branch, 0.18.1rc1.dev5, between 0.18.0 and the first release of the next minor, 0.19.0.
    """
    known = [(version.release, text) for text in releases if (version := parse(text)) is not None]
    if not build.unreleased:
        below = [text for release, text in known if release <= build.release]
        return (below[-1],) if below else (known[0][1],)
    major, minor, patch = build.release
    # The first release that the build's work ends up in.
    target = (major, minor + 1, 0) if build.candidate and patch else build.release
    low = [text for release, text in known if release < build.release]
    high = [text for release, text in known if release >= target]
    return tuple(dict.fromkeys([*low[-1:], *high[:1]]))


@dataclass(frozen=True)
class Range:
    """Releases as ``0.15.0..0.19.1, 0.28.0..``: closed spans; an open end means onwards or from the first.

    ``..<0.17.0`` ends before 0.17.0.
    """

    spans: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    text: str

    def __contains__(self, release: object) -> bool:
        version = release if isinstance(release, Version) else parse(str(release))
        return version is not None and any(low <= version.release <= high for low, high in self.spans)

    def words(self) -> str:
        """For a sentence: ``since 0.17.0``, ``0.11.0 to 0.23.0``, ``up to 0.12.0``."""
        return " and ".join(_span_words(part.strip()) for part in self.text.split(","))

    @property
    def first(self) -> str:
        return self.text.split("..", 1)[0].strip()


def _span_words(part: str) -> str:
    low, _, high = part.partition("..")
    if high.startswith("<"):
        return f"from {low}, before {high[1:]}" if low else f"before {high[1:]}"
    if low and high:
        return low if low == high else f"{low} to {high}"
    if high:
        return f"up to {high}"
    return f"since {low}" if low else "in all releases"


@lru_cache(maxsize=4096)
def _numbers(text: str) -> tuple[int, ...]:
    return (*map(int, text.split(".")), 0, 0)[:3]


def _below(release: tuple[int, ...]) -> tuple[int, ...]:
    """The end of all that comes before a release."""
    last = max(position for position, number in enumerate(release) if number)
    return (*release[:last], release[last] - 1, *(10**6 for _ in release[last + 1 :]))


@lru_cache(maxsize=4096)
def parse_range(text: str) -> Range:
    """A range as written in the catalogue and the rules; ValueError if it isn't one."""
    spans = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"not a range of releases: {part!r}; write 0.15.0..0.19.1, 0.28.0..")
        low = _numbers(match["low"]) if match["low"] else (0,)
        high = _numbers(match["high"]) if match["high"] else (10**6,)
        if match["before"]:
            high = _below(high)
        spans.append((low, high))
    return Range(tuple(spans), text)


def as_range(present: Iterable[bool], releases: Sequence[str]) -> str:
    """The range text for where something is present; open-ended where it is in the newest release."""
    spans: list[list[str]] = []
    previous = False
    for there, release in zip(present, releases, strict=True):
        if there and not previous:
            spans.append([release, release])
        elif there:
            spans[-1][1] = release
        previous = there
    return ", ".join(f"{low}.." if high == releases[-1] else f"{low}..{high}" for low, high in spans)
