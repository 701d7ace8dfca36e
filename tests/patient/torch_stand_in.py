# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""STAND-IN for PyTorch where no GPU is: what gb10_burn_in.py calls, each taking about as long as on a GB10.

GB10_TORCH_TIMES: how many times as long it takes. GB10_TORCH_WRONG: every so many products differ.
"""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

MATMUL_S, COPY_S = 0.006, 0.004
TIMES, WRONG = (
    int(os.environ.get(f"GB10_TORCH_{name}", default)) for name, default in (("TIMES", "1"), ("WRONG", "0"))
)
bfloat16, uint8 = "bfloat16", "uint8"
cuda = SimpleNamespace(synchronize=lambda: None)
made = 0


class Tensor:
    value = 1.0

    def copy_(self, _source: Tensor) -> None:
        time.sleep(COPY_S * TIMES)

    def double(self) -> Tensor:
        return self

    def sum(self) -> Tensor:
        return self

    def item(self) -> float:
        return self.value


def empty(*_size: int, **_kind: str) -> Tensor:
    return Tensor()


randn = empty


def empty_like(_other: Tensor) -> Tensor:
    return Tensor()


def matmul(_one: Tensor, _other: Tensor, out: Tensor) -> None:
    global made  # noqa: PLW0603
    made += 1
    time.sleep(MATMUL_S * TIMES)
    out.value = float(made) if WRONG and made % WRONG == 0 else 1.0
