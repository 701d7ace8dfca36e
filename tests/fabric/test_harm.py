# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No network change locks the owner out: each harmful one ends with SSH back and the old bytes in place."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from .fleet import Fleet
from .harm import CATALOGUE, Harm

LIMIT_S = 120.0
HOSTS = [f"spark-{number}" for number in range(1, 7)]


@dataclass
class Watch:
    """Asks a host for a new SSH connection again and again: when it had none, and when it had one again."""

    fleet: Fleet
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

    def end(self) -> float:
        """Seconds from the beginning to the last failure; 0 without any."""
        self._over.set()
        self._thread.join()
        return max(self.lost, default=0.0)


@dataclass(frozen=True)
class Story:
    """What became of one harmful change."""

    before: dict[str, str]
    after: dict[str, str]
    message: str
    back_after: float


@pytest.fixture(scope="module")
def catalogue(request: pytest.FixtureRequest) -> list[Harm]:
    return [harm for harm in CATALOGUE if harm.short or request.config.getoption("--whole")]


@pytest.fixture(scope="module")
def stories(fleet: Fleet, catalogue: list[Harm]) -> dict[str, Story]:
    """As many changes at once as there are hosts, then the next ones on the same hosts: they are as they were."""
    fleet.up(HOSTS)
    told: dict[str, Story] = {}
    for first in range(0, len(catalogue), len(HOSTS)):
        told |= _make(fleet, dict(zip(HOSTS, catalogue[first : first + len(HOSTS)], strict=False)))
    return told


def _make(fleet: Fleet, harms: dict[str, Harm]) -> dict[str, Story]:
    """Through one play, as an owner would run it."""
    changes = {host: {"change": _change(fleet, host, harm)} for host, harm in harms.items()}
    before = {host: _state(fleet, host) for host in harms}
    watches = {host: Watch(fleet, host) for host in harms}
    messages = fleet.play("change.yml", changes).failures()
    for host in harms:
        fleet.wait_for_ssh(host, 30)
    back = {host: watch.end() for host, watch in watches.items()}
    return {
        harm.name: Story(before[host], _state(fleet, host), messages.get(host, "no failure"), back[host])
        for host, harm in harms.items()
    }


def _state(fleet: Fleet, host: str) -> dict[str, str]:
    """What has to be as before: files, interfaces, addresses and routes."""
    return {
        "files": fleet.netplan_files(host),
        "links": fleet.run(host, "cd /sys/class/net && grep . */mtu */address"),
        "addresses": fleet.run(host, "ip -4 -br address"),
        "routes": fleet.run(host, "ip route"),
    }


def _change(fleet: Fleet, host: str, harm: Harm) -> dict[str, Any]:
    mac = fleet.run(host, "cat /sys/class/net/enP7s7/address").strip()
    text = harm.file.replace("{mac}", mac).replace("{address}", fleet.addresses[host])
    return {"path": harm.path, "content": text, "interfaces": [*harm.interfaces], **harm.variables}


def test_each_is_refused_by_name(stories: dict[str, Story], catalogue: list[Harm]) -> None:
    told = {harm.name: stories[harm.name].message for harm in catalogue}
    assert {name: text for harm in catalogue if f"[{harm.rule}]" not in (text := told[name := harm.name])} == {}


@pytest.mark.parametrize("what", ["files", "links", "addresses", "routes"])
def test_all_is_as_before(stories: dict[str, Story], what: str) -> None:
    found = {name: (story.before[what], story.after[what]) for name, story in stories.items()}
    for name, (before, after) in found.items():
        assert after == before, name


def test_ssh_is_back_in_time(stories: dict[str, Story], record_property: Any) -> None:
    times = {name: round(story.back_after, 1) for name, story in stories.items()}
    record_property("ssh_back_after_s", times)
    print("SSH back after [s]:", json.dumps(times))
    assert {name: seconds for name, seconds in times.items() if seconds > LIMIT_S} == {}


def test_what_cuts_ssh_really_did(stories: dict[str, Story], catalogue: list[Harm]) -> None:
    """Else the catalogue would prove nothing."""
    assert {harm.name for harm in catalogue if harm.cuts and not stories[harm.name].back_after} == set()
