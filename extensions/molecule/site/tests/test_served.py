# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that serves costs few calls, and goes on serving after a crash."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]

LAB = Path(os.environ["GB10_LAB_DIR"])
Playbook = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).resolve().parents[4]
FLEET = ROOT / "extensions/molecule/site/vars/fleet.yml"
URL = "http://127.0.0.1:8000"
# A start takes a second and a boot a few, on a quiet machine; a busy one may take this long.
PATIENCE_S = 300


def key() -> str:
    """The one that site.yml has made beside the inventory."""
    return (ROOT / "inventories/lab/.fleet/keys/tiny.key").read_text(encoding="utf-8").strip()


def ask(host: Host) -> str | None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "temperature": 0}
    command = "curl -sf -m 60 -H 'Content-Type: application/json' -H %s -d %s %s"
    try:
        reply = host.run(command, f"Authorization: Bearer {key()}", json.dumps(body), f"{URL}/v1/chat/completions")
    except RuntimeError:  # ssh itself failed: a host that boots does not listen yet
        return None
    if reply.rc != 0:
        return None
    content: str = json.loads(reply.stdout)["choices"][0]["message"]["content"]
    return content


def answer(host: Host) -> str | None:
    """The service's answer, when it gives one within the patience."""
    end = time.monotonic() + PATIENCE_S
    while (text := ask(host)) is None and time.monotonic() < end:
        time.sleep(0.5)
    return text


@pytest.mark.parametrize(("command", "most"), [("site.yml", 7), ("drift.yml", 1), ("doctor.yml", 1)])
def test_a_host_that_is_as_declared_costs_few_calls(
    playbook: Playbook, tmp_path: Path, command: str, most: int
) -> None:
    """Each is a round trip or two, and a start of Python on the host: `site.yml` needs one reading, its
    proofs, and a call to keep a start that is new since the last run."""
    calls, ssh = tmp_path / "calls", tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\necho >> {calls}\nexec ssh "$@"\n')
    ssh.chmod(0o755)
    done = playbook(command, "--limit", "titan", "-e", f"@{FLEET}", "-e", f"ansible_ssh_executable={ssh}")
    assert done.returncode == 0, done.stdout
    assert re.search(r"titan +: ok=\d+ +changed=0 +unreachable=0 +failed=0", done.stdout)
    assert len(calls.read_text()) <= most


def test_a_killed_container_comes_back(host: Host) -> None:
    host.run_expect([0], "docker kill gb10-service-tiny")
    assert answer(host)
