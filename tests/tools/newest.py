# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the unit tests that touch Ansible, a syntax check of every playbook and plan.yml on the newest ansible-core.

That line needs Python 3.12. Where none is found, it exits with 77 and says so. The tests of pure functions, most
of all, are left to the other line (`unit`): they know nothing of Ansible.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "tests" / "unit"
PLUGIN_UTILS = ROOT / "plugins" / "plugin_utils"
VENV = ROOT / ".venv-newest"
LOCK = ROOT / "requirements" / "newest.txt"
UV = ROOT / ".venv" / "bin" / "uv"
SKIP = 77
ANSIBLE = re.compile(
    r"^\s*(from|import) ansible[. ]"
    r"|fleet\.plugins(\.| import )(?!module_utils|plugin_utils)"
    r'|"ansible-\w+"|"-m", "ansible"',
    re.MULTILINE,
)


def pythons() -> Iterator[str]:
    """Whatever may be a Python >= 3.12, the oldest line first: the one that Ubuntu 24.04 and DGX OS have."""
    yield sys.executable
    for line in ("3.12", "3.13", "3.14"):
        yield from sorted(map(str, Path.home().glob(f".pyenv/versions/{line}*/bin/python3")))
        yield from filter(None, [shutil.which(f"python{line}")])


def is_new_enough(python: str) -> bool:
    """False also for pyenv's shims of versions that aren't switched on: they exist and fail."""
    check = "import sys; sys.exit(sys.version_info < (3, 12))"
    return subprocess.run((python, "-c", check), capture_output=True, check=False).returncode == 0


def prepare(python: str) -> None:
    """.venv-newest with exactly what newest.txt says; nothing to do where it was made from the same."""
    stamp = VENV / ".locked"
    if stamp.exists() and stamp.read_text() == LOCK.read_text():
        return
    subprocess.run((UV, "venv", "-q", "--clear", "--python", python, VENV), check=True)
    install = (UV, "pip", "install", "-q", "--system-certs", "--python", VENV, "--require-hashes", "-r", LOCK)
    subprocess.run(install, check=True)
    stamp.write_text(LOCK.read_text())


@dataclass
class Part:
    """What a test file, or a helper of tests, has under one name. uses: names that stand in it, with their files."""

    touches: bool = False
    uses: set[tuple[Path, str]] = field(default_factory=set)


@cache
def parts(path: Path) -> dict[str, Part]:
    """Of a file's functions, classes, constants and imports. A fixture counts as used by who has its name."""
    text = path.read_text("utf-8")
    lines, found = text.splitlines(), dict[str, Part]()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for one in node.names:
                _imported(node, one, found)
            continue
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        source = "\n".join(lines[first - 1 : node.end_lineno])
        for name in _bound(node):
            part = found.setdefault(name, Part())
            part.touches |= bool(ANSIBLE.search(source))
            part.uses |= {(path, word) for word in re.findall(r"\w+", source)}
    return found


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        # what runs for all tests of its file
        return {node.name, *(["autouse"] if any("autouse" in ast.unparse(one) for one in node.decorator_list) else [])}
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def _imported(node: ast.Import | ast.ImportFrom, one: ast.alias, found: dict[str, Part]) -> None:
    module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
    words = f"from {module} import {one.name}" if module else f"import {one.name}"
    helpers = (PLUGIN_UTILS / f"{name}.py" for name in re.findall(r"plugin_utils(?:\.| import )(\w+)", words))
    texts = (words, *(path.read_text("utf-8") for path in helpers))
    part = found.setdefault((one.asname or one.name).partition(".")[0], Part())
    part.touches |= any(ANSIBLE.search(text) for text in texts)
    places = (folder / f"{module or one.name}.py" for folder in (UNIT, UNIT.parent))
    part.uses |= {(path, name) for path in places if path.is_file() for name in ([one.name] if module else parts(path))}


def touching(path: Path) -> list[str]:
    """The tests of a file that come to Ansible: by what they are made of, and what that is made of."""
    of_all = "autouse" in parts(path) and _reached(path, "autouse")
    tests = [
        node.name
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    ]
    return [name for name in tests if name.lower().startswith("test") and (of_all or _reached(path, name))]


def _reached(path: Path, name: str) -> bool:
    waiting, seen = [(path, name)], set[tuple[Path, str]]()
    while waiting:
        place = waiting.pop()
        part = parts(place[0]).get(place[1])
        if part is None or place in seen:
            continue
        if part.touches:
            return True
        seen.add(place)
        waiting += part.uses
    return False


def main() -> int:
    python = next(filter(is_new_enough, pythons()), None)
    if python is None:
        print("no Python 3.12 or newer is on PATH or among pyenv's, and the newest ansible-core needs one")
        return SKIP
    prepare(python)
    tests = [f"{path}::{name}" for path in sorted(UNIT.glob("test_*.py")) for name in touching(path)]
    playbook = str(VENV / "bin" / "ansible-playbook")
    example = ("-i", "inventories/example")
    shims = sorted(path.name for path in ROOT.glob("*.yml") if "import_playbook" in path.read_text())
    playbooks = sorted(f"gb10.fleet.{path.stem}" for path in (ROOT / "playbooks").glob("*.yml"))
    commands: list[tuple[str, ...]] = [
        (playbook, "--version"),
        (str(VENV / "bin" / "pytest"), "-m", "not hypothesis", *tests),
        (playbook, *example, "--syntax-check", *shims, *playbooks),
        (playbook, *example, "plan.yml"),
    ]
    environment = os.environ | {"PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    codes = [subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode for command in commands]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
