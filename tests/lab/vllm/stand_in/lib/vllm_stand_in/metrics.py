# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/metrics: the series of the real one by name and labels (metrics.txt, without cache_config_info).

Those that are counted here move, and those that a request names in its `vllm_xargs`, by how much; the others stay 0.
"""

from __future__ import annotations

import threading
from pathlib import Path

_SERIES = Path(__file__).with_name("metrics.txt")


class Metrics:
    def __init__(self, model: str) -> None:
        self._lines = _SERIES.read_text().replace('model_name="tiny"', f'model_name="{model}"').splitlines()
        self._lock = threading.Lock()
        self._counts: dict[str, float] = {}

    def add(self, series: str, amount: float = 1) -> None:
        """series: a name, or a name and a label's value, for instance `vllm:request_success_total length`."""
        with self._lock:
            self._counts[series] = self._counts.get(series, 0) + amount

    def text(self) -> str:
        return "".join(line + ("\n" if line.startswith("#") else f" {self._value(line)}\n") for line in self._lines)

    def _value(self, line: str) -> float:
        name = line.partition("{")[0]
        return float(sum(self._counts[series] for series in self._counts if _matches(series, name, line)))


def _matches(series: str, name: str, line: str) -> bool:
    wanted, _, label = series.partition(" ")
    return wanted == name and (not label or f'"{label}"' in line)
