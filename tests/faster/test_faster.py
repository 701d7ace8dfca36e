# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmarks by the real playbook between services whose speed is known: nothing is found where nothing is, a tenth is.

Of 20 comparisons of equal services none may name a difference, and 18 of 20 must find the tenth (`--runs` for fewer).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import threading
import time
from typing import Any

import pytest

from .conftest import HOST, Owner

SMALL = ("service=chat", "prompts=256", "concurrency=1", "answer=8")
# As many as show a tenth on a machine on which single runs are disturbed (docs/how-to/bench.md).
ROUNDS = "rounds=20"
VERDICT = re.compile(r"^256 tokens x 1  (\S.*?)  .* (faster|slower|no difference shown)\b.*$", re.MULTILINE)


def compared(owner: Owner, *extra: str) -> dict[str, str]:
    done = owner.play("gb10.fleet.bench", *SMALL, ROUNDS, *extra)
    assert done.returncode == 0, done.stdout[-8000:]
    lines = [*VERDICT.finditer(done.stdout)]
    assert len(lines) == 3, done.stdout[-8000:]
    print(extra, f"at load {os.getloadavg()[0]:.1f}", *(line[0] for line in lines), sep="\n  ", flush=True)
    return {line[1]: line[2] for line in lines}


@pytest.fixture
def runs(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--runs"))


def test_two_equal_services_show_no_difference(owner: Owner, runs: int) -> None:
    """Each other one against itself: both ways are asked for."""
    found = [compared(owner, f"against={name}") for name in ["same", "chat"] * (runs // 2) + ["same"] * (runs % 2)]
    assert [one for one in found if {*one.values()} != {"no difference shown"}] == []


def test_a_tenth_is_found(owner: Owner, runs: int) -> None:
    found = [compared(owner, "against=slower", "changed=variables") for _ in range(runs)]
    assert sum("faster" in one.values() for one in found) >= 0.9 * runs
    assert not [one for one in found if "slower" in one.values()]


def test_what_differs_is_refused_unless_it_was_asked_for(owner: Owner) -> None:
    done = owner.play("gb10.fleet.bench", *SMALL, "against=slower")
    assert done.returncode != 0
    assert "-e changed=variables" in done.stdout


def test_a_rate_a_depth_and_images_are_swept(owner: Owner) -> None:
    """The stand-in takes an image for text."""
    sweeps = ("rates=4", "depths=64", "images=64x32", "rounds=4", "prompts=64")
    done = owner.play("gb10.fleet.bench", *SMALL, *sweeps)
    assert done.returncode == 0, done.stdout[-8000:]
    path = max(owner.kept.glob("chat-*.json"), key=lambda one: one.stat().st_mtime)
    run = json.loads(path.read_text("utf-8"))
    assert [point["name"] for point in run["points"]] == [
        *("64 tokens x 1", "64 tokens, 4/s", "64 tokens after 64 x 1", "64 tokens, 64x32 x 1")
    ]
    assert all(2 < value < 6 for value in run["shown"]["64 tokens, 4/s"]["requests/s"])


def night(owner: Owner) -> tuple[int, list[dict[str, Any]]]:
    """The exit status of a night's check, and what it says of the service's speed."""
    done = owner.play("drift.yml", "drift_speed=true")
    assert (owner.reports / "report.json").is_file(), done.stdout[-8000:]
    report = json.loads((owner.reports / "report.json").read_text("utf-8"))
    print(done.returncode, [one["have"] for one in report["findings"]], flush=True)
    unmeasured = [one for one in report["unknown"] if one["part"].startswith("speed of ")]
    assert not unmeasured, unmeasured
    return done.returncode, [one for one in report["findings"] if one["resource"] == "speed of chat"]


def test_a_slower_night_is_drift(owner: Owner) -> None:
    """In one test, since each night goes on where the one before ended."""
    _code, first = night(owner)
    assert [one["severity"] for one in first] == ["hint"]
    baseline = (owner.kept / "chat-canary.json").read_bytes()
    assert night(owner)[1] == []

    # somebody asks all the time: not measured, and no drift
    over = threading.Event()

    def ask() -> None:
        body = json.dumps({"model": "gb10-lab/tiny", "prompt": "x", "max_tokens": 100})
        key = "$(sed 's/api-key: //' /etc/gb10-fleet/secrets/chat.key | tr -d '\"')"
        words = f"curl -s -H \"authorization: Bearer {key}\" -H 'content-type: application/json' -d '{body}' http://127.0.0.1:8000/v1/completions"
        while not over.is_set():
            owner.fleet.root(HOST, f"{words} >/dev/null & {words} >/dev/null; wait", check=False)

    helper = threading.Thread(target=ask)
    helper.start()
    time.sleep(2)
    busy = night(owner)[1]
    over.set()
    helper.join()
    assert [one["severity"] for one in busy] == ["hint"]
    assert "not measured tonight: " in busy[0]["have"]

    # nothing that was declared has changed, and yet its engine stands still half of the time
    engine = "$(docker top gb10-service-chat -o pid,comm | awk '/VLLM/ {print $1}')"
    drag = f"while :; do kill -STOP {engine}; sleep 0.05; kill -CONT {engine}; sleep 0.05; done"
    owner.fleet.root(HOST, f"systemd-run --unit gb10-test-drag --collect sh -c {shlex.quote(drag)}")
    code, slow = night(owner)
    owner.fleet.root(HOST, f"systemctl stop gb10-test-drag; kill -CONT {engine}")
    assert code == 2
    assert [one["severity"] for one in slow] == ["warning"]
    assert "next token ms, " in slow[0]["have"] and "times it (" in slow[0]["have"]
    assert "gb10.fleet.bench -e service=chat -e against=chat-canary" in slow[0]["remedy"]
    assert (owner.kept / "chat-canary.json").read_bytes() == baseline
