# SPDX-License-Identifier: GPL-3.0-or-later
"""Phoenix, which keeps traces: its host's part, and who reaches it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .._subjects.phoenix.plan import part_of, url


@dataclass(frozen=True)
class Phoenix:
    """declared: as `_subjects.phoenix.declared.decide` completes ``fleet_phoenix``; None without."""

    declared: Mapping[str, Any] | None
    inventory: str

    def slice_of(self, host: str) -> dict[str, Any]:
        """``hosts.<host>.phoenix``."""
        return part_of(self.declared, host, self.inventory)

    def shown(self) -> dict[str, Any] | None:
        """``phoenix`` of the plan."""
        if self.declared is None:
            return None
        kept = {key: self.declared[key] for key in ("host", "secret_file", "retention_days", "disk_gib")}
        return kept | {"url": url(self.declared)}

    def apis(self, host: str) -> Iterator[dict[str, Any]]:
        """As `_base.subject.Here.apis` has them."""
        if (
            self.declared is not None
            and host == self.declared["host"]
            and not self.declared["listen"].startswith("127.")
        ):
            yield {"port": self.declared["port"], "from": [], "reason": "Phoenix"}

    def listens(self, host: str) -> Iterator[dict[str, Any]]:
        """As `_plan.listens` has them."""
        if self.declared is not None and host == self.declared["host"]:
            who = "who has its key, or signs in; without TLS"
            yield {"port": self.declared["port"], "address": self.declared["listen"], "service": "phoenix", "who": who}
