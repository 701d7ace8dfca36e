# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Sparks get, fetched on a machine of another architecture: Debian's packages with their closure, and wheels."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle import debs, locks, wheels
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle.folder import Target, earlier
from ansible_collections.gb10.fleet.plugins.plugin_utils._bundle_key import new_key

from . import origin

ARCHITECTURE = "arm64"


@pytest.fixture
def target(tmp_path: Path) -> Target:
    if missing := origin.programs():
        pytest.skip(f"this machine lacks {', '.join(missing)}: apt-get install them")
    return Target(tmp_path / "bundle", earlier(tmp_path / "bundle", None), None, None)


def test_packages_with_their_closure(tmp_path: Path, target: Target) -> None:
    """Of a few small ones, into a repository that is signed; libc among them, as of all."""
    sources = origin.apt_sources(tmp_path / "apt.sources").read_text()
    secret, _public = new_key("a test")
    entries = debs.fetch(["rdma-core", "python3-venv"], ARCHITECTURE, sources, target, tmp_path / "work", [], secret)
    names = {str(one["name"]): str(one["file"]) for one in entries}
    assert {"rdma-core", "python3-venv", "libc6"} <= {*names}
    assert names["libc6"].endswith(f"_{ARCHITECTURE}.deb")
    assert {path.rpartition("_")[2] for path in names.values()} == {f"{ARCHITECTURE}.deb", "all.deb"}
    assert all((target.folder / path).is_file() for path in names.values())


def test_every_wheel_of_every_lock(tmp_path: Path, target: Target) -> None:
    entries = wheels.fetch(ARCHITECTURE, "3.12", [*locks.TOOLS], target, tmp_path / "work")
    files = [str(one["file"]) for one in entries]
    assert [path for path in files if not path.endswith(("-any.whl", "_aarch64.whl"))] == []
    assert len([*locks.wheels_of("phoenix", {"wheels": entries})]) > 100
