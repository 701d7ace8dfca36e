# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``./demo``, interrupted as a terminal does it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from .fixtures import Fleet, eventually, need_lab
from .leftovers import Traces
from .workspace import Running

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("moment", ["titan is up", "TASK [gb10.fleet.host_tuning"])
def test_interrupted_demo_leaves_nothing(tmp_path: Path, moment: str) -> None:
    """moment: what it has printed. What it does when it is left alone is the scenario `site`."""
    need_lab()
    fleet = Fleet(ROOT / ".lab")
    if fleet.directory.exists():
        pytest.skip(f"{fleet.directory} is somebody's lab")
    log = tmp_path / "demo.log"
    with log.open("w") as output:
        demo = subprocess.Popen([ROOT / "demo"], stdout=output, stderr=subprocess.STDOUT, process_group=0)
    traces = Traces.of(fleet.workspace)
    eventually(lambda: moment in log.read_text() or demo.poll() is not None, moment)
    if running := Running.find(fleet.workspace.state):
        traces = Traces.of(fleet.workspace, running)
    os.killpg(demo.pid, signal.SIGINT)
    assert demo.wait() == 130, log.read_text()
    assert traces.all() == []
