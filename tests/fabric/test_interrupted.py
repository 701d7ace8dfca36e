# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change whose controller, guard or host dies in the middle is taken back; SSH answers within 120 s."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .fleet import Fleet
from .harm import ethernets

LIMIT_S = 120.0
HARMLESS = ethernets("enp1s0f1np1: {addresses: [10.9.9.1/24], ignore-carrier: true, optional: true}")
HARMFUL = ethernets("enP7s7: {routes: [{to: 10.77.0.1/32, type: unreachable}]}")


def kill_guard(fleet: Fleet, host: str) -> None:
    fleet.run(host, "kill -9 $(systemctl show -p MainPID --value gb10-netplan-change)")


def reboot(fleet: Fleet, host: str) -> None:
    fleet.run(host, "systemctl reboot")


def cut_power(fleet: Fleet, host: str) -> None:
    fleet.power_cycle(host)


def nothing_more(_fleet: Fleet, _host: str) -> None:
    """The controller is gone: that is all."""


# name, the change, the phase at which it happens, what happens beside the controller's death, part of the short form
EVENTS: list[tuple[str, str, str, Callable[[Fleet, str], None], bool]] = [
    ("controller-before-write", HARMLESS, "staged", nothing_more, False),
    ("controller-while-applying", HARMFUL, "applying", nothing_more, True),
    ("controller-before-confirming", HARMFUL, "applied", nothing_more, False),
    ("guard-while-applying", HARMLESS, "applying", kill_guard, False),
    ("guard-in-the-window", HARMFUL, "applied", kill_guard, True),
    ("reboot-in-the-window", HARMFUL, "applied", reboot, True),
    ("power-cut-while-applying", HARMLESS, "applying", cut_power, False),
    ("power-cut-in-the-window", HARMFUL, "applied", cut_power, True),
]


@pytest.fixture(scope="module")
def host(fleet: Fleet) -> Iterator[str]:
    fleet.up(["spark-2"])
    yield "spark-2"


def kill_tree(process: int) -> None:
    """Ansible's workers are in sessions of their own: the controller's death is that of all of them."""
    children = Path(f"/proc/{process}/task/{process}/children")
    found = [int(child) for child in children.read_text().split()] if children.exists() else []
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    for child in found:
        kill_tree(child)


def phase(fleet: Fleet, host: str) -> str:
    done = fleet.try_run(host, "cat /etc/gb10-fleet/netplan/change.json")
    return str(json.loads(done.stdout)["phase"]) if done.returncode == 0 and done.stdout else "none"


def wait_for(fleet: Fleet, host: str, phases: tuple[str, ...], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (now := phase(fleet, host)) not in phases:
        assert time.monotonic() < deadline, f"{host} stays {now}, waiting for {phases}"
        time.sleep(0.3)


@pytest.mark.parametrize(("name", "text", "at", "event", "short"), EVENTS, ids=[event[0] for event in EVENTS])
def test_it_is_taken_back(
    request: pytest.FixtureRequest, fleet: Fleet, host: str, name: str, text: str, at: str,
    event: Callable[[Fleet, str], None], short: bool,
) -> None:  # fmt: skip
    if not short and not request.config.getoption("--whole"):
        pytest.skip("part of the whole catalogue: --whole")
    before = fleet.netplan_files(host)
    fleet.try_run(host, "rm -f /etc/gb10-fleet/netplan/change.json")
    change = {"path": "/etc/netplan/60-change.yaml", "content": text}
    play = fleet.start("change.yml", {host: {"change": change}})
    try:
        wait_for(fleet, host, (at, "applying", "applied") if at == "staged" else (at,), 120)
    finally:
        kill_tree(play.pid)
        play.communicate()
    began = time.monotonic()
    event(fleet, host)
    wait_for(fleet, host, ("restored",), LIMIT_S)
    fleet.wait_for_ssh(host, LIMIT_S - (time.monotonic() - began))
    print(f"{name}: SSH answers {time.monotonic() - began:.1f} s after")
    assert fleet.netplan_files(host) == before
    assert "10.9.9.1" not in fleet.run(host, "ip -4 address")
    assert "unreachable" not in fleet.run(host, "ip route")
