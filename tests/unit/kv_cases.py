# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorded answers of vLLM's own code, and the models that they are about."""

from __future__ import annotations

import copy
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@lru_cache
def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


CASES: dict[str, Any] = json.loads(_text("tests/data/kv-cases/cases.json"))


def config(name: str) -> dict[str, Any]:
    """A shipped model's config.json, fresh, so that a test may bend it."""
    return dict(json.loads(_text(f"recipes/configs/{name}.json")))


def case(name: str, version: str, gib: float = 20, **flags: Any) -> dict[str, Any]:
    """A case as the doors take it."""
    return {"config": config(name), "flags": flags, "available_kv_gib": gib, "vllm_version": version}


def recorded(file: str = "cases") -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Every recorded (name, case with its config and version, truth) of a file."""
    rows = []
    for entry in json.loads(_text(f"tests/data/kv-cases/{file}.json"))["cases"]:
        for version, truth in entry["truth"].items():
            own = config(entry["model"]) | entry.get("changes", {})
            asked = {**copy.deepcopy(entry), "config": own, "vllm_version": version}
            if "draft" in entry:
                asked["flags"]["speculative_config"]["draft_config"] = config(entry["draft"])
            rows.append((f"{entry['id']}@{version}", asked, truth))
    return rows
