# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan says of a service's ranks, for tests."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._plan.container import docker_run


def ranks_of(plan: dict[str, Any], service: str) -> list[dict[str, Any]]:
    """Each rank's slice, head first, with its ``command`` and what its ``supervisor`` reads."""
    slices = [
        one
        for host in plan["services"][service]["hosts"]
        for one in plan["hosts"][host]["services"]
        if one["name"] == service
    ]
    return [
        one
        | {
            "command": docker_run(one["container"]),
            "supervisor": json.loads(one["files"][layout.rank_file(service)]["content"]),
        }
        for one in slices
    ]


def found(plan: dict[str, Any], severity: str = "error") -> list[str]:
    """The rules of what a plan finds."""
    return [finding["rule"] for finding in plan["findings"] if finding["severity"] == severity]


def values(words: list[str]) -> dict[str, str]:
    """Options with a value, of words."""
    return {name: value for name, value in pairwise(words) if name.startswith("--")}
