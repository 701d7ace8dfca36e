# SPDX-License-Identifier: GPL-3.0-or-later
"""The plain form of a Dockerfile that a build may have, and what such a file takes from outside.

What a Dockerfile means, BuildKit alone decides: it gets a policy that denies every source but those of the build
(`running.policy`). This form is so small that nobody can read it in two ways. All else is refused in the plan.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from ..._base import worded
from ..._base.findings import Finding

# The flags that an instruction may have.
_FLAGS: Mapping[str, Sequence[str]] = {
    "FROM": ("platform",),
    "RUN": ("mount", "network"),
    "COPY": ("from", "chown", "chmod", "link", "parents", "exclude"),
    "ADD": ("checksum", "chown", "chmod", "link"),
    "HEALTHCHECK": ("interval", "timeout", "start-period", "start-interval", "retries"),
}
_OTHERS = ("ARG", "CMD", "ENTRYPOINT", "ENV", "EXPOSE", "LABEL", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR")
_MOUNT_PART = re.compile(
    r"(type|from|source|src|target|dst|destination|id|sharing|size|mode|uid|gid)=.*|ro|readonly|rw"
)
_FLAG = re.compile(r"--([a-z-]+)(?:=([A-Za-z0-9_./:@,=+*-]+))?")
_STAGE = re.compile(r"[a-z][a-z0-9_.-]*")
_SUM = re.compile(r"sha256:[0-9a-f]{64}")
# no repository, whose address ends in .git or names a branch
_DOWNLOAD = re.compile(r"https?://[A-Za-z0-9_./:@,=+~%?&-]+(?<!\.git)")


def read_dockerfile(text: str, contexts: Iterable[str], place: str) -> tuple[dict[str, str], list[Finding]]:
    """The sums of what ADD downloads, by address; and what is not of the plain form, or not pinned.

    contexts: names of images and repositories that the build declares by digest and commit. place: the file, for the
    findings.
    """
    known, stages = {*contexts, "scratch"}, list[str]()
    downloads: dict[str, str] = {}
    found: list[Finding] = []
    for number, whole in _instructions(text):
        where = f"{place}, line {number}"
        word, *words = whole.split() or [""]
        flags = [*takewhile(lambda one: one.startswith("--"), words)]
        rest = words[len(flags) :]
        wrong = _not_plain(word, flags, rest, whole)
        if wrong:
            found.append(worded.error("build-form", where, what=wrong[:120]))
            continue
        values = [(name, value) for name, _, value in (flag[2:].partition("=") for flag in flags)]
        for name in [rest[0]] if word == "FROM" else _sources(values):
            is_stage = name in stages or (word != "FROM" and name in map(str, range(len(stages))))
            if name not in known and not is_stage:
                names = ", ".join(sorted(known - {"scratch"})) or "none"
                found.append(worded.error("build-base", where, name=name[:120], known=names))
        if word == "FROM":
            stages.append(rest[2] if len(rest) > 1 else "")
        elif word == "ADD":
            sums = [value for name, value in values if name == "checksum"]
            if len(rest) == 2 and _DOWNLOAD.fullmatch(rest[0]) and len(sums) == 1 and _SUM.fullmatch(sums[0]):
                downloads[rest[0]] = sums[0]
            else:
                found.append(worded.error("build-unchecked", where, its_source=" ".join(rest[:-1])[:120]))
    return downloads, found


def _instructions(text: str) -> Iterator[tuple[int, str]]:
    """Each instruction on one line, with the number of its first; without comments. A line break is left where an
    empty line is in the middle of one, and a comment before the first one where it may be a directive."""
    whole, first, begun = "", 0, False
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip(" \t")
        if (bare.startswith("#") and (begun or "=" not in bare)) or not (bare or whole):
            continue
        first, begun = first if whole else number, True
        whole += line if bare else "\n"
        if line.endswith(" \\"):
            whole = whole[:-1]
            continue
        yield first, whole
        whole = ""
    if whole:
        yield first, whole


def _not_plain(word: str, flags: Sequence[str], rest: Sequence[str], whole: str) -> str:
    """What of an instruction is not of the plain form; empty for none."""
    is_stage = len(rest) == 1 or (len(rest) == 3 and rest[1].upper() == "AS" and _STAGE.fullmatch(rest[2]))
    for what, is_wrong in (
        ("an empty line in it, or a character that is not ASCII", not re.fullmatch(r"[\t -~]*", whole)),
        ("no instruction, or a directive", word not in (*_FLAGS, *_OTHERS) or whole[0] in " \t"),
        ("goes on otherwise than by a space and a backslash", whole.rstrip().endswith("\\")),
        ("a here-document", word in ("RUN", "COPY", "ADD") and "<<" in whole),
        ("no name of an image, and perhaps AS and a stage", word == "FROM" and not is_stage),
        ("nothing behind the instruction and its flags", not rest),
    ):
        if is_wrong:
            return f"{whole.strip()[:80]!r}: {what}"
    for flag in flags:
        found = _FLAG.fullmatch(flag)
        name, value = (found[1], found[2] or "") if found else ("", "")
        is_known = name in _FLAGS.get(word, ()) and (name, value) != ("network", "host")
        if not is_known or (name == "mount" and not all(map(_MOUNT_PART.fullmatch, value.split(",")))):
            return f"the flag {flag}"
    return ""


def _sources(flags: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Where files of an instruction come from, beside the build's own folder."""
    for name, value in flags:
        if name == "from":
            yield value
        elif name == "mount":
            yield from (part[5:] for part in value.split(",") if part.startswith("from="))
