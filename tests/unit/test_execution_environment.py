# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution environment as far as it can be made without a registry: ansible-builder's context, and its own steps.

That a job in it brings what programs read: molecule/drift_timer.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.artifact import of_plan, of_proof, of_ranks

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LOCK = "requirements/execution_environment.txt"
HAS_BUILDER = pytest.mark.skipif(
    not (BIN / "ansible-builder").exists(), reason="the tools of requirements/tools.txt have it, newest.txt not"
)


def version(file: str, package: str) -> str:
    (found,) = re.findall(rf"^{package}==(\S+)", (ROOT / file).read_text(), re.MULTILINE)
    return str(found)


def test_it_runs_what_the_tests_run() -> None:
    definition = yaml.safe_load((ROOT / "execution-environment.yml").read_text())
    release = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    artifact = f"gb10-fleet-{release}.tar.gz"
    assert [one["name"] for one in definition["dependencies"]["galaxy"]["collections"]] == [f"artifact/{artifact}"]
    assert {"src": f"dist/{artifact}", "dest": "artifact"} in definition["additional_build_files"]
    assert re.search(r":[\w.-]+@sha256:[0-9a-f]{64}$", definition["images"]["base_image"]["name"])
    assert version(LOCK, "ansible-runner") == version("roles/drift_timer/files/runner.txt", "ansible-runner")
    assert version(LOCK, "ansible-core") == version("requirements/drift_timer.txt", "ansible-core")


def test_ansible_navigator_runs_what_is_built_as_the_page_describes() -> None:
    settings = yaml.safe_load((ROOT / "ansible-navigator.yml").read_text())["ansible-navigator"]
    page = (ROOT / "docs/how-to/execution-environment.md").read_text()
    image = settings["execution-environment"]["image"]
    assert f"--tag {image.removesuffix(':latest')} --container-runtime docker" in page
    assert settings["execution-environment"]["pull"]["policy"] == "never"
    # a run that is recorded has nobody who could be asked for a password
    assert settings["playbook-artifact"]["enable"] is False
    assert "ansible-navigator run gb10.fleet.plan -i inventories/mine" in page


def copy_tracked(target: Path) -> None:
    """The build reads each file below its folder, and fails when another job removes its own file there meanwhile."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name, follow_symlinks=False)


@HAS_BUILDER
def test_ansible_builder_makes_its_context(tmp_path: Path) -> None:
    """Then the steps in it that need no registry: the collection is installed from it, and asks for nothing more."""
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "ANSIBLE_HOME": str(tmp_path / "home")}
    for name in ("execution-environment.yml", LOCK):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def run(*words: str | Path, folder: Path = tmp_path) -> None:
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    source = tmp_path / "source"
    copy_tracked(source)
    run("ansible-galaxy", "collection", "build", "--output-path", tmp_path / "dist", folder=source)
    run("ansible-builder", "create", "--output-filename", "Containerfile")

    made = (tmp_path / "context" / "Containerfile").read_text()
    steps = [
        line for line in made.splitlines() if line.startswith(("FROM ", "COPY ", "RUN ")) and "scripts" not in line
    ]
    locked = next(place for place, step in enumerate(steps) if "--require-hashes" in step)
    assert steps[locked - 1] == "COPY _build/locked/execution_environment.txt /tmp/locked.txt"
    assert steps.index("FROM base AS galaxy") > locked
    # without a hash come ansible-builder's own readers of collections alone, in a stage that is left behind
    of_final = steps[steps.index("FROM base AS final") :]
    assert [step for step in of_final if "pip install" in step] == []
    assert (tmp_path / "context/_build/locked/execution_environment.txt").read_bytes() == (ROOT / LOCK).read_bytes()

    build = tmp_path / "context" / "_build"
    run("ansible-galaxy", "collection", "install", "--offline", "-r", "requirements.yml", "-p", tmp_path, folder=build)
    assert (tmp_path / "ansible_collections/gb10/fleet/playbooks/site.yml").exists()
    asked = ["--write-bindep", tmp_path / "bindep.txt", "--write-pip", tmp_path / "pip.txt"]
    run(sys.executable, build / "scripts" / "introspect.py", "introspect", tmp_path / "ansible_collections", *asked)
    assert not (tmp_path / "bindep.txt").exists()
    assert not (tmp_path / "pip.txt").exists()


def test_what_a_program_keeps_of_a_run() -> None:
    """ansible-core merges these by keys: what was declared, what a head answered, how each rank does."""
    kv = {"context": 2048, "bytes": 1 << 20}
    service = {"endpoint": "http://titan:8000/v1", "served_name": "tiny", "kv": kv, "hosts": ["titan", "beast"]}
    plan = {"services": {"chat": service, "other": service}, "gateway": None}
    ranks = [
        {"service": "chat", "rank": 0, "health": "serving", "problems": []},
        {"service": "chat", "rank": 1, "health": "loading", "problems": ["it loads"]},
        {"service": "other", "rank": 0, "health": "stopped", "problems": ["it is stopped"]},
    ]
    made = [of_plan(plan, ["chat"]), of_proof("chat", "serving", "hello"), of_ranks(ranks)]
    assert [{**one["ansible_stats"], "data": {}} for one in made] == [
        {"data": {}, "aggregate": True, "per_host": False}
    ] * 3
    declared, proved, looked = (one["ansible_stats"]["data"]["gb10_fleet"]["services"] for one in made)
    assert declared == {
        "chat": {
            "endpoint": "http://titan:8000/v1",
            "model": "tiny",
            "context": 2048,
            "pool_bytes": 1 << 20,
            "hosts": ["titan", "beast"],
        }
    }
    assert proved == {"chat": {"state": "serving", "answer": "hello"}}
    assert looked["chat"]["ranks"]["1"] == {"health": "loading", "problems": ["it loads"]}
    assert looked["chat"]["ranks"]["0"]["health"] == "serving"
    assert looked["other"]["ranks"]["0"]["health"] == "stopped"
