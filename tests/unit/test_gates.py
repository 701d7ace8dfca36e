# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order `./test` starts its jobs, and when it lets one more run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import gates
import scenario

JOBS = [job for name, part in gates.PARTS.items() for job in gates.jobs(name, part)]
GIB = 1 << 30


def test_every_job_that_is_named_exists() -> None:
    assert {*gates.FIRST_JOBS, *gates.LONG_JOBS} <= {job.name for job in JOBS}


def test_what_others_wait_for_comes_first_then_the_longest() -> None:
    names = [job.name for job in gates.in_order(JOBS)]
    assert names[:4] == ["images", "sanity", "molecule/cluster", "molecule/site"]
    assert sorted(names) == sorted(job.name for job in JOBS)


@pytest.mark.parametrize(
    ("running", "idle", "free", "expected"),
    [
        (0, 0.0, 0, True),
        (1, 0.0, 0, True),
        (2, 0.0, 0, True),
        (3, 0.14, 20 * GIB, False),
        (3, 0.15, 6 * GIB, True),
        (4, 0.15, 6 * GIB, True),
        (4, 0.9, 6 * GIB - 1, False),
        (5, 1.0, 20 * GIB, False),
    ],
)
def test_one_more_runs_where_there_is_room(running: int, idle: float, free: int, expected: bool) -> None:
    assert gates.may_start(running, idle, free) is expected


def test_the_machine_is_read() -> None:
    idle, total = gates.idle_ticks()
    assert 0 < idle < total
    assert gates.free_memory() > 0


def test_a_scenario_run_by_hand_finds_the_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without .venv/bin on PATH, which molecule needs for ansible-playbook too."""
    ran: list[tuple[Any, Any]] = []

    def run(command: Any, env: Any = None, **_: Any) -> subprocess.CompletedProcess[str]:
        ran.append((command, env))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(scenario.subprocess, "run", run)
    monkeypatch.setenv("PATH", "/usr/bin")
    assert scenario.passes("host_tuning")
    [(command, environment)] = [(command, env) for command, env in ran if env]
    assert command[0] == gates.BIN / "molecule"
    assert environment["PATH"] == f"{gates.BIN}{os.pathsep}/usr/bin"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(
            ["\x1b[31mFAILED\x1b[0m tests/lab/test_hosts.py::test_power - AssertionError: off\n", "1 failed in 3.1s\n"],
            ["FAILED tests/lab/test_hosts.py::test_power - AssertionError: off"],
            id="pytest names its tests",
        ),
        pytest.param(["ERROR tests/x.py - boom\n", "\n"], ["ERROR tests/x.py - boom"], id="a file that can't be read"),
        pytest.param(["FAILED a.py::b\n", "ERROR    molecule's own\n"], ["FAILED a.py::b"], id="a tool's errors"),
        pytest.param(
            [
                "____ test_drift[1] ____\n",
                ">       assert done.returncode == 0, done.stdout\n",
                "E       AssertionError: \n",
                *(f"E         line {n}\n" for n in range(9)),
                "E       assert 2 == 0\n",
                "E        +  where 2 = done.returncode\n",
                "____ ERROR at setup of test_serves ____\n",
                "E   fixture 'host' not found\n",
                "FAILED a.py::test_drift[1] - AssertionError: \n",
                "FAILED - RETRYING: [titan]: Ask it (2 retries left).\n",
                "ERROR b.py::test_serves\n",
            ],
            [
                "FAILED a.py::test_drift[1] - AssertionError:",
                *(f"line {n}" for n in range(3, 9)),
                "ERROR b.py::test_serves",
                "fixture 'host' not found",
            ],
            id="with the end of what each says",
        ),
        pytest.param(["one\n", "\n", "E501 too long\n"], ["one", "E501 too long"], id="no pytest"),
        pytest.param([f"{n}\n" for n in range(40)], [str(n) for n in range(28, 40)], id="no pytest, its last lines"),
    ],
)
def test_the_end_of_the_output_names_what_failed(output: list[str], expected: list[str]) -> None:
    assert gates.why(gates.Result(JOBS[0], output)).split("\n") == [f"  {line}" for line in expected]
