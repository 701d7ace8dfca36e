# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import Finding
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.overlays import Overlays, plan_overlays
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library, load_all

SHIPPED, _ = load_all([Path(__file__).parents[1] / "data" / "recipes", SHIPPED_RECIPES])


def planned(overlays: list[Mapping[str, Any]], library: Library = SHIPPED) -> tuple[Overlays, list[Finding]]:
    return plan_overlays(overlays, library, Place(service="x"), "/var/overlays/x", "/host/model", "/hf/model")


def of(recipe: str) -> list[Mapping[str, Any]]:
    overlays: list[Mapping[str, Any]] = SHIPPED.recipes[recipe].data["overlays"]
    return overlays


def test_a_missing_key_is_added_over_the_models_config() -> None:
    overlays, findings = planned(of("qwen3.5-122b-a10b-fp8"))
    assert findings == []
    path = "/var/overlays/x/0-config.json"
    merge = {"text_config": {"rope_theta": 10000000}}
    assert overlays.files == [{"path": path, "original": "/host/model/config.json", "json_merge": merge}]
    assert overlays.mounts == [{"source": path, "target": "/hf/model/config.json", "read_only": True}]


def test_a_file_of_the_checkpoint_replaces_one_of_the_image() -> None:
    overlays, findings = planned(of("gemma-4-26b-patched-loader"))
    assert findings == []
    assert overlays.files == []
    assert overlays.mounts[0]["source"] == "/host/model/gemma4_patched.py"
    assert overlays.mounts[0]["target"].startswith("/usr/local/lib/python3.12/")


def test_a_shipped_file_is_written_as_it_is() -> None:
    overlays, findings = planned(of("qwen3-vl-235b-a22b-instruct-awq"))
    assert findings == []
    assert overlays.files[0]["path"] == "/var/overlays/x/0-sitecustomize.py"
    assert "cudnn" in overlays.files[0]["content"]


def test_what_is_not_there_is_a_finding_and_no_mount(tmp_path: Path) -> None:
    (tmp_path / "overlays").mkdir()
    (tmp_path / "overlays" / "binary").write_bytes(b"\xff")
    absent = {"target": "/overlays/a", "file": "absent", "sha256": None, "where": "the project x"}
    overlays, findings = planned([absent, {**absent, "file": "binary"}], Library({}, (tmp_path,)))
    assert overlays == Overlays()
    assert [finding.place for finding in findings] == [f"fleet_services.x.overlays[{index}]" for index in (0, 1)]
