# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a supervisor decides of its host's memory. What it does, is proved on a lab host (molecule/services)."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import host, local, memory
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.judge import End
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.report import Report
from hypothesis import given
from hypothesis import strategies as st
from test_rank import HEAD

GIB = 1 << 30
FLOOR = 6 * GIB
GUARD = HEAD.guard


def test_what_is_read_of_meminfo() -> None:
    text = "MemTotal:  100 kB\nMemFree:      10 kB\nMemAvailable:   60 kB\nBuffers:  1 kB\nHugePages_Free:  0\n"
    assert memory.read_memory(text) == memory.Memory(10 << 10, 60 << 10)
    with pytest.raises(ValueError, match="has no MemAvailable line"):
        memory.read_memory("MemFree:  10 kB\n")


# Load -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "available", "last", "at", "drops"),
    [
        (7, 60, None, 0, False),  # above the floor
        (5, 60, None, 0, True),
        (5, 5.1, None, 0, False),  # no cache to give
        (5, 60, (10, 40), 10.5, False),  # once a second
        (5, 60, (10, 40), 11, True),
        (5, 60, (10, 0.1), 15, False),  # it gave nothing: what is read again and again is not dropped each second
        (5, 60, (10, 0.1), 20, True),
    ],
)
def test_when_caches_are_dropped(
    free: float, available: float, last: tuple[float, float] | None, at: float, drops: bool
) -> None:
    now = memory.Memory(int(free * GIB), int(available * GIB))
    drop = memory.Drop(last[0], int(last[1] * GIB)) if last else None
    assert memory.drops_caches(now, FLOOR, drop, at) is drops


@given(st.lists(st.tuples(st.floats(0.01, 3), st.integers(0, 20), st.integers(0, 8))))
def test_never_twice_within_a_second_nor_above_the_floor(looks: list[tuple[float, int, int]]) -> None:
    at, last, dropped = 0.0, None, list[float]()
    for pause, free, gained in looks:
        at += pause
        if memory.drops_caches(memory.Memory(free * GIB, 100 * GIB), FLOOR, last, at):
            assert free * GIB < FLOOR
            dropped.append(at)
            last = memory.Drop(at, gained * GIB)
    assert all(later - earlier >= 1 for earlier, later in pairwise(dropped))


# Creep ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("taken", "creeping"),
    [
        ([39] * 12, False),
        ([41] * 5, False),  # not yet for long
        ([41] * 6, False),
        ([41] * 7, True),
        ([41, 41, 41, 39, 41, 41, 41, 41], False),  # a burst that is over begins anew
        ([39, *[41] * 7], True),
    ],
)
def test_a_rank_creeps_that_takes_more_than_planned_for_long(taken: list[int], creeping: bool) -> None:
    """One look each minute; the plan knows at most 40 GiB."""
    since, guard = None, replace(GUARD, creep_s=360)
    for minute, gib in enumerate(taken):
        since = memory.over_since(since, gib * GIB, guard.high_bytes, minute * 60)
    assert memory.creeps(since, guard, (len(taken) - 1) * 60) is creeping


def test_the_sentence_names_the_figures() -> None:
    assert memory.creep_sentence(memory.Taken(45 * GIB, 30 * GIB, [1]), GUARD) == (
        "it takes 45.0 GiB of memory, 30.0 of them the GPU's, and for 5 minutes more than the 40.0 GiB that were "
        "planned at most"
    )


def test_the_drivers_words_of_its_processes() -> None:
    """GB10 tells the memory of each process, though none of the whole; two contexts of one process are two rows."""
    assert memory.compute_apps("1234, 77000\n1234, 1\n99, [N/A]\nNo running processes found\n") == {1234: 77001 << 20}


def test_this_process_takes_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = f"{os.getpid()}, 1024\n1, 99999\n"
    done = host.subprocess.CompletedProcess([], 0, shown, "")
    monkeypatch.setattr(host, "run", lambda *_words: done)
    # of all processes that share its namespace
    taken = host.memory_of(os.getpid())
    assert os.getpid() in taken.pids
    assert taken.gpu >= GIB
    assert taken.bytes > taken.gpu
    assert host.memory_of(0) == memory.Taken(0, 0, set())


# Ended by a killer ------------------------------------------------------------------------------------------------

TERM = 'sending SIGTERM to process 4711 "VLLM::EngineCor": 1000 MiB are available'


@pytest.mark.parametrize(
    ("journal", "who"),
    [
        (f"a line before\n{TERM}\n", "the memory guard"),
        ('sending SIGKILL to process 4711 "vllm": 400 MiB are available', "the memory guard"),
        ("Out of memory: Killed process 4711 (VLLM::EngineCor) total-vm:1kB", "the kernel's out-of-memory killer"),
        (
            "Memory cgroup out of memory: Killed process 4711 (python3) total-vm:1kB",
            "the kernel's out-of-memory killer",
        ),
        (TERM.replace("4711", "47"), ""),
        (TERM.replace("4711", "47110"), ""),
        # whoever names himself so has not been ended
        ('sending SIGTERM to process 47 "sending SIGTERM to process 4711 x": 1', ""),
        ("a line of a module: process 4711", ""),
    ],
)
def test_who_ended_it(journal: str, who: str) -> None:
    found = memory.killer(journal, {4710, 4711})
    assert found.startswith(who) if who else found == ""
    assert ("ended process 4711 of it" in found) is bool(who)


# At work ----------------------------------------------------------------------------------------------------------


class Looks:
    """A host whose memory, and a rank whose appetite, come from lists; its clock moves with each pause."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_creep: str = "report") -> None:
        self.now, self.drops, self.kept, self.over = 0.0, list[float](), list[str](), list[End]()
        self.free, self.taken = 50 * GIB, 10 * GIB
        service = replace(HEAD, guard=replace(GUARD, on_creep=on_creep))
        self.report = Report(service, [], tmp_path)
        self.rank = local.LocalRank(service, self.report, self.over.append)
        self.rank._loading = True
        monkeypatch.setattr(local.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(local.host, "memory_now", lambda: memory.Memory(self.free, 50 * GIB))
        monkeypatch.setattr(local.host, "drop_caches", self._drop)
        monkeypatch.setattr(local.host, "pids_of", lambda _init: {100 + int(self.now)})
        monkeypatch.setattr(local.host, "memory_of", lambda _init: memory.Taken(self.taken, 0, {7}))
        monkeypatch.setattr(local.LocalRank, "keep_evidence", self._keep)

    def _drop(self) -> int:
        self.drops.append(self.now)
        return GIB

    async def _keep(self, reason: str) -> Path:
        assert self.report.fields["creep"] == "", "whoever reads of it finds the evidence"
        self.kept.append(reason)
        return Path("/evidence")

    def run(self, monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
        end = self.now + seconds

        async def sleep(pause: float) -> None:
            self.now += pause
            if self.now >= end:
                raise asyncio.CancelledError

        monkeypatch.setattr(local.asyncio, "sleep", sleep)
        container: Any = type("C", (), {"init": 7})
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(self.rank._guard(container))


def test_caches_go_while_it_loads_and_stay_while_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(tmp_path, monkeypatch)
    looks.run(monkeypatch, 5)
    assert looks.drops == []
    looks.free = 2 * GIB
    looks.run(monkeypatch, 3)
    assert (looks.drops, looks.report.fields["cache_drops"]) == ([5, 6, 7], 3)
    looks.rank.loaded()
    looks.run(monkeypatch, 5)
    assert len(looks.drops) == 3


def test_a_process_that_a_load_began_a_second_ago_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its end would be nobody's, and no want of memory."""
    looks = Looks(tmp_path, monkeypatch)
    looks.rank._pids = set()
    looks.run(monkeypatch, 4)
    assert looks.rank._pids >= {100, 101, 102, 103}


@pytest.mark.parametrize("on_creep", ["report", "restart"])
def test_creep_is_reported_once_with_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_creep: str) -> None:
    looks = Looks(tmp_path, monkeypatch, on_creep)
    looks.taken = 41 * GIB
    looks.run(monkeypatch, 600)
    assert looks.report.fields["creep"] == ""  # a load takes what it takes: compilers
    looks.rank.loaded()
    looks.run(monkeypatch, 400)
    fields = looks.report.fields
    assert (fields["memory_taken"], "it takes 41.0 GiB" in fields["creep"]) == (41 * GIB, True)
    if on_creep == "report":
        assert (looks.kept, fields["evidence"], looks.over) == ([fields["creep"]], "/evidence", [])
    else:
        # the end of an epoch keeps its evidence, and a restart by plan is no want of memory
        assert (looks.kept, looks.over) == ([], [End(fields["creep"], drains=True)])
    looks.taken = 39 * GIB
    looks.run(monkeypatch, 20)
    assert looks.report.fields["creep"] == ""


def test_a_memory_that_can_not_be_read_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(tmp_path, monkeypatch)

    def unreadable() -> memory.Memory:
        raise OSError("no /proc")

    monkeypatch.setattr(local.host, "memory_now", unreadable)
    looks.run(monkeypatch, 5)
    assert looks.report._last_sentence == "the host's memory can't be looked after: no /proc"
