# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The product stays small enough to be read: what comes is paid for by what goes."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Lines of all files that git tracks under plugins/.
MOST = 78_000


def test_plugins_grow_only_by_a_commit_with_its_reason() -> None:
    listed = subprocess.run(["git", "ls-files", "-z", "plugins"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    lines = sum(file.read_bytes().count(b"\n") for file in files)
    assert lines <= MOST, (
        f"plugins/ has {lines} lines, at most {MOST} are agreed: delete what is no longer needed; MOST in "
        f"{Path(__file__).name} is raised only by a commit that says why"
    )
