# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in the way of a supervisor for a while ends no service: its folder, its disk, its ports, a process that
stands still, a cable that flaps or is slow."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator

import pytest

from .bare import HOSTS
from .group import CONTAINER, PORT, RENDEZVOUS, UNIT, Group

pytestmark = pytest.mark.whole
# Binds as soon as the port is free, and holds it.
TAKER = (
    "import socket, time\n"
    "while True:\n"
    "    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
    "    try:\n"
    "        s.bind(('0.0.0.0', {port})); s.listen(); break\n"
    "    except OSError:\n"
    "        time.sleep(0.05)\n"
    "time.sleep(3600)\n"
)


@pytest.fixture(scope="module")
def serving(group: Group) -> Iterator[Group]:
    group.place()
    group.until_serving()
    yield group


@pytest.fixture
def anew(serving: Group) -> Group:
    """The group with its whole restart budget."""
    serving.restart()
    return serving


def kill_the_workers_container(group: Group) -> None:
    group.fleet.root(group.worker, f"docker kill {CONTAINER}")


def take(group: Group, port: int) -> None:
    program = shlex.quote(TAKER.format(port=port))
    group.fleet.root(group.head, f"systemd-run --quiet --unit taker --collect python3 -c {program}")


def give_back(group: Group) -> None:
    group.fleet.root(group.head, "systemctl stop taker")


def test_their_folder_is_removed(anew: Group) -> None:
    before = anew.status(anew.head)["epoch"]
    for host in HOSTS:
        anew.fleet.root(host, "rm -rf /run/gb10-fleet")
    for host in HOSTS:
        anew.until(lambda host=host: anew.status(host)["state"] == "serving", f"{host} says again that it serves")
        assert anew.fleet.ok(host, "test -e /run/gb10-fleet/pair/started")
    assert anew.status(anew.head)["epoch"] == before
    assert anew.answers()

    def kill_a_container() -> None:
        kill_the_workers_container(anew)

    assert anew.recovers(kill_a_container)["starts_left"] == 1


def test_their_disk_is_full(anew: Group) -> None:
    def fill_the_disk_and_kill_a_container() -> None:
        for host in HOSTS:
            anew.fleet.root(host, "mount -t tmpfs -o size=64k full /run/gb10-fleet")
            anew.fleet.root(host, "cat /dev/zero > /run/gb10-fleet/filled", check=False)
        kill_the_workers_container(anew)
        anew.until(lambda: "can't be written (No space left" in anew.journal(anew.head), "the head says so")
        anew.until(lambda: "is lost" in anew.journal(anew.head) or "137: killed" in anew.journal(anew.head), "it ends")
        anew.until(anew.answers, "it answers although nothing can be written")
        for host in HOSTS:
            assert anew.unit(host) == "active"
            anew.fleet.root(host, "umount /run/gb10-fleet")

    before = anew.status(anew.head)["epoch"]
    fill_the_disk_and_kill_a_container()
    anew.until(lambda: anew.status(anew.head)["epoch"] == before + 1, "the later epoch is on file")
    assert anew.answers()


def test_the_meeting_port_is_taken(anew: Group) -> None:
    anew.stop()
    take(anew, RENDEZVOUS)
    anew.start()
    anew.until(lambda: f"port {RENDEZVOUS} can't be had" in anew.status(anew.head)["error"], "the head says so")
    assert anew.unit(anew.head) == "active"
    give_back(anew)
    anew.until_serving()
    assert anew.status(anew.head)["starts_left"] == 2
    assert anew.answers()


def test_the_port_of_the_api_is_taken_after_the_container_died(anew: Group) -> None:
    before = anew.status(anew.head)["epoch"]
    take(anew, PORT)
    anew.fleet.root(anew.head, f"docker kill {CONTAINER}")
    anew.until(lambda: "tries again after 20 s" in anew.status(anew.head)["error"], "three tries met it")
    assert f"port {PORT} can't be had" in anew.status(anew.head)["error"]
    give_back(anew)
    anew.until_serving(before)
    assert anew.status(anew.head)["starts_left"] == 1
    assert anew.answers()


def test_a_supervisor_that_is_frozen_while_its_container_dies(anew: Group) -> None:
    """The watchdog ends it; here after 30 s, in the plan's unit after 120."""

    def freeze_and_kill() -> None:
        anew.fleet.root(anew.head, f"systemctl kill --signal STOP --kill-whom main {UNIT}")
        anew.fleet.root(anew.head, f"docker kill {CONTAINER}")

    anew.recovers(freeze_and_kill)


def test_a_cable_that_flaps(anew: Group) -> None:
    """20 times, for less than the ranks wait for each other: nothing is begun anew."""
    before = anew.status(anew.head)
    for action in ("pull", "plug") * 20:
        anew.fleet.lab("cable", action, "spark-2:1")
        time.sleep(0.7)
    anew.until(anew.answers, "it answers again")
    after = anew.status(anew.head)
    assert [after[key] for key in ("epoch", "state", "starts_left")] == [before["epoch"], "serving", 2]


def test_a_cable_of_1_mbit_during_the_start(serving: Group) -> None:
    serving.stop()
    serving.fleet.lab("cable", "rate", "spark-2:1", "1mbit")
    try:
        serving.start()
        took = serving.until_serving() and serving.until(serving.answers, "it answers")
    finally:
        serving.fleet.lab("cable", "rate", "spark-2:1", "off")
    assert serving.status(serving.head)["starts_left"] == 2
    print(f"\na start over 1 Mbit/s: answers after {took} s of serving")
