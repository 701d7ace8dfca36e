# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the journal gets of a night, from what ansible-playbook said. The program as a whole: molecule/drift_timer."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "roles" / "drift_timer" / "files" / "gb10_drift.py"
SPEC = importlib.util.spec_from_file_location("gb10_drift", PROGRAM)
assert SPEC and SPEC.loader
gb10_drift = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(gb10_drift)

CLEAN = "drift: everything is as declared: 1 host"
BROKEN = [
    "[WARNING]: Failed to parse inventory with 'yaml' plugin: YAML parsing failed",
    "[WARNING]: Unable to parse /srv/site/hosts.yml as an inventory source",
    "[WARNING]: Unable to parse /srv/site as an inventory source",
    "[ERROR]: No inventory was parsed, please check your configuration and options.",
]


@pytest.mark.parametrize(
    ("code", "status", "lines", "expected"),
    [
        (0, "successful", ["", CLEAN, "PLAY RECAP"], (0, CLEAN)),
        (2, "failed", ["drift: not everything is as declared: 1 host, 1 error"],
         (2, "drift: not everything is as declared: 1 host, 1 error")),
        (1, "failed", ["drift: unknown: 1 unknown"], (1, "drift: unknown: 1 unknown")),
        (4, "failed", [CLEAN], (1, CLEAN)),  # an exit code that is none of ours
        (254, "timeout", [CLEAN], (1, "drift: unknown: the check ran out of time")),
        (1, "failed", BROKEN, (1, "drift: unknown: Unable to parse /srv/site/hosts.yml as an inventory source: "
                                  "No inventory was parsed, please check your configuration and options.")),
        (2, "failed", ["fatal: [titan]: FAILED! => no"], (1, "drift: unknown: fatal: [titan]: FAILED! => no")),
        (0, "successful", [], (1, "drift: unknown: ansible-playbook had no output")),
    ],
)  # fmt: skip
def test_a_night_in_one_line(code: int, status: str, lines: list[str], expected: tuple[int, str]) -> None:
    assert gb10_drift.outcome(code, status, lines) == expected
