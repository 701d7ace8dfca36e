# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host whose memory runs out: caches go, an engine ends, SSH answers, the service comes back, and at last stays down.

What the kernel says of the memory is imitated by a file; the guard, systemd, Docker and the supervisor are real.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]
pytestmark = pytest.mark.story

UNIT, GUARD, CONTAINER = "gb10-service-tiny.service", "gb10-memory-guard.service", "gb10-service-tiny"
RANK_FILE = "/etc/gb10-fleet/services/tiny.json"
# What is read meanwhile is never cut short.
SHOW = "dd of=/run/meminfo conv=notrunc status=none"
SSH_CONFIG = Path(os.environ["GB10_LAB_DIR"]) / "ssh_config"
LOGIN = ("ssh", "-F", str(SSH_CONFIG), "-o", "ControlMaster=no", "-o", "ControlPath=none")


def kernel_shows(host: Host, free_mib: int, available_mib: int) -> None:
    """Have the kernel say so."""
    host.check_output(
        f"sed '{lines(free_mib, available_mib)}' /run/meminfo > /run/meminfo.new; {SHOW} if=/run/meminfo.new"
    )


def lines(free_mib: int, available_mib: int) -> str:
    """For sed, as wide as the kernel's own."""
    figures = {"MemFree:": free_mib, "MemAvailable:": available_mib}
    return "; ".join(f"s/^{name}.*/{name:16}{mib * 1024:8} kB/" for name, mib in figures.items())


def status(host: Host) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(host.check_output("cat /run/gb10-fleet/tiny/status.json"))
    return found


def until(host: Host, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The limit only ends a test that has failed."""
    deadline = time.monotonic() + 300
    while not holds(now := status(host)):
        assert time.monotonic() < deadline, now
        time.sleep(0.5)
    return now


def serves(now: dict[str, Any]) -> bool:
    return bool(now["state"] == "serving")


def restart(host: Host) -> None:
    host.check_output(f"systemctl restart {UNIT}")
    until(host, lambda now: not serves(now))


def changed_guard(host: Host, **values: Any) -> None:
    """Another guard in the supervisor's file, with which it starts anew."""
    program = (
        f"import json; path = {RANK_FILE!r}; rank = json.load(open(path)); rank['guard'].update({values!r});"
        " json.dump(rank, open(path, 'w'))"
    )
    host.check_output(f'python3 -c "{program}"')
    restart(host)


@contextmanager
def ssh_answers() -> Iterator[list[float]]:
    """Ask for a new login again and again; the seconds that each took."""
    taken: list[float] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            began = time.monotonic()
            subprocess.run([*LOGIN, "titan", "true"], check=True, capture_output=True, timeout=60)
            taken.append(time.monotonic() - began)
            over.wait(0.2)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield taken
    finally:
        over.set()
        asking.join()


@pytest.fixture(autouse=True)
def enough(host: Host) -> Iterator[None]:
    kernel_shows(host, 15_000, 18_000)
    yield
    kernel_shows(host, 15_000, 18_000)


def test_the_guard_goes_by_the_plan_and_engines_are_what_it_finds_first(host: Host) -> None:
    words = host.check_output(f"systemctl show --property ExecStart {GUARD}")
    assert "memory_guard.py 3221225472 1610612736 900" in words
    assert host.service(GUARD).is_running
    assert host.service(GUARD).is_enabled
    pid = host.check_output(f"docker inspect --format '{{{{.State.Pid}}}}' {CONTAINER}")
    assert host.check_output(f"cat /proc/{pid}/oom_score_adj") == "900"


def test_caches_go_while_the_model_loads(host: Host) -> None:
    assert status(host)["cache_drops"] == 0
    kernel_shows(host, 4_000, 18_000)
    restart(host)
    found = until(host, serves)
    # the file says after each drop that nothing was gained, so that ten seconds pass before the next
    assert found["cache_drops"] >= 1
    assert host.check_output("cat /proc/sys/vm/drop_caches /proc/sys/vm/compact_memory") == "3\n1"
    time.sleep(3)
    assert status(host)["cache_drops"] == found["cache_drops"]


def test_a_service_that_creeps_is_named_before_the_floor(host: Host) -> None:
    host.check_output(f"cp -p {RANK_FILE} /run/planned.json")
    changed_guard(host, high_bytes=1 << 20, creep_s=5)
    found = until(host, lambda now: now["creep"])
    assert re.search(r"it takes \d+\.\d GiB of memory, 0\.0 of them the GPU's", found["creep"])
    assert serves(found)
    assert found["creep"] in host.check_output(f"cat {found['evidence']}/reason.txt")
    changed_guard(host, on_creep="restart")
    # the restart that brings the guard's new word is an end, too, and whoever orders it is named
    until(host, lambda now: "more than the 0.0 GiB that were planned at most" in now["last_end"])
    host.check_output(f"mv /run/planned.json {RANK_FILE}")
    restart(host)
    until(host, serves)


# The memory is low as long as all processes of the engine live, as if it were theirs.
FILLS = f"""
pids=$(docker top {CONTAINER} -eo pid | tail -n +2)
cp /run/meminfo /run/meminfo.enough
sed '{lines(500, 1000)}' /run/meminfo.enough > /run/meminfo.low
{SHOW} if=/run/meminfo.low
for look in $(seq 500); do kill -0 $pids 2> /dev/null || break; sleep 0.02; done
{SHOW} if=/run/meminfo.enough
"""


def killed(host: Host, epoch: int) -> None:
    until(host, serves)
    host.check_output(f"sh -c {shlex.quote(FILLS)}")
    until(host, lambda now: now["epoch"] > epoch or now["state"] in ("ending", "stopped"))


def test_an_engine_ends_before_the_host_and_comes_back_once(host: Host) -> None:
    host.check_output(f"systemctl stop {UNIT}; systemctl start {UNIT}")  # a new budget
    first = until(host, serves)
    with ssh_answers() as seconds:
        killed(host, first["epoch"])
        back = until(host, serves)
        assert "the memory guard ended process" in back["last_end"]
        assert back["starts_left"] == 0
        assert "sending SIGKILL to process" in host.check_output(f"cat {back['evidence']}/guard.log")
        killed(host, back["epoch"])
        down = until(host, lambda now: now["state"] == "stopped")
    assert "3 starts within 30 minutes did not last (one that ended for want of memory counts as two)" in down["error"]
    assert "the memory guard ended process" in down["error"]
    assert host.check_output(f"systemctl is-failed {UNIT}") == "failed"
    assert seconds
    print(f"{len(seconds)} logins, the slowest in {max(seconds):.2f} s")
    for unit in ("docker", "ssh", GUARD):
        assert host.service(unit).is_running
    host.check_output(f"systemctl reset-failed {UNIT}; systemctl start {UNIT}")
    until(host, serves)
