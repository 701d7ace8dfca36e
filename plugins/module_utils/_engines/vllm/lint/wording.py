# SPDX-License-Identifier: GPL-3.0-or-later
"""How the catalogue's findings are worded: what a release knows, since when, and what was probably meant."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from ...._base.findings import Severity, finding
from ..catalogue.releases import Catalogue, Option, Release
from ..catalogue.version import Range, parse

_PREFIX = re.compile(r"^(VLLM_|--?(no-)?)")
_SHOWN = 80
_SHORT_LIST = 30

# A finding of the catalogue whose words are no row.
judged = partial(finding, kind="catalogue")


@dataclass(frozen=True)
class CatalogueView:
    """One release's view of a launch. own: the image is that release's build, not a fork, which may know more."""

    catalogue: Catalogue
    release: Release
    own: bool = True

    @property
    def version(self) -> str:
        return self.release.version

    @property
    def source(self) -> str:
        return f"catalogue of vLLM {self.release.version}"

    def since(self, version: str) -> bool:
        here = parse(self.release.version)
        return here is not None and here.since(version)

    def weight(self, known: Range | None) -> Severity:
        """How much an unknown name weighs: a build of others may have names of its own."""
        return "error" if self.own else "warning"

    def is_later(self, known: Range | None) -> bool:
        """Whether a name was added after this release."""
        return known is not None and bool(known.first) and not self.since(known.first)

    def gone(self, known: Range | None) -> str:
        """What to do about a name that other releases have; empty for one that none has."""
        if known is None:
            return ""
        return f"use an image with vLLM {known.first} or later, or drop it" if self.is_later(known) else "drop it"


def history(what: str, known: Range | None) -> str:
    """In which releases an option, variable or name is known."""
    return f"known {known.words()}" if known else f"no {what} of any vLLM release since 0.11.0"


def meant(word: str, known: Iterable[str]) -> str:
    """What was probably meant, without the beginning that all names share; a list of names only where it is short.

    An option's ``--no-`` form is offered for a word that begins so alone: else it would turn off what was asked for.
    """
    off = word.startswith("--no-")
    names = {_PREFIX.sub("", name): name for name in known if name.startswith("--no-") == off}
    close = difflib.get_close_matches(_PREFIX.sub("", word[:_SHOWN]), names, n=1, cutoff=0.7)
    if close:
        return f'write "{names[close[0]]}"'
    return "known are: " + ", ".join(sorted(names.values())) if len(names) <= _SHORT_LIST else "drop it"


def option_meant(word: str, spellings: Mapping[str, tuple[Option, bool]]) -> str:
    """The same of an option; a short form with two dashes, ``--tp``, means the option that it is short for."""
    short = spellings.get("-" + word.lstrip("-"))
    return f'write "{short[0].name}"' if short else meant(word, spellings)


def cut(text: str, length: int = _SHOWN) -> str:
    """A word of the owner's in a sentence: printable, and not endless."""
    head = text[: length + 1]
    printable = head if head.isprintable() else head.encode("unicode_escape").decode("ascii")
    return printable if len(printable) <= length else printable[: length - 3] + "..."
