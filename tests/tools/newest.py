# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the unit tests that touch Ansible, a syntax check of every playbook and plan.yml on the newest ansible-core.

That line needs Python 3.12. Where none is found, it exits with 77 and says so. The tests of pure functions, two files
of three, are left to the other line (`unit`): they know nothing of Ansible.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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


def touches_ansible(test: Path) -> bool:
    """Whether it imports Ansible or a plugin of ours that does, or starts one of Ansible's programs."""
    text = test.read_text("utf-8")
    helpers = {PLUGIN_UTILS / f"{name}.py" for name in re.findall(r"plugin_utils(?:\.| import )(\w+)", text)}
    return any(ANSIBLE.search(one) for one in (text, *(path.read_text("utf-8") for path in helpers)))


def main() -> int:
    python = next(filter(is_new_enough, pythons()), None)
    if python is None:
        print("no Python 3.12 or newer is on PATH or among pyenv's, and the newest ansible-core needs one")
        return SKIP
    prepare(python)
    tests = sorted(str(path) for path in (ROOT / "tests" / "unit").glob("test_*.py") if touches_ansible(path))
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
