# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of harmful changes: made through one play, as an owner would run it, while SSH is tried all the time."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .fleet import FabricFleet
from .harm import Harm

PATIENCE_S = 120


@dataclass(frozen=True)
class Story:
    """What became of one harmful change on one host.

    before, after: files, links, addresses, routes. message: the play's. lost: when SSH connections failed, in seconds
    from the play's start.
    """

    before: Mapping[str, str]
    after: Mapping[str, str]
    message: str
    lost: Sequence[float]

    @property
    def back_after(self) -> float:
        """Seconds from the play's start to the last connection that failed; 0 without any."""
        return max(self.lost, default=0.0)


@dataclass
class _Watch:
    """Asks a host for a new SSH connection again and again."""

    fleet: FabricFleet
    host: str
    lost: list[float] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(1.0):
            if not self.fleet.answers_ssh(self.host):
                self.lost.append(time.monotonic() - self._began)

    def end(self) -> Sequence[float]:
        """Seconds from the beginning of each failure."""
        self._over.set()
        self._thread.join()
        return self.lost


def run_harms(fleet: FabricFleet, harms: Mapping[str, Harm]) -> dict[str, Story]:
    """The story of each host's harmful change; all are made at the same time."""
    for host, harm in harms.items():
        fleet.root(host, harm.prepare)
    changes = {host: {"change": _change(fleet, host, harm)} for host, harm in harms.items()}
    before = {host: state(fleet, host) for host in harms}
    watches = {host: _Watch(fleet, host) for host in harms}
    try:
        messages = fleet.play("change.yml", changes).failures()
        for host in harms:
            fleet.wait_for_ssh(host, PATIENCE_S)
    finally:
        lost = {host: watch.end() for host, watch in watches.items()}
    after = {host: state(fleet, host) for host in harms}
    for host, harm in harms.items():
        fleet.root(host, harm.clear)
    return {host: Story(before[host], after[host], messages.get(host, "no failure"), lost[host]) for host in harms}


def state(fleet: FabricFleet, host: str) -> dict[str, str]:
    """What has to be as before: files, interfaces, addresses and routes."""
    return {
        "files": fleet.netplan_files(host),
        "links": fleet.root(host, "cd /sys/class/net && grep . */mtu */address"),
        # without the index of the lab's end of the cable, which another boot changes
        "addresses": fleet.root(host, "ip -4 -br address | sed 's/@if[0-9]* */ /'"),
        "routes": fleet.root(host, "ip route"),
    }


def _change(fleet: FabricFleet, host: str, harm: Harm) -> dict[str, Any]:
    mac = fleet.root(host, "cat /sys/class/net/enP7s7/address").strip()
    text = harm.file.replace("{mac}", mac).replace("{address}", fleet.addresses[host])
    return {"path": harm.path, "content": text, "interfaces": [*harm.interfaces], **harm.variables}
