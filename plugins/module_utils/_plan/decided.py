# SPDX-License-Identifier: GPL-3.0-or-later
"""A service of which everything is decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._engines.placed import Placed
from .ranks import Rank


@dataclass(frozen=True)
class Decided:
    """A placed service, its ranks, head first, and what was decided for it as a whole (``services.<name>``).

    slots: requests that it works on at once.
    """

    placed: Placed
    ranks: Sequence[Rank]
    plan: Mapping[str, Any]
    slots: int

    def rank_on(self, host: str) -> Rank:
        return next(rank for rank in self.ranks if rank.host.name == host)
