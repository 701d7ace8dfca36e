# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the molecule scenarios one after the other, each on freshly booted hosts, or those that are named.

A scenario that fails leaves its hosts' journals in the output; the lab is ended in any case.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAB = (str(ROOT / "tests" / "lab" / "lab"), "-d", str(ROOT / ".lab-molecule"))


def scenarios() -> list[str]:
    """All but `default`, which molecule wants to exist and which tests nothing."""
    names = {path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml")}
    return sorted(names - {"default"})


def passes(scenario: str) -> bool:
    command = ("molecule", "test", "--scenario-name", scenario, "--destroy", "never")
    return subprocess.run(command, cwd=ROOT, env=os.environ | {"COLUMNS": "150"}, check=False).returncode == 0


def clear(scenario: str) -> None:
    """No hosts, and molecule remembers none."""
    subprocess.run((*LAB, "down"), check=True)
    subprocess.run(("molecule", "reset", "--scenario-name", scenario), cwd=ROOT, check=True)


def show_journals() -> None:
    status = subprocess.run((*LAB, "status", "--json"), capture_output=True, text=True, check=False)
    for host in json.loads(status.stdout or "{}").get("hosts", ()):
        print(f"----- journal of {host}", flush=True)
        subprocess.run((*LAB, "exec", host, "--", "journalctl", "--boot", "--no-pager", "--lines", "80"), check=False)


def main() -> int:
    failed = []
    for scenario in sys.argv[1:] or scenarios():
        clear(scenario)  # what a run that was killed has left
        try:
            if not passes(scenario):
                failed.append(scenario)
                show_journals()
        finally:
            clear(scenario)
    if failed:
        print(f"failed: {', '.join(failed)}; one alone: .venv/bin/python tests/tools/scenarios.py {failed[0]}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
