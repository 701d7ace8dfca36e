# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two clean checks that are equal byte for byte, ten changes found at once, repaired by site.yml, and clean again."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from drift.seeds import SEEDS
from lab.fixtures import Fleet
from shell import owners_environment

ROOT = Path(__file__).resolve().parents[4]
LAB = Path(os.environ["GB10_LAB_DIR"])
INVENTORY = str(ROOT / "tests" / "drift" / "inventory")
TEN = [seed for seed in SEEDS if seed.host == "titan" and seed.owned and not seed.alone and not seed.deep][:10]


def play(playbook: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = ("ansible-playbook", "-i", INVENTORY, "-l", "titan", playbook, *more)
    return subprocess.run(command, cwd=ROOT, env=owners_environment(), capture_output=True, text=True, check=False)


def check() -> tuple[int, dict[str, Any]]:
    """The exit code and the report, without its times."""
    done = play("drift.yml", "-e", "drift_format=json")
    start = done.stdout.index("\n{\n") + 1
    report = json.loads(done.stdout[start : done.stdout.index("\n}\n", start) + 2])
    del report["generated"]
    return done.returncode, report


def test_drift() -> None:
    first, second = check(), check()
    assert (first[0], first[1]["findings"], first[1]["unknown"]) == (0, [], [])
    assert json.dumps(first) == json.dumps(second)

    fleet = Fleet(LAB)
    for seed in TEN:
        fleet.root("titan", seed.make)
    code, report = check()
    found = {(one["resource"], one["rule"]): one for one in report["findings"]}
    assert code == 2
    for seed in TEN:
        one = found[seed.resource, seed.rule]
        assert seed.want in one["want"] and seed.have in one["have"]

    assert play("site.yml").returncode == 0
    code, report = check()
    assert (code, report["findings"], report["unknown"]) == (0, [], [])
