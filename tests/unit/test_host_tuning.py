# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a host's tuning, what a drift check asks for it, and what differs in the running kernel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.subject import DriftContext
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.host_tuning.subject import HOST_TUNING, tuning_files
from drift_fleet import planned

KERNEL: dict[str, Any] = {"swap": "off", "read_ahead": {"nvme0n1": 512}, "memlock": "infinity"}


def test_a_file_holds_what_is_tuned_and_is_gone_otherwise() -> None:
    assert [file["content"] for file in tuning_files({}).values()] == [None, None, None, None]
    tuned = tuning_files({"sysctl": {"vm.swappiness": "10"}, "read_ahead_kb": 512, "memlock": "unlimited"})
    texts = "".join(str(file["content"]) for file in tuned.values())
    for line in ("vm.swappiness = 10", 'read_ahead_kb}="512"', "root - memlock unlimited", "LimitMEMLOCK=infinity"):
        assert line in texts


@pytest.mark.parametrize(("tuning", "files"), [({}, 0), ({"memlock": "unlimited"}, 1)])
def test_files_of_the_limit_are_asked_for_where_it_is_declared(tuning: dict[str, Any], files: int) -> None:
    asked: Any = SimpleNamespace(slice={"host_tuning": tuning})
    assert len(HOST_TUNING.questions(asked)["memlock_files"]) == files


@pytest.mark.parametrize(
    ("tuning", "kernel", "rules"),
    [
        ({}, {}, []),
        ({"read_ahead_kb": 512}, {}, []),
        ({"read_ahead_kb": 8192}, {}, ["read-ahead-live"]),
        ({"swap": False}, {}, []),
        ({"swap": True}, {}, ["swap-live"]),
        ({"memlock": "unlimited"}, {}, []),
        ({"memlock": "unlimited"}, {"memlock": "8388608"}, ["memlock-live"]),
        ({}, {"memlock": "8388608"}, []),
    ],
)
def test_the_running_kernel_is_compared_with_what_is_tuned(
    tuning: dict[str, Any], kernel: dict[str, Any], rules: list[str]
) -> None:
    plan: Any = planned()
    plan["hosts"]["titan"]["host_tuning"] = tuning
    states: Any = {"titan": {"kernel": KERNEL | kernel, "memlock_later": []}}
    found: list[Any] = [*HOST_TUNING.differences(DriftContext("titan", plan, states))]
    assert [difference.rule for difference in found] == rules
