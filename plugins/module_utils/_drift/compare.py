# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The comparison: plan and readings in, differences out. Pure; what could not be read is unknown, never clean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ansible_collections.gb10.fleet.plugins.module_utils._drift import (
    on_files,
    on_services,
    on_stores,
    on_system,
)
from ansible_collections.gb10.fleet.plugins.module_utils._drift.accepted import Acceptance, sort_out
from ansible_collections.gb10.fleet.plugins.module_utils._drift.across import of_groups
from ansible_collections.gb10.fleet.plugins.module_utils._drift.difference import Difference, Unknown, View, ordered
from ansible_collections.gb10.fleet.plugins.module_utils._drift.known_bad import of_known_bad
from ansible_collections.gb10.fleet.plugins.module_utils._drift.on_fabric import of_fabric

Verdict = Literal["clean", "drift", "unknown"]
EXIT_CODES: dict[Verdict, int] = {"clean": 0, "unknown": 1, "drift": 2}
_SUBJECTS = (
    on_files.of_files,
    on_files.of_json,
    on_files.of_netplan,
    on_system.of_sysctl,
    on_system.of_kernel,
    on_system.of_versions,
    on_system.of_room,
    on_system.of_clock,
    on_services.of_engine,
    on_services.of_units,
    on_services.of_containers,
    on_services.of_undeclared,
    on_services.of_ports,
    on_services.of_firewall,
    on_stores.of_images,
    on_stores.of_models,
    of_known_bad,
)


@dataclass(frozen=True)
class Reading:
    """What one host answered. state: as `host_state` reads it, None when the host could not be read at all, with why.

    unknown: parts that could not be read, each with the reason.
    """

    state: Mapping[str, Any] | None
    unknown: Mapping[str, str]
    why: str = ""


@dataclass(frozen=True)
class Result:
    """hosts: all that were asked. accepted: differences that somebody accepted, each with the acceptance."""

    hosts: tuple[str, ...]
    differences: tuple[Difference, ...]
    accepted: tuple[tuple[Difference, Acceptance], ...]
    unknown: tuple[Unknown, ...]

    @property
    def verdict(self) -> Verdict:
        """Drift that is certain counts before what could not be told; a hint is no drift."""
        if any(one.severity != "hint" for one in self.differences):
            return "drift"
        return "unknown" if self.unknown or not self.hosts else "clean"

    def verdict_of(self, host: str) -> Verdict:
        mine = [one for one in self.differences if one.host == host]
        return Result((host,), tuple(mine), (), tuple(one for one in self.unknown if one.host == host)).verdict


def compare(plan: Mapping[str, Any], readings: Mapping[str, Reading], today: str, service: str = "") -> Result:
    """readings: by host, of all hosts that were asked. today: ``2026-11-21``, for acceptances that end.

    service: only what concerns this one; empty for everything.
    """
    told = [one for one in _told(plan, readings) if _concerns(one, service)]
    differences = ordered(one for one in told if isinstance(one, Difference))
    unknown = sorted({one for one in told if isinstance(one, Unknown)}, key=lambda one: (one.host, one.part))
    counted, accepted = sort_out(differences, plan["drift"]["accept"], today)
    return Result(tuple(sorted(readings)), tuple(counted), tuple(accepted), tuple(unknown))


def _concerns(one: Difference | Unknown, service: str) -> bool:
    return not service or isinstance(one, Unknown) or one.service == service


def _told(plan: Mapping[str, Any], readings: Mapping[str, Reading]) -> Iterator[Difference | Unknown]:
    states = {host: reading.state for host, reading in readings.items() if reading.state is not None}
    fabric = {host: state["fabric"] for host, state in states.items() if state["fabric"] is not None}
    for host, reading in readings.items():
        if reading.state is None:
            yield Unknown(host, "the host", reading.why)
            continue
        yield from (Unknown(host, part, why) for part, why in reading.unknown.items())
        yield from _of_host(View(host, plan, reading.state))
        if host in fabric:
            yield from of_fabric(host, plan, fabric, readings.keys() - states.keys())
    yield from of_groups(plan, states)


def _of_host(view: View) -> Iterable[Difference | Unknown]:
    for subject in _SUBJECTS:
        yield from subject(view)
