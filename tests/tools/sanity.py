# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the collection, installs the artifact as a user would, and runs `ansible-test sanity` on what was installed.

ansible-test keeps its virtual environments below HOME: here a folder of .cache, so that nothing is written to the
user's own and `make clean` removes them.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pip

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".cache" / "sanity"
UTILITIES = "ansible_collections.gb10.fleet.plugins.module_utils."
PYTHON_LINE = f"{sys.version_info.major}.{sys.version_info.minor}"
# shellcheck: no shell script ships. pep8, pylint: ruff has their rules; these two want other indents, and forbid `_`
# for a value that isn't used. no-assert: assertions tell mypy what the code has made sure of; no input meets one.
SKIPPED = ("no-assert", "pep8", "pylint", "shellcheck")
# ansible-test fetches pip from a server of the Ansible project, for each of its seven environments. Ours is enough,
# since the release of each package that it installs is given; Python's own way to one takes 4 s each time.
GET_PIP = f"""\
import shutil, sysconfig
shutil.copytree({str(Path(pip.__file__).parent)!r}, sysconfig.get_path("purelib") + "/pip")
"""


def environment() -> dict[str, str]:
    """pyenv's shims name Pythons that don't run; ansible-test would take them for real ones."""
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if not part.endswith("/shims"))
    return os.environ | {"PATH": path, "HOME": str(HOME)}


def install_artifact(place: Path) -> Path:
    """The folder of the collection, installed below `place` from its freshly built artifact."""
    settings = environment() | {"ANSIBLE_COLLECTIONS_PATH": str(place)}
    galaxy = ("ansible-galaxy", "collection")
    subprocess.run((*galaxy, "build", "--output-path", place, ROOT), check=True, env=settings)
    (artifact,) = place.glob("*.tar.gz")
    subprocess.run((*galaxy, "install", "--no-deps", "-p", place, artifact), check=True, env=settings)
    return place / "ansible_collections" / "gb10" / "fleet"


def not_for_hosts(collection: Path) -> list[str]:
    """Utilities that no module takes to a host, by what modules import, directly or not.

    ansible-test imports every utility without Ansible's own requirements, as a host would; these run on the
    controller alone, where Ansible brings PyYAML.
    """
    utilities = collection / "plugins" / "module_utils"
    files = {f"{UTILITIES}{'.'.join(path.relative_to(utilities).with_suffix('').parts)}": path
             for path in utilities.rglob("*.py")}  # fmt: skip
    taken: set[Path] = set()
    waiting = [*(collection / "plugins" / "modules").glob("*.py")]
    while waiting:
        path = waiting.pop()
        for name in imported(path):
            file = files.get(name) or files.get(f"{name}.__init__")
            if file is not None and file not in taken:
                taken.add(file)
                waiting.append(file)
    return sorted(str(path.relative_to(collection)) for path in {*files.values()} - taken)


def imported(path: Path) -> set[str]:
    """The dotted names that a file imports, packages on the way included."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            package = node.module or ""
            if node.level:  # files of the collection import each other relatively
                above = path.parents[node.level - 1].parts
                start = len(above) - above[::-1].index("ansible_collections") - 1
                package = ".".join((*above[start:], *filter(None, [package])))
            names |= {package, *(f"{package}.{alias.name}" for alias in node.names)}
    return {".".join(name.split(".")[:end]) for name in names for end in range(5, name.count(".") + 2)}


def ignore_imports(collection: Path) -> None:
    folder = collection / "tests" / "sanity"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{path} import-{PYTHON_LINE}!skip\n" for path in not_for_hosts(collection)]
    # The steps of our own playbooks are no modules: data/steps.yml describes their options, and
    # tests/unit/test_plugin_documentation.py holds that each action has a module or a row there.
    modules = {path.stem for path in (collection / "plugins" / "modules").glob("*.py")}
    actions = sorted(path.stem for path in (collection / "plugins" / "action").glob("*.py"))
    lines += [f"plugins/action/{name}.py action-plugin-docs\n" for name in actions if name not in modules]
    release = ".".join(version("ansible-core").split(".")[:2])
    (folder / f"ignore-{release}.txt").write_text("".join(lines), encoding="utf-8")


def offer_pip() -> None:
    for name in ("get_pip_24_2.py", "get_pip_25_2.py"):
        stub = HOME / ".ansible" / "test" / "cache" / name
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text(GET_PIP)


def main() -> int:
    offer_pip()
    skipped = [word for test in SKIPPED for word in ("--skip-test", test)]
    command = ("ansible-test", "sanity", "--color", "no", "--python", PYTHON_LINE, *skipped)
    # outside any checkout: inside one, ansible-test asks git for the files, and git knows none of an artifact's
    with tempfile.TemporaryDirectory(prefix="gb10-fleet-sanity-") as place:
        collection = install_artifact(Path(place))
        ignore_imports(collection)
        return subprocess.run(command, cwd=collection, env=environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
