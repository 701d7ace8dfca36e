# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives back the leases of hosts when the run ends: as it should, by a failure, or by an interrupt.

What is left after SIGKILL is taken over by the next run of this machine, which finds no such process.
"""

from __future__ import annotations

import atexit
import contextlib
import subprocess
import time
from typing import Any

from ansible.plugins.callback import CallbackBase

_MOST_S = 15


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core carries no types
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gb10_lease"

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[str, list[str]] = {}
        # not with the statistics, which a run that is interrupted does not reach
        atexit.register(self._give_back)

    def v2_runner_on_ok(self, result: Any) -> None:
        if result.task.resolved_action == "gb10.fleet.lease":
            self._held[result.host.get_name()] = result.result.get("release") or []

    def _give_back(self) -> None:
        end = time.monotonic() + _MOST_S
        silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        under_way = []
        for words in filter(None, self._held.values()):
            with contextlib.suppress(OSError):
                under_way.append(subprocess.Popen(words, start_new_session=True, **silent))
        for one in under_way:
            try:
                one.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
