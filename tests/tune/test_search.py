# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Searches by the real playbook on a stand-in whose best is known: killed in the middle, and gone on with."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from itertools import product
from math import exp
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT, SERVICE, Owner

sys.path.append(str(ROOT / "tests/unit"))

from ansible_collections.gb10.fleet.plugins.module_utils._operations.tune.state import read_state
from tune_truths import RUNS, STARTS, of_stand_in

RANK = f"/etc/gb10-fleet/services/{SERVICE}.json"
STATUS = f"/run/gb10-fleet/{SERVICE}/status.json"
DEADLINE = f"/run/gb10-trial-{SERVICE}"
LEFT = "/etc/systemd/system/gb10-trial* /etc/systemd/system/*/gb10-trial* /etc/gb10-fleet/secrets/.way-back/*"
WITHIN = 1.05


def eventually(true: Callable[[], bool]) -> None:
    """The limit only ends a test that has failed."""
    deadline = time.monotonic() + 900
    while not true():
        assert time.monotonic() < deadline
        time.sleep(1)


def read(owner: Owner, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(owner.on_host("cat", path))
    return found


def serves(owner: Owner, definition: str) -> bool:
    return read(owner, RANK)["definition"] == definition and read(owner, STATUS)["state"] == "serving"


def runs_of(file: Path) -> int:
    return len(read_state(file.read_bytes(), file.name)["runs"]) if file.exists() else 0


@pytest.mark.parametrize("number", range(len(STARTS)))
def test_the_best_is_found_and_what_served_before_serves_again(
    owner: Owner, number: int, request: pytest.FixtureRequest
) -> None:
    if number >= request.config.getoption("--starts"):
        pytest.skip("--starts")
    owner.flags = dict(STARTS[number])
    if number:
        done = owner.play("site.yml")
        assert done.returncode == 0, done.stdout[-8000:]
    before = read(owner, RANK)["definition"]
    file = owner.kept / f"{SERVICE}.json"
    runs = int(request.config.getoption("--runs"))
    words = owner.tune(f"runs={runs}", f"pairs={3 if runs >= RUNS else 2}")
    if not number:
        is_put_back_after_a_kill(owner, words, file, before)
    seen = runs_of(file)
    done = owner.play(*words)
    print(done.stdout[-6000:])
    assert done.returncode == 0, done.stdout[-12000:]
    assert serves(owner, before)
    assert not owner.on_host("sh", "-c", f"ls -d {LEFT} || :")
    (kept,) = owner.kept.glob(f"{SERVICE}-*.json")
    state = read_state(kept.read_bytes(), kept.name)
    kept.unlink()
    assert len(state["runs"]) > seen
    truth = of_stand_in(owner.flags)
    refused = {tuple(one["candidate"]) for one in state["refused"]}
    open_ = (one for one in product(*(range(one.values) for one in truth.space)) if one not in refused)
    best = min(map(truth.cost, open_))
    start = (0,) * len(truth.space)
    found = truth.cost(max((tuple(one["candidate"]) for one in state["runs"] if one["kind"] == "proof"), default=start))
    print(f"start {number}: {exp(truth.cost(start) - best):.3f} times the best's time, found {exp(found - best):.3f}")
    assert found <= truth.cost(start)
    # fewer are for a look at the way there
    assert exp(found - best) <= WITHIN or runs < RUNS


def is_put_back_after_a_kill(owner: Owner, words: tuple[str, ...], file: Path, before: str) -> None:
    running = owner.begin(*words)
    eventually(lambda: running.poll() is not None or (runs_of(file) >= 2 and not serves(owner, before)))
    assert running.poll() is None, running.communicate()[0][-12000:]
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()

    def is_back_later() -> bool:
        # again and again: what the controller had begun on the host moves the deadline once more
        owner.on_host("sh", "-c", f"test ! -e {DEADLINE} || echo 0 > {DEADLINE}")
        return serves(owner, before)

    eventually(is_back_later)
    eventually(lambda: not owner.on_host("sh", "-c", f"ls {DEADLINE} || :"))
    assert not owner.on_host("sh", "-c", f"ls -d {LEFT} || :")
