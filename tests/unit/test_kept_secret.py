# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets that a run makes are kept once, whole, for their owner alone, and out of git."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.plugin_utils._kept_secret import keep


def test_a_secret_is_made_once_and_read_by_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / ".fleet" / "keys" / "nano.key"
    assert keep(file, b"first") is True
    assert keep(file, b"second") is False
    assert file.read_bytes() == b"first"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert sorted(one.name for one in file.parent.iterdir()) == [".gitignore", "nano.key"]


def test_git_keeps_none(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    keep(tmp_path / ".fleet" / "keys" / "nano.key", b"x")
    found = subprocess.run(["git", "status", "--porcelain", "-uall"], cwd=tmp_path, capture_output=True, check=True)
    assert found.stdout == b""


def test_runs_side_by_side_agree(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "nano.key"
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: keep(file, b"%d" % number), range(32)))
    assert made.count(True) == 1
    assert file.read_bytes() == b"%d" % made.index(True)


def test_a_folder_that_can_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a file")
    with pytest.raises(OSError, match="keys"):
        keep(tmp_path / "keys" / "nano.key", b"x")
