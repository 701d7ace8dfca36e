# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`model: organisation/name` on a bare host, with the real vLLM, the hub's own tool, and an imitation of the hub's HTTP
API; one of the two models brings Python code of its own."""

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
from lab.vllm import images

from .owner import ENVIRONMENT, FLAGS, HUB, IMAGE, ROOT, Owner, owner_at

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PLAIN, OWN = "lab/tiny-plain", "lab/tiny-own-code"
OWN_CONFIG = """\
from transformers import Qwen3Config


class TinyConfig(Qwen3Config):
    model_type = "lab_tiny"
"""
SHIPPED = {"reference": "gb10-lab/vllm-cpu:with-a-cache", "family": "upstream", "release": "0.32.0"}
ON_CPU: dict[str, Any] = {
    "hosts": ["titan"],
    "open": True,
    "image": IMAGE,
    "flags": FLAGS,
    "env": ENVIRONMENT,
    "workload": {"max_model_len": 2048, "max_num_seqs": 2, "pool": "least"},
}


def _models(folder: Path) -> None:
    """Two models as the hub has them: the lab's tiny one, and the same with code that its config.json names."""
    tiny = images.default_directory() / "tiny"
    for repository in (PLAIN, OWN):
        shutil.copytree(tiny, folder / repository)
    config = json.loads((tiny / "config.json").read_text())
    config |= {"model_type": "lab_tiny", "auto_map": {"AutoConfig": "configuration_tiny.TinyConfig"}}
    (folder / OWN / "config.json").write_text(json.dumps(config))
    (folder / OWN / "configuration_tiny.py").write_text(OWN_CONFIG)


@pytest.fixture(scope="module")
def owner() -> Iterator[Owner]:
    need_lab()
    place = Path(tempfile.mkdtemp(prefix="gb10-models-"))
    with owner_at(place) as one:
        _models(place / "hub")
        serve = [
            sys.executable,
            str(Path(__file__).with_name("hub.py")),
            str(place / "hub"),
            COMMIT,
            "10.77.0.1",
            "8085",
        ]
        lab = [str(ROOT / "tests" / "lab" / "lab"), "-d", str(one.fleet.directory), "net", "--"]
        with subprocess.Popen([*lab, *serve]) as hub:
            try:
                # the hub's own tool, told where the hub is: what model_store installs needs a registry
                run = f"HF_ENDPOINT={HUB} PYTHONPATH=/srv/packages exec python3 -m huggingface_hub.cli.hf"
                hf = f'#!/bin/sh\n{run} "$@"\n'
                one.fleet.root("titan", f"cat > /usr/local/bin/hf <<'END'\n{hf}END\nchmod 755 /usr/local/bin/hf")
                yield one
            finally:
                hub.terminate()


def test_from_one_line_to_an_answer(owner: Owner) -> None:
    owner.declare(chat={"model": PLAIN, "port": 8000, **ON_CPU})
    unread = owner.play("plan.yml", hub="http://10.77.0.1:9")
    assert unread.returncode != 0
    assert "what it says is kept beside the inventory" in " ".join(unread.stdout.split())
    plan = owner.play("plan.yml")
    assert plan.returncode == 0, plan.stdout[-5000:]
    kept = json.loads((owner.folder / ".fleet" / "models" / f"{PLAIN.replace('/', '--')}.json").read_text())
    assert (kept["revision"], kept["config"]["num_hidden_layers"]) == (COMMIT, 2)
    site = owner.play("site.yml", "-e", "model_store_hf=/usr/local/bin/hf", hub="http://10.77.0.1:9")
    assert site.returncode == 0, site.stdout[-6000:]
    eventually(lambda: owner.answers(8000, PLAIN), "the model answers")


def _image_with_a_cache(owner: Owner) -> None:
    """The lab's image, which keeps what vLLM knows of models elsewhere, with that at vLLM's own place, for root."""
    cache = "/root/.cache/vllm"
    made = f"umask 77 && mkdir -p /root/.cache && cp -r /var/cache/vllm /root/.cache/ && echo yes > {cache}/shipped"
    kept = f"""--change 'ENTRYPOINT ["vllm", "serve"]' --change 'CMD []' --change 'ENV VLLM_CACHE_ROOT={cache}'"""
    base = str(IMAGE["reference"])
    owner.fleet.root("titan", f"docker run --name maker --network none --entrypoint sh {base} -c '{made}'")
    owner.fleet.root("titan", f"docker commit {kept} maker {SHIPPED['reference']} && docker rm maker")


def test_a_models_code_runs_from_the_read_only_store_and_an_images_cache_is_used(owner: Owner) -> None:
    _image_with_a_cache(owner)
    own = {"model": OWN, "port": 8010, **ON_CPU, "image": SHIPPED}
    owner.declare(own=own)
    refused = owner.play("plan.yml")
    assert refused.returncode != 0
    assert "which nobody has read for you" in " ".join(refused.stdout.split())
    owner.declare(own=own | {"trust": ["code"]})
    site = owner.play("site.yml", "-e", "model_store_hf=/usr/local/bin/hf", "-e", "retire=chat")
    assert site.returncode == 0, site.stdout[-6000:]
    eventually(lambda: owner.answers(8010, OWN), "the model answers")
    mounts = owner.fleet.root("titan", "docker inspect --format '{{json .HostConfig.Mounts}}' gb10-service-own")
    (models,) = [one for one in json.loads(mounts) if one["Target"] == "/hf"]
    assert models["ReadOnly"]
    inside = "docker exec gb10-service-own"
    assert owner.fleet.root("titan", f"{inside} cat /root/.cache/vllm/shipped").strip() == "yes"
    owner.fleet.root("titan", f"{inside} touch /root/.cache/vllm/added")
    there = owner.fleet.root("titan", "cd /var/cache/gb10-fleet && ls && ls own/*/vllm && stat -c %a own own/*/vllm")
    words = there.split()
    assert words[0] == "own", "what the service that was retired had compiled is gone"
    assert {"added", "shipped"} <= {*words} and words[-2:] == ["700", "700"]
    again = owner.play("site.yml", "-e", "model_store_hf=/usr/local/bin/hf")
    assert again.returncode == 0, again.stdout[-6000:]
    assert "changed=0" in again.stdout
    drift = owner.play("drift.yml").stdout
    assert "container-mounts" not in drift and "/var/cache/gb10-fleet" not in drift, drift[-6000:]
    owner.fleet.root("titan", "systemctl restart gb10-service-own")
    eventually(lambda: owner.answers(8010, OWN), "the model answers again")
    assert len(owner.fleet.root("titan", "docker volume ls --quiet").split()) == 3, "none is left of the first start"
    owner.fleet.root("titan", "systemctl stop gb10-service-own")
    left = owner.fleet.root("titan", "docker volume ls --quiet; ls /var/cache/gb10-fleet/own/*/vllm/added").split()
    assert len(left) == 1 and left[0].endswith("/added"), "the volumes end, and what was compiled stays"


def test_a_recipe_is_written_once_and_is_its_owners(owner: Owner) -> None:
    recipe = owner.folder / "recipes" / "tiny-plain.yml"
    arguments = ("gb10.fleet.recipe_new", "-e", f"model={PLAIN}")
    preview = owner.play(*arguments, "--check", "--diff")
    assert preview.returncode == 0, preview.stdout[-3000:]
    assert f"+  repository: {PLAIN}" in preview.stdout
    assert not recipe.exists()
    written = owner.play(*arguments, hub="http://10.77.0.1:9")
    assert written.returncode == 0, written.stdout[-3000:]
    assert "# the commit that was read" in recipe.read_text()
    again = owner.play(*arguments)
    assert again.returncode != 0
    assert "is there already, and is yours" in " ".join(again.stdout.split())
    on_host = ("-e", "recipe_new_host=titan", "-e", "recipe_new_folder=/srv/lab/tiny", "-e", "model=lab/of-a-folder")
    of_folder = owner.play("gb10.fleet.recipe_new", *on_host)
    assert of_folder.returncode == 0, of_folder.stdout[-3000:]
    source = yaml.safe_load((owner.folder / "recipes" / "of-a-folder.yml").read_text())["model"]["source"]
    assert source == {"path": "/srv/lab/tiny"}
