# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan assumes the memory of hosts that nobody declared, that doctor has not read and no start has shown."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gb10.fleet.plugins.module_utils._plan.sources import read_sources


def test_memory_is_assumed_until_somebody_has_looked(tmp_path: Path) -> None:
    declared = {"a": {}, "b": {"fleet_host": {"memory_kib": 62_800_000}}, "c": {"fleet_host": {}}}
    hosts = {name: {"address": name, "port": 22, "variables": own} for name, own in declared.items()}
    inventory = {"hosts": hosts, "folder": str(tmp_path)}
    assert read_sources(inventory).unseen == ["a", "c"]  # type: ignore[arg-type]
    (tmp_path / ".fleet/doctor").mkdir(parents=True)
    (tmp_path / ".fleet/doctor/a.json").write_text("{}")
    assert read_sources(inventory).unseen == ["c"]  # type: ignore[arg-type]
