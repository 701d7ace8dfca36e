# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM's command line as vLLM reads it: which options are given, with which values, and what is wrong with the words.

Follows `FlexibleArgumentParser` (vllm/utils/argparse_utils.py, before 0.11.1 vllm/utils/__init__.py): underscores count
as dashes, unique beginnings of an option are accepted, ``--a.b value`` fills a JSON option, ``-O3`` is a level.
"""

import json
import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..catalogue.releases import Option, Release

Form = Literal["serve", "module", "bare", "other"]
SHELLS = ("sh", "bash", "dash", "ash", "zsh")
MODULE = "vllm.entrypoints.openai.api_server"
_OPERATORS = frozenset({"&&", "||", ";", "|", "&"})


@dataclass(frozen=True)
class Given:
    """One option as given. option: None where the release doesn't know it. path: of ``--a.b``, without the dash part.

    values: its words. on: of a switch. surplus: a value glued on with ``=``, though the option takes none.
    """

    spelling: str
    option: Option | None
    values: tuple[str, ...] = ()
    on: bool = True
    path: str = ""
    abbreviated: bool = False
    ambiguous: tuple[str, ...] = ()
    missing: bool = False
    surplus: str | None = None

    @property
    def name(self) -> str:
        """The option's own name, or the spelling of an unknown one."""
        return self.option.name if self.option else self.spelling


@dataclass(frozen=True)
class Words:
    """What runs in the container. form: how vLLM's server is called, other if it isn't.

    words: what the server gets. script: the shell text around it.
    """

    form: Form
    words: tuple[str, ...]
    script: str = ""


def find_vllm(argv: Sequence[str]) -> Words:
    """vLLM's own words in a container's arguments: after ``vllm serve``, after the server module, or all of them."""
    script = _script(argv)
    if script is not None:
        words = _split_script(script)
        found = _after_program(words)
        return Words(found.form, found.words, script) if found else Words("other", (), script)
    found = _after_program(argv)
    if found is not None:
        return found
    program = argv[0].rsplit("/", 1)[-1] if argv else ""
    if program.startswith("python") or program in (*SHELLS, "vllm", "ray"):
        return Words("other", ())
    return Words("bare", tuple(argv))


def _script(argv: Sequence[str]) -> str | None:
    """The text of ``bash -c TEXT``; also without the shell's name, where it is the entrypoint."""
    rest = argv[1:] if argv and argv[0].rsplit("/", 1)[-1] in SHELLS else argv
    if len(rest) > 1 and re.fullmatch(r"-[a-z]*c", rest[0]):
        return rest[1]
    return None


def _split_script(script: str) -> list[str]:
    """The script's words with its operators apart; none if no shell would read it."""
    lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer) if len(script) < 1 << 16 else []  # its time is the square of a word's length
    except ValueError:
        return []


def _after_program(words: Sequence[str]) -> Words | None:
    for index in range(len(words) - 1):
        if words[index].rsplit("/", 1)[-1] == "vllm" and words[index + 1] == "serve":
            return Words("serve", _command_end(words[index + 2 :]))
        if words[index] == "-m" and words[index + 1] == MODULE:
            return Words("module", _command_end(words[index + 2 :]))
    return None


def _command_end(words: Sequence[str]) -> tuple[str, ...]:
    end = next((index for index, word in enumerate(words) if word in _OPERATORS), len(words))
    return tuple(words[:end])


@dataclass(frozen=True)
class Command:
    """The words, read with one release's options. positional: what belongs to no option, the model first."""

    positional: tuple[str, ...]
    given: tuple[Given, ...]

    @property
    def model(self) -> str | None:
        """The model as vLLM resolves it: the positional one, or that of ``--model``."""
        return self.positional[0] if self.positional else self.text("--model")

    def all(self, name: str) -> Iterator[Given]:
        """Every time an option was given, by its own name; for one that the release lacks, by its spelling."""
        return (given for given in self.given if given.name == name)

    def has(self, name: str) -> bool:
        return any(True for _ in self.all(name))

    def text(self, name: str) -> str | None:
        """The value that counts, the last one; None if the option isn't given, or without a value."""
        values = [given.values[-1] for given in self.all(name) if given.values and not given.path]
        return values[-1] if values else None

    def number(self, name: str) -> float | None:
        """The value as a number; None for what isn't one, without an end, and for ``auto``."""
        text = self.text(name)
        try:
            number = None if text is None else _number(text)
        except ValueError:
            return None
        return number if number is not None and math.isfinite(number) else None

    def switch(self, name: str) -> bool | None:
        """True for ``--x``, False for ``--no-x``, None if neither is given."""
        states = [given.on for given in self.all(name)]
        return states[-1] if states else None

    def json(self, name: str) -> dict[str, Any]:
        """The value as a map, with what ``--a.b value`` adds; empty if it isn't one."""
        value: dict[str, Any] = {}
        for given in self.all(name):
            if given.path:
                _nest(value, given.path.rstrip("+").split("."), _scalar(given.values[-1]) if given.values else None)
            else:
                parsed = as_json(given.values[-1]) if given.values else None
                value |= parsed if isinstance(parsed, dict) else {}
        return value


def as_json(text: str) -> Any:
    """The value of a JSON text; None if it isn't one."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _scalar(text: str) -> Any:
    parsed = as_json(text)
    return text if parsed is None and text != "null" else parsed


def _nest(target: dict[str, object], keys: Sequence[str], value: object) -> None:
    for key in keys[:-1]:
        inner = target.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        target = inner
    target[keys[-1]] = value


def _number(text: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)([kKmMgGtT])\s*", text)
    if match is None:
        return float(text)
    base = 1000 if match[2].islower() else 1024
    return float(match[1]) * float(base ** ("kmgt".index(match[2].lower()) + 1))


def read_command(words: Sequence[str], release: Release, others: Mapping[str, Option]) -> Command:
    """Read vLLM's words. others: options of other releases, to know whether one that this release lacks has a value."""
    positional: list[str] = []
    given: list[Given] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            positional += rest
            break
        if not is_option(word):
            positional.append(word)
        else:
            given.append(_read_option(word, rest, release, others))
    return Command(tuple(positional), tuple(given))


def is_option(word: str) -> bool:
    """As argparse sees it: a dash, no space inside, no negative number."""
    return word.startswith("-") and len(word) > 1 and " " not in word and not re.fullmatch(r"-\d+|-\d*\.\d+", word)


def spelling_of(word: str) -> str:
    """An option's name as it is looked up: without value and path, with dashes for underscores."""
    name = word.partition("=")[0].partition(".")[0]
    return "--" + name[2:].replace("_", "-") if name.startswith("--") else name


def _read_option(word: str, rest: list[str], release: Release, others: Mapping[str, Option]) -> Given:
    level = re.fullmatch(r"-O=?(\d)", word)
    if level or (word == "-O" and rest[:1] and re.fullmatch(r"\d", rest[0])):
        return _level(level[1] if level else rest.pop(0), release)
    head, equals, glued = word.partition("=")
    spelling, path = spelling_of(head), head.partition(".")[2]
    found = _find(spelling, release)
    if len(found) != 1:
        return _unknown(spelling, path, found, glued if equals else None, rest, others)
    exact, option, negated = found[0]
    read = Given(spelling, option, path=path, on=not negated, abbreviated=exact != spelling)
    if not option.takes_value:
        return replace(read, surplus=glued if equals else None)
    if equals:
        return replace(read, values=(glued,))
    values = _values(Option(option.name) if path else option, rest)
    return replace(read, values=values, missing=not values and option.nargs not in ("?", "*"))


def _level(value: str, release: Release) -> Given:
    """``-O3``: an option of its own from 0.12.0 on, before the compilation's level."""
    option = release.options.get("--optimization-level")
    if option is not None:
        return Given("-O", option, (value,))
    return Given("-O", release.options.get("--compilation-config"), (value,), path="level")


def _find(spelling: str, release: Release) -> list[tuple[str, Option, bool]]:
    """The option of that spelling, or all whose long names begin with it."""
    exact = release.spellings.get(spelling)
    if exact is not None:
        return [(spelling, *exact)]
    if not spelling.startswith("--") or len(spelling) < 3:
        return []
    begun = [(name, *entry) for name, entry in release.spellings.items() if name.startswith(spelling)]
    return begun[:1] if len({(option.name, negated) for _, option, negated in begun}) == 1 else begun


def _unknown(
    spelling: str,
    path: str,
    found: Iterable[tuple[str, Option, bool]],
    glued: str | None,
    rest: list[str],
    others: Mapping[str, Option],
) -> Given:
    """An option that the release lacks, or a beginning of several. Its words are skipped as its value."""
    names = tuple(sorted(name for name, _, _ in found))
    if glued is not None:
        return Given(spelling, None, (glued,), path=path, ambiguous=names)
    known = others.get(spelling)
    values = _values(known or Option(spelling, nargs="?"), rest) if known is None or known.takes_value else ()
    return Given(spelling, None, values, path=path, ambiguous=names)


def _values(option: Option, rest: list[str]) -> tuple[str, ...]:
    """Take the words that are the option's value."""
    limit = {None: 1, "?": 1}.get(option.nargs, len(rest)) if not isinstance(option.nargs, int) else option.nargs
    values: list[str] = []
    while rest and len(values) < limit and not is_option(rest[0]) and rest[0] != "--":
        values.append(rest.pop(0))
    return tuple(values)
