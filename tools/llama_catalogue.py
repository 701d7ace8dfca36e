# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep ``data/llama_cpp_catalogue.json``: what a release's own program prints of its options.

python tools/llama_catalogue.py llama-server                 the program on this machine
python tools/llama_catalogue.py docker run --rm IMAGE        an image whose entrypoint it is
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp import catalogue  # noqa: E402

# A line of an option begins at its left edge; what belongs to it is indented by so much.
_TEXT_AT = 40
_NAME = re.compile(r"--?[A-Za-z0-9][\w.-]*")
_CHOICES = re.compile(r"[\[{<]([\w+-]+(?:[|,][\w+-]+)+)[\]}>]")
_VERSION = re.compile(r"version: (\d+\.\d+\.\d+\S*) \(build (\d+)")
_GONE = "the argument has been removed"


def main(words: list[str]) -> int:
    if not words:
        print(__doc__, file=sys.stderr)
        return 2
    version, build = read_version(_printed([*words, "--version"]))
    rows = [asdict(option) for option in read_help(_printed([*words, "--help"]))]
    release = catalogue.release_of(version, rows, catalogue.LlamaOption, build)
    catalogue.DATA.write_text(as_json({**catalogue.load(), version: release}), encoding="utf-8")
    print(f"{version}: build {build}, {len(rows)} options")
    return 0


def read_version(text: str) -> tuple[str, int]:
    """What `llama-server --version` prints. Raises ValueError."""
    found = _VERSION.search(text)
    if found is None:
        raise ValueError(f"no line `version: 0.7.0 (build 11669, ...)` in {text[:200]!r}")
    return found[1], int(found[2])


def read_help(text: str) -> Iterator[catalogue.LlamaOption]:
    """The options of what `llama-server --help` prints."""
    for lines in _paragraphs(text):
        head, described = _split(lines)
        names = []
        while (found := _NAME.match(head)) is not None:
            names.append(found.group())
            head = head[found.end() :].lstrip(", ")
        positive = tuple(name.lstrip("-") for name in names if name.startswith("--") and not name.startswith("--no-"))
        negative = tuple(name.lstrip("-") for name in names if name.startswith("--no-"))
        if not positive:
            positive, negative = negative, ()
        choices = _CHOICES.fullmatch(head)
        listed = re.search(r"allowed values: (.+?)(?: \(|$)", described)
        values = re.split(r"[|,]", choices[1]) if choices else re.split(r",\s*", listed[1]) if listed else []
        gone = described.partition(_GONE)[2].partition("(env")[0].strip(" .") if _GONE in described else ""
        short = tuple(name.lstrip("-") for name in names if not name.startswith("--"))
        if positive:
            yield catalogue.LlamaOption(positive, negative, choices=tuple(values), gone=gone, value=head, short=short)


def _paragraphs(text: str) -> Iterator[list[str]]:
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("-") and not line.startswith("---"):
            if lines:
                yield lines
            lines = [line]
        elif lines and line.startswith(" "):
            lines.append(line)
    if lines:
        yield lines


def _split(lines: list[str]) -> tuple[str, str]:
    """An option's names with its value, and what is said of it."""
    first = lines[0]
    # names are padded to a column where they are short enough
    whole = len(first) <= _TEXT_AT or first[_TEXT_AT - 1] != " "
    head, described = (first, "") if whole else (first[:_TEXT_AT], first[_TEXT_AT:])
    return " ".join(head.split()), " ".join([described, *(line.strip() for line in lines[1:])]).strip()


def as_json(releases: Mapping[str, catalogue.Release[catalogue.LlamaOption]]) -> str:
    """The file's text: each option once."""
    rows: dict[str, Any] = {}
    for version, release in sorted(releases.items()):
        options = sorted({*release.options.values()}, key=lambda option: option.names)
        rows[version] = {"build": release.build, "options": [_short(option) for option in options]}
    return json.dumps({"releases": rows}, indent=1, sort_keys=True) + "\n"


def _short(option: catalogue.LlamaOption) -> dict[str, Any]:
    return {name: value for name, value in asdict(option).items() if value}


def _printed(words: list[str]) -> str:
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
