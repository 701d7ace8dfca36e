# SPDX-License-Identifier: GPL-3.0-or-later
"""Phoenix in the plan: its host's part, and who reaches it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..._base.addresses import is_loopback
from ..._base.slice import Api, ListenRow, PhoenixSlice, Slice
from ..._engines.placed import Host
from ..fleet.subject import FleetPart, FleetSubject, PlanContext, Planned
from .declared import PHOENIX, PhoenixDeclared, claims, decide
from .plan import part_of, url


@dataclass(frozen=True)
class Phoenix(FleetPart):
    """declared: as `declared.decide` completes ``fleet_phoenix``; None without."""

    declared: PhoenixDeclared | None
    inventory: str

    def slice(self, host: Host, _slices: Slice) -> PhoenixSlice:
        return part_of(self.declared, host.name, self.inventory)

    def shown(self) -> dict[str, Any] | None:
        if self.declared is None:
            return None
        kept = {key: self.declared[key] for key in ("host", "secret_file", "retention_days", "disk_gib")}
        return kept | {"url": url(self.declared)}

    def apis(self, host: str) -> Iterator[Api]:
        if self.declared and host == self.declared["host"] and not is_loopback(self.declared["listen"]):
            yield {"port": self.declared["port"], "from": [], "reason": "Phoenix"}

    def listens(self, host: str) -> Iterator[ListenRow]:
        if self.declared and host == self.declared["host"]:
            who = "who has its key, or signs in; without TLS"
            yield {"port": self.declared["port"], "address": self.declared["listen"], "service": "phoenix", "who": who}


def plan(declared: PhoenixDeclared | None, context: PlanContext) -> Planned:
    return Phoenix(declared, context.inventory), []


def _controller(part: PhoenixSlice) -> str:
    return "it keeps traces, by a key from here" if part["secrets"] else ""


FLEET_PHOENIX = FleetSubject("phoenix", plan, PHOENIX, decide=decide, claims=claims, controller=_controller)
