# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real Open WebUI and Hermes Agent as `site.yml` makes them on a lab host, before HAProxy and a stand-in for vLLM.

By hand, as it takes 1.3 GB of downloads and an installed Chromium: `pytest tests/clients`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.fixtures import Fleet, need_lab
from lab.vllm import images

from . import image

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
KEYS = {"chat": "key-of-chat-in-these-tests", "agent": "key-of-agent-in-these-tests"}
PASSWORD = "password-of-the-first-account"
ANSWER = "This is a stand-in, not a model."
# What each of them asks for beside the chat would stand between the tests and the answer.
ALONE = dict.fromkeys(("ENABLE_FOLLOW_UP_GENERATION", "ENABLE_TITLE_GENERATION", "ENABLE_TAGS_GENERATION"), "false")
# So that an answer is seen to grow.
SLOW = {"DEFAULT_MODEL_PARAMS": json.dumps({"custom_params": {"vllm_xargs": {"token_seconds": 0.4}}})}


def declared(folder: Path) -> dict[str, Any]:
    coder = {
        "recipe": "lab-tiny",
        "hosts": ["titan"],
        "port": 8000,
        "served_name": "coder",
        "workload": {"max_model_len": 131072, "max_num_seqs": 1},
        "flags": {
            "enable-auto-tool-choice": True,
            "tool-call-parser": "hermes",
            "hf-overrides": {"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
        },
        "image": {
            "reference": "gb10-lab/vllm-stand-in:0.32.0",
            "family": "upstream",
            "release": "0.32.0",
            "source": {"archive": "/srv/lab/vllm-stand-in-0.32.0.tar"},
        },
    }
    clients = {
        "chat": {"kind": "open-webui", "secret_file": "password", "env": ALONE | SLOW},
        "agent": {"kind": "hermes", "service": "coder"},
    }
    for client, program in zip(clients.values(), (image.OPEN_WEBUI, image.HERMES), strict=True):
        found = {"reference": program.reference, "source": {"archive": f"/srv/lab/{program.name}.tar"}}
        client |= {"host": "titan", "image": found}
    return {
        "fleet_services": {"coder": coder},
        "fleet_gateway": {
            "hosts": ["titan"],
            "name": "llm.lab",
            "keys_file": "clients.yml",
            "addresses": ["10.77.0.11"],
        },
        "fleet_clients": clients,
        "fleet_host": {"memory_kib": 15728640},
    }


class Site:
    """A lab host, and its owner's inventory. output: of `site.yml`."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet, self.folder, self.output = fleet, folder, ""
        shutil.copytree(ROOT / "inventories" / "lab", folder)
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"titan": {}}}}))
        (folder / "group_vars" / "all" / "fleet.yml").write_text(yaml.safe_dump(declared(folder)))
        for name, text in (("clients.yml", yaml.safe_dump(KEYS)), ("password", PASSWORD)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o600)

    def play(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.inside(
            str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(self.folder / "hosts.yml"), *words
        )

    def inside(self, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        """A program on the control machine, in the lab's network."""
        lab = [str(ROOT / "tests" / "lab" / "lab"), "-d", str(self.fleet.directory), "net", "--"]
        own = {"GB10_LAB_DIR": str(self.fleet.directory), "COLUMNS": "200"}
        return subprocess.run(
            [*lab, *words], cwd=ROOT, env=os.environ | own, input=typed, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    need_lab()
    share = images.default_directory()
    images.ensure_model(share)
    images.ensure_image(images.STAND_IN, share)
    for program in (image.OPEN_WEBUI, image.HERMES):
        image.ensure(program)
    with tempfile.TemporaryDirectory(prefix="gb10-clients-") as place:
        fleet = Fleet(Path(place) / "lab")
        try:
            fleet.lab("up", "--hosts", "titan", "--share", f"{share}:/srv/lab")
            made = Site(fleet, Path(place) / "site")
            done = made.play("site.yml")
            made.output = done.stdout + done.stderr
            assert done.returncode == 0, made.output[-6000:]
            yield made
        finally:
            fleet.lab("down")


def test_site_has_signed_in_and_been_answered_by_both(site: Site) -> None:
    answers = [line for line in site.output.splitlines() if "was answered" in line]
    assert len(answers) == 2
    assert all(ANSWER in line for line in answers), answers


def test_a_person_signs_in_picks_the_model_and_reads_the_answer_as_it_comes(site: Site, tmp_path: Path) -> None:
    """GB10_CLIENTS_SCREENSHOT: where the page's picture is kept (docs/pictures has one)."""
    if not CHROMIUM:
        pytest.fail("no Chromium: apt-get install chromium")
    browser = tmp_path / "browser"
    uv = [str(Path(sys.executable).with_name("uv"))]
    lock = ROOT / "requirements" / "browser.txt"
    subprocess.run([*uv, "venv", "--quiet", browser], check=True)
    subprocess.run(
        [*uv, "pip", "install", "--quiet", "--require-hashes", "--python", browser, "-r", lock],
        check=True,
    )
    picture = os.environ.get("GB10_CLIENTS_SCREENSHOT", str(tmp_path / "page.png"))
    asked = {
        "url": "http://10.77.0.11:3000",
        "account": "admin@localhost",
        "model": "coder",
        "question": "Who are you?",
        "screenshot": picture,
        "chromium": CHROMIUM,
    }
    words = [word for name, value in asked.items() for word in (f"--{name}", value)]
    program = str(ROOT / "tests" / "clients" / "browse.py")
    done = site.inside(str(browser / "bin" / "python"), program, *words, typed=PASSWORD)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert any("coder" in name for name in found["models"]), found
    assert ANSWER in found["seen"][-1], found
    growing = [text for text in found["seen"] if text in ANSWER]
    assert len(growing) > 2, found  # it came in parts


def test_no_secret_of_either_is_in_a_log_or_command(site: Site) -> None:
    seen = site.fleet.root(
        "titan", "docker inspect gb10-client-chat gb10-client-agent; ps -eo args; journalctl -b --no-pager"
    )
    own = site.fleet.root("titan", "cat /etc/gb10-fleet/clients/*/own.env")
    secrets = [*KEYS.values(), *(line.split("'")[1] for line in own.splitlines())]
    assert PASSWORD in secrets
    assert [secret for secret in secrets if secret in seen + site.output] == []


def test_status_shows_both_and_a_second_run_changes_nothing(site: Site) -> None:
    shown = site.play("status.yml").stdout
    rows = [line for line in shown.splitlines() if line.rstrip().endswith("answers")]
    assert len(rows) == 2, shown
    again = site.play("site.yml")
    assert again.returncode == 0, again.stdout[-6000:]
    assert "changed=0" in again.stdout, again.stdout[-3000:]
