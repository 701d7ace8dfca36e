# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An imitation, as a plugin of the real vLLM.

A model so large that each step with a part of a prompt takes SLOW_STEP_S, in which its process waits for the GPU by
looking at it again and again; and while `HOLD` exists a collective that no
other rank ever joins: it spins, as NCCL does.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

HOLD = Path("/tmp/hold")
# More than tokens of answers and our own requests.
_LARGE = 64
# NCCL would use all of a core, of which the lab has few. By processor time: on a host under load a piece of the clock
# holds little of it, and a supervisor takes that for no work (seen at load 15 on two cores).
_SPIN_S, _REST_S = 0.05, 0.2


def register() -> None:
    from vllm.v1.worker.cpu_worker import CPUWorker  # type: ignore[import-not-found]  # noqa: PLC0415  # in the image

    step_s, execute = float(os.environ["SLOW_STEP_S"]), CPUWorker.execute_model

    def slowly(self: Any, scheduled: Any, *more: Any, **named: Any) -> Any:
        end = time.monotonic() + (step_s if scheduled.total_num_scheduled_tokens > _LARGE else 0)
        while time.monotonic() < end or HOLD.exists():
            _spin()
        return execute(self, scheduled, *more, **named)

    if not getattr(CPUWorker, "is_slow", False):
        CPUWorker.execute_model, CPUWorker.is_slow = slowly, True


def _spin() -> None:
    end = time.thread_time() + _SPIN_S
    while time.thread_time() < end:
        pass
    time.sleep(_REST_S)
