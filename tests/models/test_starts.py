# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases of real starts of the real vLLM add up to a clock beside them, and a host keeps each of them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from .owner import Owner
from .test_from_the_hub import ON_CPU, PLAIN, owner

__all__ = ["owner"]
_STATUS = "cat /run/gb10-fleet/chat/status.json"
_STARTED = "docker inspect --format '{{.State.StartedAt}}' gb10-service-chat"


def clocked(owner: Owner, command: str) -> float:
    """Seconds from the start of the container, by Docker, to the moment when it serves again, by the host's clock."""
    before = json.loads(owner.fleet.root("titan", _STATUS))["ready_at"]
    owner.fleet.root("titan", command)
    began = time.monotonic()
    while True:
        now, _, at = owner.fleet.root("titan", f"{_STATUS} 2>/dev/null || echo {{}}; echo AT; date +%s.%N").partition(
            "AT"
        )
        status = json.loads(now)
        if status.get("state") == "serving" and status["ready_at"] != before:
            started = owner.fleet.root("titan", f'date -d "$({_STARTED})" +%s.%N')
            return float(at) - float(started)
        assert time.monotonic() - began < 600
        time.sleep(0.2)


def kept(owner: Owner) -> list[dict[str, Any]]:
    [file] = (owner.folder / ".fleet" / "observed" / "starts" / "titan").glob("*.json")
    document = json.loads(file.read_text("utf-8"))
    assert (document["service"], document["model"]) == ("chat", PLAIN)
    starts: list[dict[str, Any]] = document["starts"]
    return starts


def test_each_start_is_kept_and_adds_up(owner: Owner) -> None:
    owner.declare(chat={"model": PLAIN, "port": 8000, **ON_CPU})
    site = owner.play("site.yml", "-e", "model_store_hf=/usr/local/bin/hf")
    assert site.returncode == 0, site.stdout[-6000:]
    assert "started in" in site.stdout
    first = kept(owner)
    assert len(first) == 1
    # by its owner, and by its supervisor after a harm
    clocks = [clocked(owner, "systemctl restart gb10-service-chat"), clocked(owner, "docker kill gb10-service-chat")]
    verified = owner.play("verify.yml")
    assert verified.returncode == 0, verified.stdout[-6000:]
    starts = kept(owner)
    assert starts[:1] == first and len(starts) == 3
    for start, clock in zip(starts[1:], clocks, strict=True):
        phases = start["phases"]
        named = sum(took for phase, took in phases.items() if phase != "other")
        print(f"clock {clock:.1f} s, kept {start['seconds']} s: {phases}")
        # before the container runs the host is prepared
        assert named - phases["container"] == pytest.approx(clock, rel=0.05, abs=1.5)
        assert named == pytest.approx(start["seconds"], rel=0.05)
        assert {"container", "program", "weights", "profiling", "first answer"} <= {*phases}
    again = owner.play("verify.yml")
    assert "changed=0" in again.stdout and kept(owner) == starts
    status = owner.play("status.yml")
    assert f"chat on titan: started in {starts[-1]['seconds']:.0f} s" in status.stdout, status.stdout[-3000:]
