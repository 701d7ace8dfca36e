# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands in the documents can be typed, and a test on the lab runs those of tutorials and how-to pages.

tests/data/commands.yml has a row for each kind of command: a playbook with its extra variables. ``run`` is a file or
folder of tests that runs it; ``not_run`` is the reason why none does.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import yaml
from ansible.cli.playbook import PlaybookCLI

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDED = ("tutorial", "how-to")
# Indented as code, or between fences; in a line of prose between backticks.
_BLOCK = re.compile(r"^( *)```\w*\n(.*?)^ *```|^((?: {4}\S.*\n)+)", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`((?:ansible-playbook|gb10) [^`]+)`")
_STARTS = re.compile(
    r"[#$]? ?((?:ansible-playbook|gb10|\./demo|\./test|tests/lab/lab|pipx|uvx?|ansible-galaxy)(?: .*)?)"
)
# Of the command gb10: the playbook of each verb.
_VERBS = {"up": "site"}
# Words in place of a value, a list of alternatives, or text that goes on.
_PLACEHOLDER = re.compile(r"\.\.\.|…|[\[\]|]|<\w")


@dataclass(frozen=True)
class Command:
    page: str
    line: str
    words: tuple[str, ...]

    @property
    def playbook(self) -> str | None:
        """Its name in playbooks/, None for another program."""
        if self.words[0] == "gb10":
            return _VERBS.get(self.words[1], self.words[1])
        if self.words[0] != "ansible-playbook":
            return None
        named = [word for word in self.words[1:] if re.search(r"\.ya?ml$", word) or word.startswith("gb10.fleet.")]
        name = next(word for word in named if not re.search(r"hosts\.yml$|\.gb10\.yml$", word))
        return Path(name).stem.replace("-", "_") if name.endswith("yml") else name.rpartition(".")[2]

    @property
    def variables(self) -> list[str]:
        """The names of its extra variables."""
        values = [value for option, value in zip(self.words, self.words[1:], strict=False) if option == "-e"]
        return [value.partition("=")[0] for value in values if re.match(r"\w+=", value)]

    @property
    def kind(self) -> str:
        """As rows of commands.yml name it."""
        if self.playbook is None:
            return " ".join(word for word in self.words[:3] if not word.startswith("-"))
        check = ["--check"] if "--check" in self.words else []
        return " ".join([self.playbook, *sorted(self.variables), *check])


def _command(page: Path, line: str) -> Command | None:
    found = _STARTS.fullmatch(line.strip())
    if found is None or _PLACEHOLDER.search(found[1].partition(" #")[0]):
        return None
    try:
        words = tuple(shlex.split(found[1], comments=True))
    except ValueError:
        return None
    return Command(str(page.relative_to(ROOT)), line.strip(), words)


def commands(page: Path) -> Iterator[Command]:
    """Of its blocks."""
    for block in _BLOCK.finditer(page.read_text("utf-8")):
        for line in (block[2] or block[3]).replace("\\\n", " ").splitlines():
            command = _command(page, line)
            if command is not None:
                yield command


def inline(page: Path) -> Iterator[Command]:
    for found in _INLINE.finditer(re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)):
        command = _command(page, " ".join(found[1].split()))
        if command is not None and len(command.words) > 1 and re.search(r"yml|gb10", command.line):
            yield command


ALL = [command for page in PAGES for command in (*commands(page), *inline(page))]
TYPED = [command for page in PAGES if page.parent.name in GUIDED for command in commands(page)]
ROWS: dict[str, dict[str, str]] = yaml.safe_load((ROOT / "tests" / "data" / "commands.yml").read_text("utf-8"))


@cache
def declared() -> str:
    """All text that may take an extra variable."""
    places = [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").glob("*/meta/argument_specs.yml")]
    places += [path for name in ("defaults", "tasks") for path in (ROOT / "roles").glob(f"*/{name}/*.yml")]
    code = [ROOT / "plugins" / "module_utils" / "_plan" / "declared.py", *(ROOT / "plugins" / "action").glob("*.py")]
    return "\n".join(path.read_text("utf-8") for path in (*places, *code))


@pytest.mark.parametrize("command", ALL, ids=lambda one: f"{one.page}: {one.line[:70]}")
def test_a_command_can_be_typed(command: Command) -> None:
    if command.playbook is None:
        if "/" in command.words[0]:
            assert (ROOT / command.words[0]).exists()
        return
    assert (ROOT / "playbooks" / f"{command.playbook}.yml").exists(), command.line
    unknown = [name for name in command.variables if not re.search(rf"\b{name}\b", declared())]
    assert unknown == [], command.line
    if command.words[0] == "ansible-playbook":
        cli = PlaybookCLI([*command.words])
        cli.init_parser()
        cli.parser.parse_args([*command.words[1:]])  # ends the test if it does not know an option


def texts(place: str) -> str:
    path = ROOT / place
    files = [path] if path.is_file() else [*path.rglob("*.py"), *path.rglob("*.yml")]
    text = "\n".join(file.read_text("utf-8") for file in files)
    # Some tests type the commands of a page.
    return "\n".join([text, *(page.read_text("utf-8") for page in PAGES if f'"{page.name}")' in text)])


def test_each_kind_of_command_has_a_row() -> None:
    assert ROWS.keys() == {command.kind for command in TYPED}


@pytest.mark.parametrize("kind", ROWS)
def test_a_command_of_a_guide_is_run_by_a_test(kind: str) -> None:
    row = ROWS[kind]
    assert len(row) == 1, kind
    if "not_run" in row:
        assert len(row["not_run"].split()) >= 4, "say why"
        return
    text = texts(row["run"])
    playbook, *words = kind.split()
    name = playbook.rpartition("/")[2].replace("_", "[_-]")
    assert re.search(rf"\b{name}\b", text), f"{row['run']} names no {playbook}"
    missing = [word for word in words if not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)]
    assert missing == [], f"{row['run']} sets no such variable or option"
