# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Below what available memory an engine is ended, and which services the plan refuses for it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._memory_guard.subject import floors, memory_guard, refused
from drift_fleet import planned
from hypothesis import given
from hypothesis import strategies as st

GIB = 1 << 30
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


def test_the_unit() -> None:
    plan = memory_guard({}, 40 * GIB, "home")
    text = plan["files"][UNIT]["content"]
    assert plan["units"] == {"gb10-memory-guard.service": "started"}
    command = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    assert command.startswith("ExecStart=/usr/bin/earlyoom -M 3145728,1572864 -s 100 ")
    spared = re.compile(command.rpartition(" ")[2].replace("$$", "$"))
    for name in ("sshd", "sshd-session", "dockerd", "containerd", "containerd-shim", "systemd", "systemd-journal"):
        assert spared.search(name), name
    for name in ("VLLM::EngineCor", "python3", "vllm", "bash"):
        assert not spared.search(name), name


def test_a_host_whose_owner_wants_no_guard_has_none() -> None:
    plan = memory_guard(declared(enabled=False), 40 * GIB, "home")
    assert (plan["units"], plan["files"][UNIT]["content"]) == ({}, None)


def test_every_host_has_its_part() -> None:
    plan = planned()
    assert {host["memory_guard"]["enabled"] for host in plan["hosts"].values()} == {True}
    assert all("earlyoom" in host["needs"]["installs"] for host in plan["hosts"].values())
    ranks = [one for host in plan["hosts"].values() for one in host["services"]]
    assert {one["container"]["oom_score_adj"] for one in ranks} == {900}
