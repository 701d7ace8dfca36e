# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway taken away, when all others have seen it: the last file by its name, as they are run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]

SCENARIO = Path(__file__).resolve().parents[1]
FLEET: dict[str, Any] = yaml.safe_load((SCENARIO / "vars" / "fleet.yml").read_text("utf-8"))
Playbook = Callable[..., "subprocess.CompletedProcess[str]"]


def test_it_goes_when_it_is_ordered_to(host: Host, playbook: Playbook) -> None:
    run = playbook(
        str(SCENARIO / "converge.yml"),
        "--extra-vars",
        json.dumps({"fleet_services": FLEET["fleet_services"], "fleet_gateway": None, "retire": "gateway"}),
    )
    assert run.returncode == 0, run.stdout
    assert not host.file("/etc/gb10-fleet/gateway").exists
    assert not host.file("/etc/systemd/system/gb10-gateway.service").exists
    assert host.run("nft list table inet gb10_fleet").rc != 0
