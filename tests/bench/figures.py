# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A figure: ours against the peers' way in the same run, and whether it reached its goal."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figure:
    """name: what was measured. ours, baseline: in ``unit``; no baseline where the peers have no such thing.

    goal: the most that ``ours`` may be (``"<= 0.15"``) or what it must be (``"= 3"``).
    """

    name: str
    ours: float
    baseline: float | None
    unit: str
    goal: str

    @property
    def met(self) -> bool:
        sign, _, limit = self.goal.partition(" ")
        return self.ours <= float(limit) if sign == "<=" else self.ours == float(limit)

    def line(self) -> str:
        values = {key: round(value, 4) if isinstance(value, float) else value for key, value in asdict(self).items()}
        return json.dumps({**values, "met": self.met})
