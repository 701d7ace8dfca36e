# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible reaches the lab through its committed inventory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from .fixtures import Fleet
from .leftovers import Traces

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = ROOT / "inventories/lab"
# Beside the Python that runs the tests.
ANSIBLE = Path(sys.executable).with_name("ansible")


def ansible(fleet: Fleet, pattern: str, *arguments: str) -> str:
    result = subprocess.run(
        [ANSIBLE, "-i", INVENTORY, pattern, "--one-line", *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"GB10_LAB_DIR": str(fleet.directory)},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_ping_reaches_every_host(fleet: Fleet) -> None:
    assert ansible(fleet, "all", "-m", "ansible.builtin.ping").count("SUCCESS") == 3


def test_become_is_root(fleet: Fleet) -> None:
    assert ansible(fleet, "all", "-b", "-m", "ansible.builtin.command", "-a", "id -un").count("root") == 3


def test_shared_connections_lie_in_the_labs_directory(fleet: Fleet) -> None:
    ansible(fleet, "titan", "-m", "ansible.builtin.ping")
    assert any(fleet.workspace.ssh_masters.iterdir())


def test_down_ends_ansibles_shared_connections_too(new_fleet: Callable[[], Fleet]) -> None:
    fleet = new_fleet()
    fleet.lab("up", "-n", "1")
    traces = Traces.of(fleet.workspace, fleet.running())
    ansible(fleet, "titan", "-m", "ansible.builtin.ping")
    fleet.lab("down")
    assert traces.all() == []


def test_package_comes_from_the_pool_and_check_mode_knows_it(fleet: Fleet) -> None:
    install = ("titan", "-b", "-m", "ansible.builtin.apt", "-a", "name=iperf3")
    assert "CHANGED" in ansible(fleet, *install, "--check")
    assert "CHANGED" in ansible(fleet, *install)
    assert "SUCCESS" in ansible(fleet, *install)


def test_reboot_comes_back(fleet: Fleet) -> None:
    assert "rebooted" in ansible(fleet, "spark-3", "-b", "-m", "ansible.builtin.reboot")
