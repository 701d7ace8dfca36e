# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Dockerfile takes from outside, and what in it would not be the same tomorrow.

Source: Dockerfile reference, as BuildKit 0.12 and newer read it (docker/docs of moby/buildkit).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..._base import worded
from ..._base.findings import Finding, error

_DIRECTIVE = re.compile(r"\s*(?:#|//)\s*(syntax|escape|check)\s*=\s*(.*)", re.IGNORECASE)
_HEREDOC = re.compile(r"(?:^|\s)\d*<<-?([\"']?)(\w+)\1(?=\s|$)")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(:?[-+])([^}]*))?\})")
_FROM_ELSEWHERE = re.compile(r"(?:https?|git|ssh)://|git@")
_CHECKED = re.compile(r"sha256:[0-9a-f]{64}")
_FLAG = re.compile(r"--([a-z-]+)(?:=(\S+))?\s+")


@dataclass(frozen=True)
class Instruction:
    """line: where it begins, from 1. word: in capitals. flags: ``(name, value)``, a name more than once too."""

    line: int
    word: str
    flags: Sequence[tuple[str, str]]
    rest: str

    def values(self, flag: str) -> list[str]:
        return [value for name, value in self.flags if name == flag]


@dataclass
class _Seen:
    """stages: names of stages so far. given: arguments before the first stage; known: all arguments and variables."""

    stages: list[str] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions of a Dockerfile, without comments and without the bodies of here-documents."""
    lines, at = text.split("\n"), 0
    while at < len(lines):
        first, whole = at, lines[at]
        at += 1
        if not whole.strip() or whole.lstrip().startswith("#"):
            continue
        while whole.rstrip().endswith("\\"):
            while at < len(lines) and (not lines[at].strip() or lines[at].lstrip().startswith("#")):
                at += 1
            whole = f"{whole.rstrip()[:-1]} {lines[at] if at < len(lines) else ''}"
            at += 1
        word, rest = [*whole.split(None, 1), ""][:2]
        if word.upper() in ("RUN", "COPY", "ADD"):
            for _quote, end in _HEREDOC.findall(whole):
                # what only looks like one, in a text in quotes, has no end
                ends = [number for number, line in enumerate(lines[at:], at) if line.strip() == end]
                at = ends[0] + 1 if ends else at
        flags = []
        rest = rest.lstrip() + " "
        while found := _FLAG.match(rest):
            flags.append((found[1], found[2] or ""))
            rest = rest[found.end() :]
        yield Instruction(first + 1, word.upper(), flags, rest.strip())


def problems(text: str, contexts: Iterable[str], arguments: Mapping[str, str], place: str) -> Iterator[Finding]:
    """What would make two builds of one Dockerfile differ, or let it out of its container.

    contexts: names of images and repositories that the build declares by digest and commit. arguments: as declared.
    place: the file, for the findings.
    """
    yield from _directives(text, place)
    seen, known = _Seen(), {*contexts}
    for instruction in instructions(text):
        where = f"{place}, line {instruction.line}"
        if instruction.word in ("ARG", "ENV"):
            _note(instruction, seen, arguments)
        elif instruction.word == "FROM":
            yield from _stage(instruction, seen, known, where)
        elif instruction.word in ("COPY", "ADD", "RUN"):
            for name in _taken(instruction):
                yield from _source(_filled(name, seen.known), seen, known, where)
        if instruction.word == "ADD":
            yield from _added(instruction, seen, where)
        if instruction.word == "RUN":
            yield from _let_out(instruction, where)


def _directives(text: str, place: str) -> Iterator[Finding]:
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), 1):
        if line.strip() and not line.lstrip().startswith(("#", "//")):
            return
        found = _DIRECTIVE.match(line)
        if found and found[1].lower() == "syntax":
            yield error(
                "build-syntax",
                f"{place}, line {number}",
                found=f"{line.strip()[:80]}, which has BuildKit fetch another reader of Dockerfiles at each build",
                expected="the one that is part of Docker, which knows cache mounts, here-documents and checksums",
                remedy="take the line out",
            )
        elif found and found[1].lower() == "escape" and found[2].strip() != "\\":
            yield worded.error("build-escape", f"{place}, line {number}", found=line.strip()[:80])


def _note(instruction: Instruction, seen: _Seen, arguments: Mapping[str, str]) -> None:
    """An argument's or a variable's value, where it is known beforehand."""
    pairs = re.findall(r"(\w+)(?:=(\"[^\"]*\"|'[^']*'|\S*))?", instruction.rest)
    for name, value in pairs:
        default = _filled(value.strip("\"'"), seen.known)
        if instruction.word == "ARG":
            default = arguments.get(name, default or seen.given.get(name, ""))
            if not seen.stages:
                seen.given[name] = default
        seen.known[name] = default


def _filled(text: str, known: Mapping[str, str]) -> str:
    """With variables filled in; one that nobody has set stays as it is written."""

    def value(found: re.Match[str]) -> str:
        name, how, other = found[1] or found[2], found[3], found[4]
        if how and how.endswith("+"):
            return other if known.get(name) else ""
        return known.get(name) or (other if how else found[0])

    return _VARIABLE.sub(value, text)


def _stage(instruction: Instruction, seen: _Seen, known: set[str], where: str) -> Iterator[Finding]:
    image, *name = re.split(r"\s+as\s+", instruction.rest, maxsplit=1, flags=re.IGNORECASE)
    # an argument before the first stage is what a FROM sees, whatever stages call theirs
    yield from _source(_filled(image, seen.given), seen, known, where)
    seen.stages.append(name[0].lower() if name else "")


def _taken(instruction: Instruction) -> Iterator[str]:
    """Where files of an instruction come from, beside the build's own folder."""
    yield from instruction.values("from")
    for mount in instruction.values("mount"):
        parts = dict(part.partition("=")[::2] for part in mount.split(","))
        if "from" in parts:
            yield parts["from"]


def _source(name: str, seen: _Seen, known: set[str], where: str) -> Iterator[Finding]:
    is_stage = name.lower() in seen.stages or (name.isdigit() and int(name) < len(seen.stages))
    if name in known or name == "scratch" or is_stage:
        return
    yield worded.error("build-base", where, name=name[:120], known=", ".join(sorted(known)) or "none")


def _added(instruction: Instruction, seen: _Seen, where: str) -> Iterator[Finding]:
    """What ADD fetches by itself, outside of the container and so also without a network."""
    words = _listed(instruction.rest)[:-1]
    sums = [_filled(value, seen.known) for value in instruction.values("checksum")]
    for word in words:
        source = _filled(word, seen.known)
        if (_FROM_ELSEWHERE.match(source) or source.startswith("$")) and not any(map(_CHECKED.fullmatch, sums)):
            yield worded.error("build-unchecked", where, its_source=source[:120])


def _listed(words: str) -> list[str]:
    if words.startswith("["):
        try:
            return [str(word) for word in json.loads(words)]
        except ValueError:
            pass
    return words.split()


def _let_out(instruction: Instruction, where: str) -> Iterator[Finding]:
    for flag, unwanted in (("network", "host"), ("security", "insecure")):
        if unwanted in instruction.values(flag):
            yield worded.error("build-privilege", where, flag=flag, unwanted=unwanted)
