# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each line of README's chapter "Install", typed in an account without anything, and a plan by what it brought.

A clone of this checkout stands for GitHub; PyPI is the real one, or the mirror that pip's own settings name.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GITHUB = "https://github.com/gb10-fleet/gb10.fleet"
LIMIT_S = 600


def printed() -> list[str]:
    chapter = (ROOT / "README.md").read_text().partition("## Install")[2]
    lines = chapter.partition("```sh\n")[2].partition("```")[0].splitlines()
    return [line.partition("#")[0].strip() for line in lines]


LINES = printed()
ARTIFACT = "ansible-galaxy collection build --output-path dist CLONE && ansible-galaxy collection install dist/*.tar.gz"
# Where a line puts ansible-playbook, and what has to be there before it.
HAS_DISTLIB = "pipx install ansible-core && pipx inject ansible-core distlib && "


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pipx and uv, as a distribution brings them, and the clone."""
    folder = tmp_path_factory.mktemp("tools")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=LIMIT_S)
    pip = [str(folder / "venv/bin/pip"), "-q", "install", "pipx", "uv"]
    subprocess.run(pip, check=True, timeout=LIMIT_S, stderr=subprocess.DEVNULL)
    subprocess.run(["git", "clone", "-q", ROOT, folder / "clone"], check=True, timeout=LIMIT_S)
    (folder / "bin").mkdir()
    for name in ("pipx", "uv", "uvx"):
        (folder / "bin" / name).symlink_to(folder / "venv/bin" / name)
    (folder / "bin/python3").symlink_to(sys.executable)
    return folder


def typed(tools: Path, home: Path, command: str) -> str:
    path = f"{home}/.local/bin:{tools}/bin:/usr/bin:/bin"
    mine = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_", "REQUESTS_"))}
    environment = mine | {"HOME": str(home), "PATH": path, "LC_ALL": "C.UTF-8", "UV_PYTHON": sys.executable}
    environment |= {"PIPX_DEFAULT_PYTHON": sys.executable}
    command = command.replace(GITHUB, f"file://{tools}/clone").replace("CLONE", f"{tools}/clone")
    done = subprocess.run(
        ["bash", "-c", command], cwd=home, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_the_chapter_has_the_ways_that_are_typed_here() -> None:
    assert [line.split()[0] for line in LINES] == ["pipx", "uv", "git", "ansible-galaxy", "uvx"]


@pytest.mark.parametrize("line", [*LINES, ARTIFACT], ids=["pipx", "uv", "clone", "galaxy", "uvx", "artifact"])
def test_what_is_installed_plans(tools: Path, tmp_path: Path, line: str) -> None:
    before = (
        HAS_DISTLIB if line.startswith("ansible-galaxy") else "pipx install ansible-core && " if "clone" in line else ""
    )
    typed(tools, tmp_path, before + line.replace("git clone http", "git clone -q http"))
    plan = "ansible-playbook {} -i {}/inventories/example"
    where = str(tools / "clone")
    way = ("uvx --from ansible-core " if line.startswith("uvx") else "") + plan.format("gb10.fleet.plan", where)
    if line.startswith("git clone"):
        way = "cd clone && " + plan.format("plan.yml", ".")
    shown = typed(tools, tmp_path, way)
    assert re.search(r"^service +on +fits", shown, re.MULTILINE)
    if line.startswith(("pipx", "uv tool")):
        assert "gb10 VERB" in typed(tools, tmp_path, "gb10 --help")
