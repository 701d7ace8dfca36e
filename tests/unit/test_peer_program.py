# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ansible_collections.gb10.fleet.plugins.module_utils._peers.program import peer_program

MAKE = f"import sys; from {peer_program.__module__} import peer_program; sys.stdout.buffer.write(peer_program())"


def test_a_host_runs_it_with_nothing_but_python(tmp_path: Path) -> None:
    """Without site-packages there is no Ansible, as on a host."""
    made = subprocess.run(
        [sys.executable, "-c", MAKE], env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, check=True
    )
    program, places = tmp_path / "peer", tmp_path / "places.json"
    program.write_bytes(made.stdout)
    places.write_text(json.dumps({"folder": str(tmp_path), "models": str(tmp_path), "caches": []}))
    served = subprocess.run(
        [sys.executable, "-I", "-S", str(program), str(places)], input="", capture_output=True, text=True, check=False
    )
    assert (served.returncode, served.stdout, served.stderr) == (0, "", "")
