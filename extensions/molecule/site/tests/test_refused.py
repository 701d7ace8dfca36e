# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input is refused before the first change, with a sentence that says what to write instead."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab.fixtures import Fleet, eventually

pytestmark = pytest.mark.story
LAB = Path(os.environ["GB10_LAB_DIR"])
FLEET = Path(__file__).resolve().parents[1] / "vars/fleet.yml"
Playbook = Callable[..., "subprocess.CompletedProcess[str]"]
TINY: dict[str, Any] = {"recipe": "lab-tiny", "hosts": ["spark-2"], "port": 8000}
# another model than the one that is in the host's store already
MISSING = {"repository": "gb10-lab/other", "source": {"path": "/srv/lab/none"}}
EXABYTE = 1 << 60
# by somebody of whom the plan can't know
TAKEN = 8077


def changed(run: subprocess.CompletedProcess[str]) -> bool:
    return "changed: [" in run.stdout


@pytest.mark.parametrize(
    "cases",
    [
        [  # by the plan
            (TINY | {"recipe": "lab-tny"}, 'write "lab-tiny"'),
            (TINY | {"prot": 8001}, 'write "port"'),
            (TINY | {"hosts": ["spark-4"]}, 'no host "spark-4"'),
            (TINY | {"port": 8001, "model": {"weights_bytes": EXABYTE}}, "GB of weights"),
            (TINY | {"hosts": ["titan"], "flags": {"max-model-lenn": 2048}}, 'write "max-model-len" in flags'),
        ],
        [  # by what the hosts have
            (TINY | {"port": TAKEN}, f"port {TAKEN} is taken by python3"),
            (TINY | {"hosts": ["titan"], "model": MISSING}, "/srv/lab/none is not on this host"),
        ],
    ],
    ids=["plan", "hosts"],
)
def test_bad_input(playbook: Playbook, cases: list[tuple[dict[str, Any], str]]) -> None:
    """All that is wrong is named in one run."""
    Fleet(LAB).root("spark-2", f"systemd-run --quiet --collect --unit somebody python3 -m http.server {TAKEN}")
    eventually(lambda: Fleet(LAB).ok("spark-2", f"ss -Htln sport = :{TAKEN} | grep -q ."), "somebody listens")
    services = {f"other-{number}": service for number, (service, _sentence) in enumerate(cases)}
    try:
        run = playbook("site.yml", "--limit", "titan,spark-2", "--extra-vars", json.dumps({"fleet_services": services}))
    finally:
        Fleet(LAB).root("spark-2", "systemctl stop somebody")
    output = " ".join(run.stdout.split())
    assert run.returncode != 0
    assert [sentence for _service, sentence in cases if sentence not in output] == []
    assert not changed(run)


def test_a_host_that_is_off_does_not_hold_up_the_others(playbook: Playbook) -> None:
    """The group is off then: later tests are about titan, and would share the processors with its new starts."""
    Fleet(LAB).lab("power", "off", "spark-3")
    run = playbook("site.yml", "--check", "-e", f"@{FLEET}")
    table = run.stdout[run.stdout.index("PLAY RECAP") :]
    assert "spark-3: unreachable" in table
    assert "failed=0" in next(line for line in table.splitlines() if line.startswith("titan"))
    # the other host of its service does nothing for it alone, and everything else
    assert "failed=0" in next(line for line in table.splitlines() if line.startswith("spark-2"))
    assert "tiny-pair: spark-3 can't be reached" in " ".join((run.stdout + run.stderr).split())
    Fleet(LAB).lab("power", "off", "spark-2")
