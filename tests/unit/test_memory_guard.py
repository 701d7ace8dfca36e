# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Below what available memory an engine is ended, and which services the plan refuses for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.schema import check
from ansible_collections.gb10.fleet.plugins.module_utils._on_host import memory_guard as program
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.memory import killer
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.memory_guard.subject import (
    SPEC,
    floors,
    memory_guard,
    refused,
)
from drift_fleet import planned
from hypothesis import given
from hypothesis import strategies as st

GIB = 1 << 30
PROGRAM = "/usr/local/lib/gb10-fleet/memory_guard.py"
UNIT = "/etc/systemd/system/gb10-memory-guard.service"


def declared(**guard: Any) -> dict[str, Any]:
    return {"memory_guard": guard}


@pytest.mark.parametrize(
    ("guard", "left", "term", "kill"),
    [
        ({}, 40, 3, 1.5),
        ({}, 6, 3, 1.5),
        ({}, 2, 1, 0.5),  # a service that is planned to leave 2 GiB is not ended for it
        ({}, 0.1, 0.5, 0.25),
        ({}, -5, 0.5, 0.25),
        ({"term_gib": 8}, 40, 8, 4),
        ({"term_gib": 8, "kill_gib": 1}, 40, 8, 1),
        ({"kill_gib": 1}, 40, 3, 1),
    ],
)
def test_the_floor_follows_what_the_plan_leaves(guard: dict[str, float], left: float, term: float, kill: float) -> None:
    assert floors(declared(**guard), int(left * GIB)) == (int(term * GIB), int(kill * GIB))


@pytest.mark.parametrize(
    ("guard", "left", "rules"),
    [
        ({}, 0.9, []),
        ({}, 0.4, ["memory-guarded"]),
        ({}, -1, []),  # it does not fit, which is an error of its own
        ({"term_gib": 8}, 7, ["memory-guarded"]),
        ({"term_gib": 8, "enabled": False}, 7, []),
        ({"kill_gib": 4}, 40, ["memory-guard-order"]),
        ({"term_gib": 2, "kill_gib": 2}, 40, []),  # both at once is an owner's choice
        ({"term_gib": 2}, 2, []),  # exactly the floor is not below it
    ],
)
def test_services_that_would_leave_less_are_refused(guard: dict[str, Any], left: float, rules: list[str]) -> None:
    found = [*refused("titan", declared(**guard), int(left * GIB))]
    assert [one.rule for one in found] == rules
    assert all(one.severity == "error" and one.remedy for one in found)


@given(st.integers(0, 120 * GIB))
def test_nobody_is_ended_for_doing_what_was_planned(left: int) -> None:
    if not [*refused("titan", {}, left)]:
        assert floors({}, left)[0] <= left


@pytest.mark.parametrize(("floor", "is_taken"), [(0.1, True), (0.05, False), (64, True), (64.5, False)])
def test_a_floor_lies_within_bounds(floor: float, is_taken: bool) -> None:
    assert (check(SPEC, {"term_gib": floor}, "guard")[1] == []) is is_taken


def test_the_unit() -> None:
    plan = memory_guard({}, 40 * GIB)
    text = plan["files"][UNIT]["content"]
    assert plan["units"] == {"gb10-memory-guard.service": "started"}
    command = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    assert command.endswith("/python3 -I /usr/local/lib/gb10-fleet/memory_guard.py 3221225472 1610612736 900")
    assert plan["files"][PROGRAM]["source"].endswith("_on_host/memory_guard.py")


def test_a_host_whose_owner_wants_no_guard_has_none() -> None:
    plan = memory_guard(declared(enabled=False), 40 * GIB)
    assert (plan["units"], plan["files"][UNIT]["content"], plan["files"][PROGRAM]["content"]) == ({}, None, None)


def test_every_host_has_its_part() -> None:
    plan = planned()
    assert {host["memory_guard"]["enabled"] for host in plan["hosts"].values()} == {True}
    ranks = [one for host in plan["hosts"].values() for one in host["services"]]
    assert {one["container"]["oom_score_adj"] for one in ranks} == {900}


# The program ------------------------------------------------------------------------------------------------------

TERM, KILL = 3 * GIB, GIB


def meminfo(left: int, anonymous: int = GIB) -> str:
    return (
        f"MemTotal:       {120 * GIB >> 10:8} kB\nMemFree:        {1 << 10:8} kB\nMemAvailable:   {left >> 10:8} kB\n"
        f"AnonPages:      {anonymous >> 10:8} kB\n"
    )


def test_what_is_available() -> None:
    assert program.available(meminfo(5 * GIB).encode()) == 5 * GIB
    with pytest.raises(ValueError, match="MemAvailable"):
        program.available(b"MemTotal: 1 kB\n")


@given(st.integers(0, 120 * GIB), st.integers(0, 120 * GIB), st.integers(0, 120 * GIB))
def test_what_an_engine_is_sent_follows_the_floors_alone(left: int, term: int, kill: int) -> None:
    sent = program.order(left, term, kill)
    assert (sent == signal.SIGKILL) == (left < kill)
    assert (sent is None) == (left >= max(term, kill))


@given(st.integers(0, 120 * GIB), st.integers(0, 64 * GIB))
def test_nothing_falls_below_the_floor_between_two_looks(left: int, term: int) -> None:
    pause = program.pause_s(left, term)
    assert 0.1 <= pause <= 1
    assert pause == 0.1 or left - term >= pause * (6 << 30) - 1


@contextmanager
def processes(proc: Path, *deaf: bool) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Engines, one after the other larger by the kernel's measure; who is deaf does not end when he is asked to."""
    began = []
    for number, is_deaf in enumerate(deaf):
        ignores = "signal.signal(signal.SIGTERM, signal.SIG_IGN); " if is_deaf else ""
        code = f"import signal, time; {ignores}print(flush=True); time.sleep(60)"
        one = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert one.stdout is not None
        one.stdout.readline()
        began.append(one)
        listed(proc, one.pid, 900, 100 + number)
    try:
        yield began
    finally:
        for one in began:
            one.kill()
            one.communicate()


def listed(proc: Path, pid: int, adjusted: int, score: int) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    for name, value in {"oom_score_adj": adjusted, "oom_score": score, "comm": "VLLM::EngineCor"}.items():
        (folder / name).write_text(f"{value}\n")


def guard(tmp_path: Path, left: int) -> program.Guard:
    (tmp_path / "meminfo").write_text(meminfo(left))
    return program.Guard(TERM, KILL, 900, str(tmp_path / "meminfo"), str(tmp_path / "proc"))


@pytest.mark.parametrize(
    ("left", "deaf", "ends"),
    [(2 * GIB, False, signal.SIGTERM), (GIB // 2, False, signal.SIGKILL), (2 * GIB, True, signal.SIGKILL)],
)
def test_the_largest_engine_ends_and_nobody_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    left: int,
    deaf: bool,
    ends: int,
) -> None:
    monkeypatch.setattr(program, "_PATIENCE_S", 0.3)
    proc = tmp_path / "proc"
    with processes(proc, False, deaf) as (smaller, larger):
        listed(proc, 2**30, 0, 2000)  # whoever else has more
        (proc / "self").mkdir()
        assert guard(tmp_path, left).look() == 0.1
        assert larger.wait(10) == -ends
        assert smaller.poll() is None
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith(f"sending {signal.Signals(ends).name} to process {larger.pid} 'VLLM::EngineCor': ")
    assert killer("\n".join(lines), {larger.pid}).startswith("the memory guard ended process")


def test_enough_memory_ends_nobody(tmp_path: Path) -> None:
    """Also where most of the rest is the GPU's, which is in no anonymous page."""
    with processes(tmp_path / "proc", False) as (one,):
        assert guard(tmp_path, 60 * GIB).look() == 1
        assert guard(tmp_path, TERM).look() == 0.1
        assert one.poll() is None


def test_where_no_engine_runs_nobody_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed(tmp_path / "proc", os.getpid(), 900, 0)  # has ended, and waits for its parent
    one = guard(tmp_path, GIB // 2)
    assert (one.look(), one.look()) == (1, 1)
    assert capsys.readouterr().err == "512 MiB are available, below the floor of 3072, and no engine runs\n"


def test_who_has_ended_meanwhile_is_no_fault(tmp_path: Path) -> None:
    listed(tmp_path / "proc", 2**22 + 1, 900, 1)  # beyond the kernel's largest
    assert guard(tmp_path, 2 * GIB).look() == 0.1


@given(
    st.lists(st.builds(program.Process, st.integers(1, 9), st.integers(1, 3), st.just("vllm"))),
    st.sets(st.integers(1, 9)),
)
def test_the_largest_that_can_end_is_chosen(engines: list[program.Process], in_vain: set[int]) -> None:
    found = program.victim(engines, in_vain)
    able = [one for one in engines if one.pid not in in_vain]
    assert (found is None) == (not engines)
    if found:
        assert found.score == max(one.score for one in able or engines)
        assert not able or found in able


def test_another_ends_where_the_largest_waits_for_its_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_PATIENCE_S", 0.2)
    with processes(tmp_path / "proc", False, False) as (smaller, stuck):
        ends = signal.pidfd_send_signal
        monkeypatch.setattr(program.signal, "pidfd_send_signal", lambda *_: None)
        one = guard(tmp_path, GIB // 2)
        one.look()
        monkeypatch.setattr(program.signal, "pidfd_send_signal", ends)
        one.look()
        assert smaller.wait(10) == -signal.SIGKILL
        assert stuck.poll() is None


def test_who_got_the_number_of_an_engine_meanwhile_is_spared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with processes(tmp_path / "proc", False) as (one,):
        (tmp_path / "proc" / str(one.pid) / "oom_score_adj").write_text("0\n")
        monkeypatch.setattr(program, "engines", lambda *_: [program.Process(one.pid, 1900, "vllm")])
        guard(tmp_path, GIB // 2).look()
        assert one.poll() is None


def test_a_name_can_not_write_a_line_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with processes(tmp_path / "proc", False) as (one,):
        (tmp_path / "proc" / str(one.pid) / "comm").write_text("a\nsending SIGKIL\n")
        guard(tmp_path, GIB // 2).look()
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_guard_that_sees_no_engines_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.sees_others(Path("/proc"))
    assert not program.sees_others(tmp_path)
    monkeypatch.setattr(program, "sees_others", lambda _: False)
    with pytest.raises(SystemExit) as ended:
        program.main(["3", "2", "900"])
    assert ended.value.code == 3
    assert "hidepid" in capsys.readouterr().err
    assert "RestartPreventExitStatus=3\n" in memory_guard({}, 40 * GIB)["files"][UNIT]["content"]
