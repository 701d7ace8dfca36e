# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs one molecule scenario in a lab of its own, which always ends with it; its hosts' journals follow a failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv" / "bin"
# The longest takes 13 minutes on a busy machine; with GB10_WHOLE, hours.
LIMIT_S = 2400


def lab(scenario: str, *words: str) -> tuple[str, ...]:
    """A command to the scenario's lab, whose directory .config/molecule/config.yml names too."""
    return (str(ROOT / "tests" / "lab" / "lab"), "-d", str(ROOT / ".lab-molecule" / scenario), *words)


def passes(scenario: str) -> bool:
    """The lab is ended before, too: a run that was killed may have left it."""
    subprocess.run(lab(scenario, "down"), check=True)
    try:
        # What molecule keeps of a scenario: in a folder of this run, so that it remembers nothing of an earlier one.
        with tempfile.TemporaryDirectory(prefix="gb10-molecule-") as memory:
            # molecule calls ansible-playbook by its name.
            path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
            environment = os.environ | {"PATH": path, "COLUMNS": "150", "MOLECULE_EPHEMERAL_DIRECTORY": memory}
            command = (BIN / "molecule", "test", "--scenario-name", scenario, "--destroy", "never")
            limit = None if "GB10_WHOLE" in os.environ else LIMIT_S
            try:
                code = subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=limit).returncode
            except subprocess.TimeoutExpired:
                code = 1
                print(f"{scenario}: not ended after {limit} s", flush=True)
        if code:
            show_journals(scenario)
    finally:
        subprocess.run(lab(scenario, "down"), check=True)
    return code == 0


def show_journals(scenario: str) -> None:
    status = subprocess.run(lab(scenario, "status", "--json"), capture_output=True, text=True, check=False)
    for host in json.loads(status.stdout or "{}").get("hosts", ()):
        print(f"----- journal of {host}", flush=True)
        journal = ("journalctl", "--boot", "--no-pager", "--lines", "80")
        subprocess.run(lab(scenario, "exec", host, "--", *journal), check=False)


if __name__ == "__main__":
    sys.exit(not passes(sys.argv[1]))
