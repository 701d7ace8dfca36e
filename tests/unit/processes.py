# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that tests start on this machine."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import closing

GIVE_UP_SECONDS = 60


def eventually(true: Callable[[], bool]) -> None:
    """The limit only ends a test that has failed."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
