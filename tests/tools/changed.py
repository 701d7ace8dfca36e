# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run what a change touches, in seconds: ruff and yamllint on its files, and the unit tests nearest to them.

    changed.py [BASE]    since the commit where this branch left BASE (main), with what is not committed yet

Nearest are a changed test, tests of the changed file's name, and tests that import it, else those that import what
imports it. Of a widely used file these are many: the best named are run, and the others are counted. `./test unit` runs
all.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
UNIT = "tests/unit"
PRODUCT = "ansible_collections.gb10.fleet."
# Tests of all files of a kind, whatever they import.
ALWAYS = ("test_directions.py", "test_words.py")
OF_FOLDERS = {
    "changelogs": ("test_documents.py",),
    "docs": ("test_documents.py",),
    "playbooks": ("test_documents.py", "test_roles.py"),
    "plugins/action": ("test_plugin_documentation.py",),
    "plugins/filter": ("test_documents.py",),
    "plugins/modules": ("test_documents.py", "test_plugin_documentation.py"),
    "recipes": ("test_documents.py", "test_golden.py", "test_recipes_shipped.py"),
    "roles": ("test_documents.py", "test_roles.py"),
    "tests/tools": ("test_gates.py",),
}
# Of each changed file.
MOST = 8
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+(\S+)[ \t]+import[ \t]+(\([^)]*\)|.*)|import[ \t]+(.+))", re.MULTILINE)
# Where tests find modules of their own, as pytest's path has it.
_HELPERS = (UNIT, "tests", "tests/tools")


def changes(base: str) -> list[str]:
    """Files that are there now, relative to the root."""
    since = _git("merge-base", base, "HEAD")[0]
    named = [*_git("diff", "--name-only", since), *_git("ls-files", "--others", "--exclude-standard")]
    return sorted({name for name in named if (ROOT / name).is_file()})


def _git(*words: str) -> list[str]:
    done = subprocess.run(("git", *words), cwd=ROOT, text=True, capture_output=True, check=False)
    if done.returncode and done.stderr:
        sys.exit(f"git {words[0]}: {done.stderr.strip()}; expected a commit of this clone: ./test --changed BASE")
    return done.stdout.splitlines()


@cache
def imported(file: str) -> frozenset[str]:
    """The files of this checkout that a Python file imports."""
    found = set()
    for module, names, plain in _IMPORT.findall((ROOT / file).read_text("utf-8")):
        words = re.findall(r"\w+(?=[ \t]*(?:,|\)|\n|$|#|[ \t]as\b))", names) if module else []
        for name in [module] if module else re.findall(r"[\w.]+", plain):
            for path in _paths(file, name):
                found |= {place for place in (f"{path}.py", f"{path}/__init__.py") if (ROOT / place).is_file()}
                found |= {place for word in words if (ROOT / (place := f"{path}/{word}.py")).is_file()}
    return frozenset(found)


def _paths(file: str, module: str) -> Iterator[str]:
    """Where a module may be, without its suffix."""
    dots = len(module) - len(module.lstrip("."))
    if dots:
        yield "/".join([*PurePosixPath(file).parts[:-dots], *filter(None, module[dots:].split("."))])
    elif module.startswith(PRODUCT):
        yield module.removeprefix(PRODUCT).replace(".", "/")
    else:
        yield from (f"{folder}/{module.replace('.', '/')}" for folder in _HELPERS)


def files(folder: str) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.py"))


def nearest(changed: str, importers: Mapping[str, Iterable[str]]) -> list[str]:
    """The tests of its name, and those that import it, else those that import what does; best named first.

    importers: by file. A file that nobody imports by its name is its package.
    """
    words = {*re.findall(r"[a-z]+", changed)}
    found = {test for test in files(UNIT) if _is_test(test) and _words(test) <= words}
    place = PurePosixPath(changed)
    while place.suffix == ".py" and str(place) not in importers and len(place.parts) > 4:
        place = place.parent.parent / "__init__.py" if place.name == "__init__.py" else place.with_name("__init__.py")
    seen, ring, tests = {str(place)}, {str(place)}, set[str]()
    while ring and not tests:
        ring = {other for file in ring for other in importers.get(file, ())} - seen
        seen |= ring
        tests = {file for file in ring if _is_test(file)}
    return sorted(found | tests, key=lambda test: (-len(_words(test) & words), test))


def _words(test: str) -> set[str]:
    """What a test file's name says that it is about."""
    return {*re.findall(r"[a-z]+", PurePosixPath(test).stem)[1:]}


def _is_test(file: str) -> bool:
    return PurePosixPath(file).parent == PurePosixPath(UNIT) and PurePosixPath(file).name.startswith("test_")


def chosen(changed: Iterable[str]) -> tuple[list[str], set[str]]:
    """The tests to run, and further ones that import a changed file."""
    changed = [*changed]
    importers: dict[str, set[str]] = {}
    for file in [*files("plugins"), *files(UNIT), *files("tests/tools")]:
        for other in imported(file):
            importers.setdefault(other, set()).add(file)
    run, left = {f"{UNIT}/{name}" for name in ALWAYS}, set[str]()
    for file in changed:
        for data, readers in (("data/", "plugins/*.py"), ("tests/data/", f"{UNIT}/*.py")):
            if file.startswith(data):
                importers[file] = {*_git("grep", "-lF", PurePosixPath(file).stem, "--", readers)}
        near = [file] if _is_test(file) else nearest(file, importers)
        run |= {*near[:MOST]}
        left |= {*near[MOST:]}
        of_folders = (names for folder, names in OF_FOLDERS.items() if file.startswith(f"{folder}/"))
        run |= {f"{UNIT}/{name}" for names in of_folders for name in names}
    return sorted(run), left - run


def main(base: str) -> int:
    changed = changes(base)
    tests, left = chosen(changed)
    yaml = [file for file in changed if file.endswith((".yml", ".yaml"))]
    print(f"{len(changed)} files changed since {base}: {len(tests)} test files; further ones: {len(left)}", flush=True)
    commands = [
        [str(BIN / "ruff"), "check", "--force-exclude", *(file for file in changed if file.endswith(".py"))],
        [str(BIN / "yamllint"), "--strict", *yaml],
        [sys.executable, "-m", "pytest", "--numprocesses=2", *tests],
    ]
    codes = [subprocess.run(words, cwd=ROOT, check=False).returncode for words in commands if words[-1][0] != "-"]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or ["main"])))
