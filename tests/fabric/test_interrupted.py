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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._host.netplan.outcome import READ_STATUS

from .fleet import FabricFleet, Outcome
from .harm import MANAGEMENT_FILE, ethernets
from .stories import state

LIMIT_S = 120.0
HARMLESS = ethernets("enp1s0f1np1: {addresses: [10.9.9.1/24], ignore-carrier: true, optional: true}")
UNREACHABLE = ethernets("enP7s7: {routes: [{to: 10.77.0.1/32, via: 10.77.0.99, on-link: true}]}")
WRONG_ADDRESS = ethernets("enP7s7: {addresses: [10.78.0.11/24]}")

# It makes the first change that it is asked for, and answers neither then nor later.
HANGING_NETPLAN = """cat > /usr/local/sbin/netplan <<'END' && chmod 755 /usr/local/sbin/netplan
#!/bin/sh
[ "$1" = apply ] || exec /usr/sbin/netplan "$@"
[ -e /run/hangs ] || /usr/sbin/netplan apply
touch /run/hangs
exec sleep 600
END
"""
# netplan's files and the guard's on one small disk, as they are on one disk in reality.
SMALL_DISK = """mkdir -p /etc/gb10-fleet && mount -t tmpfs -o size=2m,mode=755 none /etc/gb10-fleet
cp -a /etc/netplan /etc/gb10-fleet/of-netplan && mount --bind /etc/gb10-fleet/of-netplan /etc/netplan"""
UNITS = {"networkd": "systemd-networkd.service systemd-networkd.socket", "NetworkManager": "NetworkManager.service"}
GUARD = "$(systemctl show -p MainPID --value gb10-netplan-change)"
KILL_GUARD = f"kill -9 {GUARD}"
PROGRAM = "/usr/local/lib/gb10-fleet/netplan/gb10_netplan/guard.py"
RECORD = "/etc/gb10-fleet/netplan/change.json"
READ_ONLY = "mount --bind /etc /etc && mount -o remount,bind,ro /etc"


@dataclass(frozen=True)
class Event:
    """What happens beside the controller's death, at which phase of which change. Commands are the host's shell's;
    {renderer} is replaced by the units of the host's.

    power: the host is cut off from power for a moment, too.
    """

    name: str
    text: str
    at: str
    command: str = "true"
    power: bool = False
    path: str = "/etc/netplan/60-change.yaml"
    prepare: str = "true"
    clear: str = "true"


EVENTS = [
    Event("controller-before-write", HARMLESS, "staged"),
    Event("controller-while-applying", UNREACHABLE, "applying"),
    Event("controller-before-confirming", UNREACHABLE, "applied"),
    Event("guard-while-applying", HARMLESS, "applying", KILL_GUARD),
    Event("guard-in-the-window", UNREACHABLE, "applied", KILL_GUARD),
    Event("unit-stopped-in-the-window", UNREACHABLE, "applied", "systemctl stop gb10-netplan-change"),
    Event("reboot-in-the-window", UNREACHABLE, "applied", "systemctl reboot"),
    Event("power-cut-while-applying", HARMLESS, "applying", power=True),
    Event("power-cut-in-the-window", UNREACHABLE, "applied", power=True),
    Event(
        "netplan-hangs",
        WRONG_ADDRESS,
        "applying",
        path=MANAGEMENT_FILE,
        prepare=HANGING_NETPLAN,
        clear="rm /usr/local/sbin/netplan /run/hangs",
    ),
    Event(
        "renderer-dies-in-the-window",
        WRONG_ADDRESS,
        "applied",
        "systemctl mask --runtime --now {renderer}",
        path=MANAGEMENT_FILE,
        clear="systemctl unmask --runtime {renderer} && systemctl start {renderer}",
    ),
    Event(
        "disk-full-in-the-window",
        WRONG_ADDRESS,
        "applied",
        "cat /dev/zero > /etc/gb10-fleet/full; test $(df --output=avail /etc/netplan | tail -n 1) = 0",
        path=MANAGEMENT_FILE,
        prepare=SMALL_DISK,
        clear="umount /etc/netplan /etc/gb10-fleet",
    ),
    # No netplan takes this route away but the one that reads the old files again.
    Event("guard-frozen-in-the-window", UNREACHABLE, "applied", f"kill -STOP {GUARD}"),
    Event("guard-frozen-while-applying", UNREACHABLE, "applying", f"kill -STOP {GUARD}"),
    Event("record-emptied-guard-killed", UNREACHABLE, "applied", f": > {RECORD}; {KILL_GUARD}"),
    Event("both-records-cut-guard-killed", UNREACHABLE, "applied",
          f"truncate -s 100 {RECORD} /run/gb10-netplan/change.json; {KILL_GUARD}"),
    Event("program-emptied", UNREACHABLE, "applied", f": > {PROGRAM}"),
    Event("program-emptied-guard-killed", UNREACHABLE, "applied", f": > {PROGRAM}; {KILL_GUARD}"),
    Event("program-emptied-power-cut", UNREACHABLE, "applied", f": > {PROGRAM}; sync", power=True),
    Event("record-emptied-power-cut", UNREACHABLE, "applied", f": > {RECORD}; sync", power=True),
]  # fmt: skip


@pytest.fixture(scope="module")
def host(fleet: FabricFleet) -> Iterator[str]:
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


def phase(fleet: FabricFleet, host: str) -> str:
    """Of the last change, as the controller asks for it."""
    found = [json.loads(line) for line in fleet.root(host, READ_STATUS).splitlines()]
    return str(max(found, key=lambda status: status["step"])["phase"]) if found else "none"


def wait_for(fleet: FabricFleet, host: str, phases: tuple[str, ...], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (now := phase(fleet, host)) not in phases:
        assert time.monotonic() < deadline, f"{host} stays {now}, waiting for {phases}"
        time.sleep(0.3)


def wait_until_settled(fleet: FabricFleet, host: str) -> None:
    """The script that takes a change back says so first, and then applies it; until it ends a change is refused."""
    ask = "systemctl show --property=ActiveState --value gb10-netplan-change"
    deadline = time.monotonic() + LIMIT_S
    while (now := fleet.root(host, ask).strip()) not in ("inactive", "failed"):
        assert time.monotonic() < deadline, f"{host} stays {now}"
        time.sleep(0.3)


@pytest.mark.parametrize("event", EVENTS, ids=[event.name for event in EVENTS])
def test_it_is_taken_back(fleet: FabricFleet, host: str, event: Event) -> None:
    fleet.root(host, event.prepare)
    before = state(fleet, host)
    play = start(fleet, host, event.text, event.path)
    try:
        wait_for(fleet, host, (event.at, "applying", "applied") if event.at == "staged" else (event.at,), 120)
    except AssertionError:
        print(fleet.root(host, "journalctl -n 80 -u gb10-netplan-change -u NetworkManager -u systemd-networkd"))
        raise
    finally:
        kill_tree(play.pid)
        # What a play says that ended by itself; one that is killed says nothing.
        print(*play.communicate())
    began = time.monotonic()
    fleet.root(host, event.command.replace("{renderer}", UNITS[fleet.renderer]))
    if event.power:
        fleet.lab("power", "cycle", host)
    wait_for(fleet, host, ("restored",), LIMIT_S)
    fleet.wait_for_ssh(host, LIMIT_S - (time.monotonic() - began))
    print(f"{event.name}: SSH answers {time.monotonic() - began:.1f} s after")
    wait_until_settled(fleet, host)
    after = state(fleet, host)
    fleet.root(host, event.clear.replace("{renderer}", UNITS[fleet.renderer]))
    assert after == before


def start(fleet: FabricFleet, host: str, text: str, path: str = "/etc/netplan/60-change.yaml") -> Popen[str]:
    return fleet.start("change.yml", {host: {"change": {"path": path, "content": text}}})


def test_a_disk_that_turns_read_only(fleet: FabricFleet, host: str) -> None:
    """As ext4 does after an error. The way back is netplan's /run and `ip`; the next run puts the files back."""
    before = state(fleet, host)
    play = start(fleet, host, UNREACHABLE)
    wait_for(fleet, host, ("applied",), 120)
    began = time.monotonic()
    fleet.root(host, READ_ONLY)
    fleet.wait_for_ssh(host, LIMIT_S)
    print(f"read-only: SSH answers {time.monotonic() - began:.1f} s after")
    messages = Outcome.of(*play.communicate()).failures()[host]
    assert "[netplan-restored]" in messages
    assert "60-change.yaml could not be put back (Read-only file system)" in messages
    after = state(fleet, host)
    assert {key: after[key] for key in after if key != "files"} == {
        key: before[key] for key in before if key != "files"
    }
    messages = Outcome.of(*start(fleet, host, HARMLESS).communicate()).failures()[host]
    assert "read-only" in messages.lower()
    fleet.root(host, "umount -l /etc")
    other = "/etc/netplan/61-other.yaml"
    assert Outcome.of(*start(fleet, host, HARMLESS, other).communicate()).failures() == {}
    fleet.root(host, f"rm {other}; netplan apply")
    assert fleet.netplan_files(host) == before["files"]
    assert fleet.root(host, "ls /run/netplan") == ""


def test_a_shared_connection_that_lives_on_confirms_nothing(fleet: FabricFleet, host: str) -> None:
    """The SSH session of the tasks before stays usable when no new one can be opened any more."""
    before = fleet.netplan_files(host)
    play = start(fleet, host, HARMLESS)
    wait_for(fleet, host, ("applying",), 120)
    fleet.root(host, "systemctl stop ssh.service")
    wait_for(fleet, host, ("restored", "confirmed"), LIMIT_S)
    fleet.root(host, "systemctl start ssh.service")
    assert "[netplan-restored]" in Outcome.of(*play.communicate()).failures()[host]
    assert fleet.netplan_files(host) == before


def test_a_second_run_is_refused_while_a_change_waits(fleet: FabricFleet, host: str) -> None:
    before = state(fleet, host)
    first = start(fleet, host, HARMLESS)
    wait_for(fleet, host, ("applied",), 120)
    kill_tree(first.pid)
    first.communicate()
    second = start(fleet, host, HARMLESS.replace("10.9.9.1", "10.9.9.2"))
    assert "[netplan-busy]" in Outcome.of(*second.communicate()).failures()[host]
    wait_for(fleet, host, ("restored",), LIMIT_S)
    assert state(fleet, host) == before
