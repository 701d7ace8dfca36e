# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On hosts whose sudo asks for a password, as on DGX OS, every documented playbook works with -K."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.disk import OWNER_PASSWORD
from lab.vllm import images

from .bare import two_hosts
from .pair import NAME, ROOT, SCENARIO, Pair, declared

pytestmark = pytest.mark.whole
SERVICE = ("--extra-vars", f"service={NAME}")
# In the order in which an owner meets them. `doctor` ends with 1 where something is in the way, `drift` with 2.
COMMANDS = {
    "doctor": (),
    "plan": (),
    "fabric": (),
    "site": (),
    "cluster_tp2": (),
    "stage": (),
    "verify": (),
    "drift": (),
    "status": (),
    "stop": SERVICE,
    "restart": SERVICE,
    "rollout": (*SERVICE, "--check"),
    "update": ("--check",),
    "remove": ("--limit", "spark-2,spark-3", "--check"),
}
# They touch no host; and the timer's own check can't ask anybody: it needs the rule that `doctor` names.
WITHOUT = {
    "recipe_import",
    "recipe_lint",
    "recipe_new",
    "shelf",
    "drift_timer",
    "bundle",
    "explain",
    "export",
    "publish",
}
# Their own labs give the same password: tests/newcomer, molecule/bench, tests/tune and tests/pull.
ELSEWHERE = {"init", "try", "bench", "tune", "pull"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_hosts(images.STAND_IN, Path(tmp_path_factory.mktemp("pair"))) as (fleet, _):
        yield Pair(fleet, declared() | {"api_key_file": str(SCENARIO / "key.txt")})


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lab's, without titan and without the password."""
    folder = Path(tmp_path_factory.mktemp("inventory")) / "lab"
    shutil.copytree(ROOT / "inventories" / "lab", folder, ignore=shutil.ignore_patterns(".fleet*", "*.retry"))
    connection = folder / "group_vars" / "all" / "connection.yml"
    kept = [line for line in connection.read_text().splitlines() if "become_password" not in line]
    connection.write_text("\n".join(kept) + "\n")
    (folder / "hosts.yml").write_text("all: {hosts: {spark-2: {}, spark-3: {}}}\n")
    return folder


def documented() -> set[str]:
    """The playbooks that README and docs give a command for."""
    texts = [path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))]
    lines = [line for text in texts for line in re.findall(r"ansible-playbook ([^`\n]*)", text)]
    words = (word.removeprefix("gb10.fleet.").removesuffix(".yml") for line in lines for word in line.split())
    names = {word.rpartition("/")[2].replace("-", "_") for word in words}
    return names & {path.stem for path in (ROOT / "playbooks").glob("*.yml")}


def test_every_documented_playbook_is_one_of_these() -> None:
    assert documented() == {*COMMANDS, *WITHOUT, *ELSEWHERE}


@pytest.mark.parametrize("name", COMMANDS)
def test_it_works_with_the_password_that_is_asked_for(pair: Pair, inventory: Path, name: str) -> None:
    began = time.monotonic()
    words = ("--inventory", str(inventory), f"gb10.fleet.{name}", *COMMANDS[name])
    done = pair.playbook("--ask-become-pass", *words, typed=f"{OWNER_PASSWORD}\n")
    print(f"\n{name}: {time.monotonic() - began:.0f} s")
    assert done.returncode in ((0, 2) if name == "drift" else (0,)), done.stdout[-3000:] + done.stderr[-1000:]
    assert "UNREACHABLE" not in done.stdout
    assert OWNER_PASSWORD not in re.findall("password.*", done.stdout)


def test_without_it_the_first_thing_that_is_read_names_it(pair: Pair, inventory: Path) -> None:
    done = pair.playbook("--inventory", str(inventory), "gb10.fleet.site")
    assert done.returncode != 0
    assert "-K" in done.stdout
