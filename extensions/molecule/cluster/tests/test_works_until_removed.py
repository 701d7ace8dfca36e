# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both hosts are put back: what they were before the first run is what they are after the last."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from cluster.bare import HOSTS
from cluster.pair import Pair

pytestmark = pytest.mark.story
LAB = Path(os.environ["GB10_LAB_DIR"])
STATE = Path(__file__).with_name("first_state.sh")
BOTH = ("--limit", "spark-2,spark-3")
# What stays, by choice: weights, images, and the packages that roles installed.
STAYS = re.compile(r"ours /var/lib/gb10-fleet$")


def state(pair: Pair, host: str) -> set[str]:
    return {*pair.fleet.root(host, STATE.read_text("utf-8")).splitlines()}


def test_a_rank_of_a_group_is_not_removed_alone(pair: Pair) -> None:
    run = pair.playbook("gb10.fleet.remove", "--limit", "spark-3", "-e", "remove=spark-3")
    output = " ".join(run.stdout.split())
    assert run.returncode != 0 and "changed: [" not in run.stdout
    assert "spark-3: tiny-pair has a rank there, and others on spark-2" in output
    unnamed = pair.playbook("gb10.fleet.remove", *BOTH)
    assert unnamed.returncode != 0 and "changed: [" not in unnamed.stdout
    assert "-l spark-2,spark-3 -e remove=spark-2,spark-3" in " ".join(unnamed.stdout.split())


def test_check_mode_shows_it_and_changes_nothing(pair: Pair) -> None:
    before = {host: state(pair, host) for host in HOSTS}
    run = pair.playbook("gb10.fleet.remove", *BOTH, "--check", "--diff")
    assert run.returncode == 0, run.stdout[-3000:]
    assert "gb10-service-tiny-pair.service: runs" in run.stdout
    assert {host: state(pair, host) for host in HOSTS} == before


def test_nothing_of_ours_is_left(pair: Pair) -> None:
    run = pair.playbook("gb10.fleet.remove", *BOTH, "-e", "remove=spark-2,spark-3")
    assert run.returncode == 0, run.stdout[-3000:]
    for host in HOSTS:
        first = {*(LAB / f"first-{host}").read_text("utf-8").splitlines()}
        different = sorted(line for line in first ^ state(pair, host) if not STAYS.match(line))
        assert different == []
    again = pair.playbook("gb10.fleet.remove", *BOTH, "-e", "remove=spark-2,spark-3")
    assert again.returncode == 0 and "changed: [" not in again.stdout, again.stdout[-3000:]


def test_it_can_be_converged_again(pair: Pair) -> None:
    run = pair.playbook("cluster-tp2.yml")
    assert run.returncode == 0, run.stdout[-3000:]
    assert pair.ask(pair.key)[0] == 200
