# SPDX-License-Identifier: GPL-3.0-or-later
"""A service of which everything is decided, and its ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._base.plan import ServicePlan
from .._base.slice import ContainerEntry
from .._on_host.rank.service import Service as RankFile
from .memory.budget import Share
from .placed import Host, Placed


@dataclass(frozen=True)
class Rank:
    """One rank as it is planned: its container, the file of its supervisor and its part of the host's memory.

    exec: words run in the container once all ranks are in; None where the container itself serves. flags: of the engine
    that starts there.
    """

    host: Host
    number: int
    container: ContainerEntry
    exec: Sequence[str] | None
    flags: Mapping[str, Any]
    supervisor: RankFile
    share: Share


@dataclass(frozen=True)
class Decided:
    """A placed service, its ranks, head first, and what was decided for it as a whole (``services.<name>``).

    slots: requests that it works on at once.
    """

    placed: Placed
    ranks: Sequence[Rank]
    plan: ServicePlan
    slots: int

    def rank_on(self, host: str) -> Rank:
        return next(rank for rank in self.ranks if rank.host.name == host)
