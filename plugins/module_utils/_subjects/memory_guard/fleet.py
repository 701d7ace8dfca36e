# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory guard in the plan. Each host declares its own; its floor follows from what the plan leaves there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..._base.findings import Finding
from ..._base.slice import MemoryGuardSlice, Slice
from ..._engines.placed import Host
from ..fleet.subject import FleetPart, FleetSubject, PlanContext, Planned
from .subject import memory_guard, refused


@dataclass(frozen=True)
class MemoryGuard(FleetPart):
    """left: bytes that the plan leaves of each host's memory."""

    left: Mapping[str, int]

    def slice(self, host: Host, _slices: Slice) -> MemoryGuardSlice:
        return memory_guard(host.settings, self.left[host.name])

    def judge(self, host: Host) -> Iterator[Finding]:
        return refused(host.name, host.settings, self.left[host.name])


def plan(_declared: None, context: PlanContext) -> Planned:
    return MemoryGuard(context.left), []


FLEET_MEMORY_GUARD = FleetSubject("memory_guard", plan)
