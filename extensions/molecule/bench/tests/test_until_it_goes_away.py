# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The service that is measured goes away. The last file of the scenario: nobody waits until it serves again."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable

from test_bench import UNIT, bench, kept
from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]

Playbook = Callable[..., "subprocess.CompletedProcess[str]"]


def test_an_endpoint_that_goes_away_ends_in_a_sentence(playbook: Playbook, host: Host) -> None:
    before, over = kept(), threading.Event()

    def stop() -> None:
        until = time.monotonic() + 300
        # its load generator runs: the endpoint goes away in the middle. [v]: or pgrep would find the shell that runs it
        while time.monotonic() < until and not over.is_set():
            if host.run("pgrep -f '[v]llm bench serve'").rc == 0:
                time.sleep(15)
                host.run("systemctl stop %s", UNIT)
                return
            time.sleep(0.5)

    helper = threading.Thread(target=stop)
    helper.start()
    found = bench(playbook, "concurrency=1", "rounds=50")  # it would not be over by then
    over.set()
    helper.join()
    assert found.returncode != 0
    assert "tiny can't be measured at 256 tokens x 1: " in found.stdout
    assert "nothing of this benchmark was kept" in found.stdout
    assert "Traceback" not in found.stdout + found.stderr
    assert kept() == before
