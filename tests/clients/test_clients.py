# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real Open WebUI and Hermes Agent by what the plan writes for them, before HAProxy and an imitated vLLM.

By hand, as it takes 330 MB of packages, HAProxy and an installed Chromium: `pytest tests/clients`. How the role runs
them, and what `site.yml`, `drift.yml` and removal do, is a matter of molecule/clients.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.client import prove

from .engine import ANSWER, KEY
from .house import ROOT, House, free_ports, python_of

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
KEYS = {"chat": "key-of-chat-in-these-tests", "agent": "key-of-agent-in-these-tests"}
# What Open WebUI asks for beside the chat would stand between a test and the answer.
ALONE = dict.fromkeys(("ENABLE_FOLLOW_UP_GENERATION", "ENABLE_TITLE_GENERATION", "ENABLE_TAGS_GENERATION"), "false")


def declared() -> dict[str, Any]:
    engine, gateway, chat, agent = free_ports(4)
    # in a container it has an address and a port of its own
    api = {"API_SERVER_HOST": "127.0.0.1", "API_SERVER_PORT": str(agent)}
    return {
        "fleet_services": {
            "coder": {
                "recipe": "qwen3.6-27b-nvfp4",  # with a parser of tools
                "hosts": ["titan"],
                "port": engine,
                "served_name": "coder",
                "workload": {"max_model_len": 65536, "max_num_seqs": 4},
            }
        },
        "fleet_gateway": {"hosts": ["titan"], "port": gateway, "redirect_port": None, "keys_file": "clients.yml"},
        "fleet_clients": {
            "chat": {"kind": "open-webui", "host": "titan", "port": chat, "env": ALONE},
            "agent": {"kind": "hermes", "host": "titan", "service": "coder", "port": agent, "env": api},
        },
    }


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = House(tmp_path_factory.mktemp("clients"), declared(), KEYS)
    with made.running():
        yield made


@pytest.mark.parametrize("client", KEYS)
def test_it_does_what_verify_asks_of_it(house: House, client: str) -> None:
    assert prove(house.clients[client]["proof"], house.secret(client)) == ANSWER
    requests = [json.loads(line) for line in house.log("gateway").splitlines() if line.startswith("{")]
    assert [one for one in requests if one["client"] == client and one["model"] == "coder" and one["status"] == 200]


def test_a_person_signs_in_picks_the_model_and_reads_the_answer_as_it_is_written(house: House, tmp_path: Path) -> None:
    """GB10_SCREENSHOT: where the page's picture is kept; docs/pictures has one."""
    if CHROMIUM is None:
        pytest.fail("this machine has no Chromium: apt-get install chromium")
    asked = {
        "url": house.clients["chat"]["proof"]["url"],
        "account": "admin@localhost",
        "model": "coder",
        "question": "Who are you?",
        "screenshot": os.environ.get("GB10_SCREENSHOT", str(tmp_path / "page.png")),
        "chromium": CHROMIUM,
    }
    words = [word for name, value in asked.items() for word in (f"--{name}", value)]
    program = [python_of("browser"), ROOT / "tests" / "clients" / "browse.py"]
    done = subprocess.run([*program, *words], input=house.secret("chat"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["models"] == ["coder"] and found["errors"] == []
    assert found["seen"][-1] == ANSWER
    assert len(found["seen"]) > 2 and all(ANSWER.startswith(text) for text in found["seen"]), found


def test_no_secret_is_in_a_command_or_a_log(house: House) -> None:
    logs = "".join(house.log(name) for name in ("gateway", "engine", *KEYS))
    secrets = [KEY, *KEYS.values(), *map(house.secret, KEYS)]
    assert [secret for secret in secrets if secret in house.commands() + logs] == []
