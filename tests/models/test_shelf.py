# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From `fleet_recipe_sources` to a model that answers: three sources, two of them over https, and one of these hostile.
git, its server, Docker and vLLM (on the CPU) are the real ones."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.fixtures import eventually, need_lab

from .owner import ENVIRONMENT, FLAGS, IMAGE, ROOT, Owner, owner_at

sys.path.insert(0, str(ROOT / "tests" / "stand_ins"))
import git_server
import hostile_source

MODEL = "lab/tiny"
ADDRESS, PORT = "10.77.0.1", 8087
WORKLOAD = {"max_model_len": 2048, "max_num_seqs": 2, "pool": "least"}


@pytest.fixture(scope="module")
def owner() -> Iterator[Owner]:
    need_lab()
    place = Path(tempfile.mkdtemp(prefix="gb10-shelf-"))
    with owner_at(place) as one:
        hostile_source.hostile(place / "git" / "evil", place / "ran")
        pem = git_server.certificate(place / "git.pem", ADDRESS)
        serve = [sys.executable, git_server.__file__, str(place / "git"), ADDRESS, str(PORT), str(pem)]
        lab = [str(ROOT / "tests" / "lab" / "lab"), "-d", str(one.fleet.directory), "net", "--"]
        with subprocess.Popen([*lab, *serve]) as server:
            try:
                yield one
            finally:
                server.terminate()


def eugr() -> bytes:
    """As the lab's own recipe, in eugr's form."""
    options = " ".join(f"--{name}" + ("" if value is True else f" {value}") for name, value in FLAGS.items())
    command = f"vllm serve {MODEL} --max-model-len 2048 {options}"
    written = {"model": MODEL, "container": IMAGE["reference"], "command": command, "env": ENVIRONMENT}
    return yaml.safe_dump(written | {"solo_only": True, "mods": ["mods/lab-patch"]}).encode()


def ours() -> bytes:
    recipe: dict[str, Any] = yaml.safe_load((ROOT / "inventories/lab/recipes/lab-tiny.yml").read_text())
    return yaml.safe_dump(recipe | {"model": {**recipe["model"], "repository": "lab/tiny-of-a-folder"}}).encode()


def declare(owner: Owner, sources: list[dict[str, str]]) -> None:
    """The sources, and a service that names a model which one of them has."""
    folder = {"source": {"path": "/srv/lab/tiny"}, "config": "lab-tiny", "weights_bytes": 660384}
    service = {"model": {"repository": MODEL, **folder}, "image": {**IMAGE, "entrypoint": None}, "workload": WORKLOAD}
    owner.declare(tiny={"hosts": ["titan"], "port": 8000, "open": True, **service})
    with (owner.folder / "group_vars" / "all" / "fleet.yml").open("a") as stream:
        stream.write(yaml.safe_dump({"fleet_recipe_sources": sources}))


def test_from_three_sources_to_an_answer(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    place = owner.folder.parent
    mark, evil = place / "ran", place / "git" / "evil"
    monkeypatch.setenv("GIT_SSL_CAINFO", str(place / "git.pem.crt"))
    first = hostile_source.repository(place / "git" / "eugr", {"recipes/tiny.yaml": eugr()})
    (place / "folder").mkdir()
    (place / "folder" / "one.yml").write_bytes(ours())
    url = f"https://{ADDRESS}:{PORT}"
    sources: list[dict[str, str]] = [
        {"git": f"{url}/eugr", "commit": first, "folder": "recipes"},
        {"git": f"{url}/evil", "commit": hostile_source.git(evil, "rev-parse", "HEAD")},
        {"path": str(place / "folder"), "name": "ours"},
    ]
    shutil.copytree(ROOT / "inventories/lab/recipes/configs", owner.folder / "recipes/configs")
    declare(owner, sources)
    before = owner.play("plan.yml")
    assert before.returncode != 0 and "was never fetched" in " ".join(before.stdout.split()), before.stdout[-4000:]
    preview = owner.play("gb10.fleet.shelf", "--check")
    assert preview.returncode == 0, preview.stdout[-4000:]
    assert not (owner.folder / ".fleet" / "shelf").exists()
    taken = owner.play("gb10.fleet.shelf", "-e", "for=chat", "-e", "context=2048")
    assert taken.returncode == 0, taken.stdout[-4000:]
    assert "eugr-tiny" in taken.stdout and "mods: lab-patch" in taken.stdout and "evil-honest" in taken.stdout
    assert "\x1b[2J" not in taken.stdout and not mark.exists()
    origin = json.loads((owner.folder / ".fleet/shelf/eugr.json").read_text())["recipes"]["eugr-tiny"]["origin"]
    assert (origin["url"], origin["commit"], origin["file"]) == (f"{url}/eugr", first, "tiny.yaml")
    again = owner.play("gb10.fleet.shelf")
    assert "changed=0" in again.stdout, again.stdout[-4000:]
    site = owner.play("site.yml")
    assert site.returncode == 0, site.stdout[-6000:]
    eventually(lambda: owner.answers(8000, MODEL), "the model answers by its name")
    assert not mark.exists()
    made = yaml.safe_load(eugr()) | {"env": {**ENVIRONMENT, "VLLM_LOGGING_LEVEL": "INFO"}}
    second = hostile_source.commit(place / "git" / "eugr", {"recipes/tiny.yaml": yaml.safe_dump(made).encode()})
    declare(owner, [{**sources[0], "commit": second}, *sources[1:]])
    changed = owner.play("gb10.fleet.shelf")
    assert "~ eugr-tiny: env.VLLM_LOGGING_LEVEL none -> INFO" in changed.stdout, changed.stdout[-4000:]
    copied = owner.play("gb10.fleet.shelf", "-e", "take=eugr-tiny")
    assert copied.returncode == 0 and (owner.folder / "recipes" / "eugr-tiny.yml").is_file(), copied.stdout[-4000:]
