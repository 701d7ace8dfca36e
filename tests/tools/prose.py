# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check documents against docs/style.md: long sentences, cells and lines, unexplained terms, and seven habits.

    prose.py                     each page against its row in tests/data/prose.yml; a page without a row meets the goal
    prose.py -v docs/how-to/guide.md    also each place, as file:line
    prose.py --renew             lower the rows of pages that are better now; no row ever rises

Two rows are no pages: the names of tasks and plays, and the descriptions of plugins and roles.

Code, headings and link targets are no prose. A pattern can't see every habit, and it flags some good sentences.
The goal for habits is therefore a rate, and not 0: plain prose by native writers has 1 to 4 in 1,000 words.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "tests" / "data" / "prose.yml"
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md", "tests/lab/README.md", "data/findings.yml")
# Of a finding's row: what a person reads on the screen. Rows of rules are on docs/reference/rules.md.
_SCREEN = ("found", "expected", "remedy", "reason")

# mean: words in a sentence; long, cells, lines, terms: places; habits: places in 1,000 words
GOAL: Mapping[str, float] = {"mean": 16.0, "long": 0, "cells": 0, "lines": 0, "terms": 0, "habits": 4.0}
SENTENCE_WORDS, CELL_WORDS, LINE_CHARACTERS = 35, 40, 120

# Words of this project or its field. A page may use them if the glossary explains them.
TERMS = (
    *("adapter", "alias", "bundle", "calibration", "canary", "catalogue", "client", "converge", "creep", "definition"),
    *("digest", "drain", "drafter", "drift", "endpoint", "engine", "epoch", "executor", "fabric", "finding", "floor"),
    *("gateway", "group", "half", "handshake", "head", "imitation", "KV pool", "lock file", "lock", "overlay"),
    *("page cache", "peer", "plan", "preflight", "publisher", "rail", "rank", "reading", "recipe", "relay", "replica"),
    *("retention", "retire", "revision", "rollout", "seal", "served name", "shim", "slice", "source", "staging"),
    *("status", "strike", "subject", "supervisor", "trial", "utilization", "warm-up", "way back", "worker", "workload"),
)

_THING = "host|service|program|engine|server|rank|file|record|replica|gateway|supervisor|model|image|container"
HABITS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "noun clause": r"^(What|Whatever|Who|Whoever|Which|How)\b(?!.*\?$)|\bwhat of\b"
        r"|\b(by|of|for|from|to|than|with|as|on|in|before|beside) what\b",
        "preposition + which": r"\b(by|of|from|to|in|on|for|with|at|over|through|after|behind|than)"
        r" (which|whom|whose)\b",
        "one for a noun": r"\bones\b|\b(that|this|each|another|the|first|last|earlier|later|old|new) one\b(?! of)"
        r"|\b(file|key|name|build|program|image|machine|host)s? of (yours|ours|theirs|its own|your own|their own)\b",
        "missing verb": r"\bso (is|are|does|do|has|have)\b|; (else|without|none|otherwise)\b"
        r"|, as (is|are|does|do) ",
        "has to, is to": r"\b(has|have|had) to\b|\b(is|are|was|were) to (?!(a|an|the|its|each|one)\b)[a-z]+\b",
        "alone, anew, besides": r"\b(alone|anew|besides)\b|\bas well\b(?! as)|\b(too|meanwhile)(?=[.;:)]|$)",
        "person for a thing": r"\b(he|his|him|himself|whoever)\b|\b(asks|tells|knows) nobody\b"
        rf"|\b({_THING})s?,? (who|whom)\b",
    }.items()
}

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[A-Z0-9\"(])")
_WORD = re.compile(r"\w[\w'./-]*")
_FENCE = ("```", "~~~")
_NO_PROSE = ("#", "<!--", "![")
_ITEM = re.compile(r"\s*([-*+]|\d+\.)\s+")

Kind = Literal["prose", "cell"]
Figures = dict[str, float]


@dataclass(frozen=True)
class Block:
    """A paragraph, a list item, or a cell of a table. line: where it begins."""

    line: int
    kind: Kind
    text: str


@dataclass(frozen=True, order=True)
class Place:
    """measure: of `GOAL` or `HABITS`."""

    line: int
    measure: str
    words: str


@dataclass
class Page:
    words: int = 0
    sentences: list[int] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)

    def figures(self) -> Figures:
        counts: Figures = {name: sum(place.measure == name for place in self.places) for name in GOAL}
        habits = sum(place.measure in HABITS for place in self.places)
        counts["mean"] = round(sum(self.sentences) / max(1, len(self.sentences)), 1)
        counts["habits"] = round(1000 * habits / max(1, self.words), 1)
        return counts


def text_of(path: Path) -> str:
    """A page as it is. Of findings each text is a paragraph; a value in braces is code."""
    text = path.read_text("utf-8")
    if path.suffix != ".yml":
        return text
    rows: dict[str, dict[str, str]] = yaml.safe_load(text)
    texts = (row[name] for row in rows.values() for name in _SCREEN if name in row)
    return "\n\n".join(textwrap.fill(re.sub(r"\{\w+\}", "`value`", words), LINE_CHARACTERS) for words in texts)


def values_of(node: Any, key: str) -> Iterator[str]:
    """The texts of a key at any depth."""
    if isinstance(node, Mapping):
        found = node.get(key)
        yield from (text for text in (found if isinstance(found, list) else [found]) if isinstance(text, str))
    if isinstance(node, Mapping | list):
        for inner in node.values() if isinstance(node, Mapping) else node:
            yield from values_of(inner, key)


def task_names() -> Iterator[str]:
    for folder in ("playbooks", "roles/*/tasks", "roles/*/handlers"):
        for path in sorted(ROOT.glob(f"{folder}/**/*.yml")):
            yield from (re.sub(r"\{\{.*?\}\}", "`value`", name) for name in values_of(_yaml(path), "name"))


def descriptions() -> Iterator[str]:
    """Of plugins, roles and the steps of our own playbooks, with their options and results."""
    for path in sorted((ROOT / "plugins").glob("*/*.py")):
        for block in re.findall(r'^(?:DOCUMENTATION|RETURN) = r?"""\n(.*?)^"""', path.read_text("utf-8"), re.M | re.S):
            yield from _described(yaml.safe_load(block))
    for path in sorted([*ROOT.glob("data/steps.yml"), *ROOT.glob("roles/*/meta/argument_specs.yml")]):
        yield from _described(_yaml(path))


def _described(node: Any) -> Iterator[str]:
    for key in ("short_description", "description", "notes"):
        yield from (re.sub(r"\b[CEMOPV]\((?:[^()]|\([^()]*\))*\)", "`value`", text) for text in values_of(node, key))


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


MADE: Mapping[str, Callable[[], Iterator[str]]] = {"task names": task_names, "descriptions": descriptions}


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """The lines outside of code blocks. A code block counts as an empty line."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        is_fence = line.lstrip().startswith(_FENCE)
        yield number, "" if is_fence or is_code else line
        is_code ^= is_fence


def blocks(text: str) -> Iterator[Block]:
    begin = 0
    held: list[str] = []
    for number, line in (*lines_of(text), (0, "")):
        stripped = line.strip()
        item = _ITEM.match(line)
        if held and (not stripped or item or stripped.startswith(("|", ">", *_NO_PROSE))):
            yield Block(begin, "prose", " ".join(held))
            held = []
        if stripped.startswith(_NO_PROSE) or (line.startswith("    ") and not held and not item):
            continue
        if stripped.startswith("|"):
            if not set(stripped) <= set("|-: "):
                yield from (Block(number, "cell", cell.strip()) for cell in re.split(r"(?<!\\)\|", stripped)[1:-1])
        elif stripped:
            begin = begin if held else number
            held.append(line[item.end() :] if item else stripped)


def without_markup(text: str) -> str:
    """Code and addresses become one word each."""
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"https?://\S+", "URL", text).replace("**", "")


def terms_in(glossary: str) -> str:
    """The first column of its table, a line for each row."""
    return "\n".join(line.split("|")[1] for line in glossary.splitlines() if line.startswith("|"))


def has_term(term: str, text: str) -> bool:
    return re.search(rf"\b{term}s?\b", text, re.IGNORECASE) is not None


def examine(text: str, known: str) -> Page:
    """known: from `terms_in`."""
    page, used = Page(), set[str]()
    for block in blocks(text):
        plain = without_markup(block.text)
        if block.kind == "cell" and len(plain.split()) > CELL_WORDS:
            page.places.append(Place(block.line, "cells", f"{len(plain.split())} words: {plain[:70]}"))
        for sentence in _SENTENCE_END.split(plain):
            length = len(_WORD.findall(sentence))
            page.words += length
            if block.kind == "prose" and length > 2:
                page.sentences.append(length)
            if length > SENTENCE_WORDS:
                page.places.append(Place(block.line, "long", f"{length} words: {sentence[:70]}"))
            for habit, pattern in HABITS.items():
                page.places += [Place(block.line, habit, found[0]) for found in pattern.finditer(sentence)]
        for term in TERMS:
            if term not in used and has_term(term, plain):
                used.add(term)
                if not has_term(term, known):
                    page.places.append(Place(block.line, "terms", f'"{term}" is not in docs/reference/glossary.md'))
    wide = [(number, len(line)) for number, line in lines_of(text) if line[:1] != "|" and len(line) > LINE_CHARACTERS]
    page.places += [Place(number, "lines", f"{length} characters") for number, length in wide]
    return page


def row_of(figures: Mapping[str, float]) -> Figures:
    """The figures that miss the goal."""
    return {name: figures[name] for name, goal in GOAL.items() if figures[name] > goal}


def problems(rows: Mapping[str, Mapping[str, float]], pages: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Where the figures of pages are not those of the rows."""
    found = [f"{page}: has a row and is not there; remedy: prose.py --renew" for page in rows if page not in pages]
    for page, figures in pages.items():
        row = {**GOAL, **rows.get(page, {})}
        worse = [f"{name} {figures[name]:g}, at most {row[name]:g}" for name in GOAL if figures[name] > row[name]]
        if worse:
            found.append(
                f"{page}: {'; '.join(worse)}; remedy: prose.py -v {page} names each place, docs/style.md a cure"
            )
        elif row_of(figures) != rows.get(page, {}):
            found.append(f"{page}: better than its row; remedy: prose.py --renew lowers it")
    return found


def lowered(rows: Mapping[str, Mapping[str, float]], pages: Mapping[str, Mapping[str, float]]) -> dict[str, Figures]:
    """Each row with the lesser of two figures; without pages and figures that meet the goal."""
    new = {
        page: {
            name: min(figure, row_of(pages[page])[name]) for name, figure in row.items() if name in row_of(pages[page])
        }
        for page, row in rows.items()
        if page in pages
    }
    return {page: row for page, row in new.items() if row}


def written(rows: Mapping[str, Mapping[str, float]]) -> str:
    head = (
        "---\n# What each page still has beyond the goal of docs/style.md: tests/tools/prose.py --renew lowers it.\n"
        f"# The goal: {', '.join(f'{name} {goal:g}' for name, goal in GOAL.items())}. A page without a row meets it.\n"
    )
    lines = [
        f"{page}: {{{', '.join(f'{name}: {row[name]:g}' for name in row)}}}\n" for page, row in sorted(rows.items())
    ]
    return head + ("".join(lines) or "{}\n")


def table(pages: Mapping[str, Page]) -> Iterator[str]:
    yield f"{'page':32}{'words':>7}" + "".join(f"{name:>8}" for name in GOAL)
    for name, page in pages.items():
        figures = page.figures()
        cells = (f"{figures[key]:>7g}{'*' if figures[key] > goal else ' '}" for key, goal in GOAL.items())
        yield f"{name:32}{page.words:>7}{''.join(cells)}"


def documents(names: Iterable[str] = PAGES) -> list[Path]:
    return [path for name in names for path in sorted(ROOT.glob(name))]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path, help="all if none is named")
    parser.add_argument("--renew", action="store_true", help="lower the rows of pages that are better now")
    parser.add_argument("-v", "--verbose", action="store_true", help="name each place")
    options = parser.parse_args(arguments)
    chosen = [path.resolve() for path in options.pages] or documents()
    known = terms_in(GLOSSARY.read_text("utf-8"))
    pages = {str(path.relative_to(ROOT)): examine(text_of(path), known) for path in chosen}
    if not options.pages:
        for name, texts in MADE.items():
            pages[name] = examine("\n\n".join(textwrap.fill(text, LINE_CHARACTERS) for text in texts()), known)
    figures = {name: page.figures() for name, page in pages.items()}
    rows: dict[str, Figures] = yaml.safe_load(ROWS.read_text("utf-8")) or {}
    if options.pages:
        others = {page: row for page, row in rows.items() if page not in pages}
        rows = {page: row for page, row in rows.items() if page in pages}
    else:
        others = {}
    if options.renew:
        rows = lowered(rows, figures)
        ROWS.write_text(written(others | rows), "utf-8")
    print("\n".join(table(pages)))
    if options.verbose:
        print(
            "\n".join(f"{name}:{p.line}: {p.measure}: {p.words}" for name in pages for p in sorted(pages[name].places))
        )
    found = problems(rows, figures)
    print(
        "\n".join(
            [*found, f"{len(pages)} pages, {sum(bool(row_of(row)) for row in figures.values())} beyond the goal (*)"]
        )
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
