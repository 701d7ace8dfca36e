# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What `host_info` is asked of a host: everything that the plan says something about, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils import _layout
from ansible_collections.gb10.fleet.plugins.module_utils._drift.managed import managed_files, managed_json
from ansible_collections.gb10.fleet.plugins.module_utils._drift.running import (
    declared_sysctl,
    declared_units,
    sysctl_files,
)
from ansible_collections.gb10.fleet.plugins.module_utils._subjects import SUBJECTS

# Weights that one night does not come to are read the next.
DEEP_SECONDS = 1800


def questions(plan: Mapping[str, Any], host: str, deep: Mapping[str, Any]) -> dict[str, Any]:
    """The questions for one host.

    deep: which weights to read byte by byte: ``{days, today, seconds, seen: {file: day}}``; seconds 0: none.
    """
    mine = plan["hosts"][host]
    asked: dict[str, Any] = {
        "folder": _layout.STATE,
        "models_folder": _layout.MODELS,
        "files": [
            {"path": one.path, "sha256": one.sha256, "secret": one.secret, "salted": bool(one.source) or one.shared}
            for one in managed_files(mine)
        ],
        "json": [
            {
                "path": one.path,
                "keys": sorted(one.settings),
                "settings": dict(one.settings),
                "original": one.original,
                "names_of": one.names_of,
            }
            for one in managed_json(mine)
        ],
        "sysctl": sorted(declared_sysctl(mine)),
        "sysctl_files": sysctl_files(mine),
        "units": sorted(declared_units(mine)),
        "deep": dict(deep),
    }
    for subject in SUBJECTS:
        for name, question in subject.questions(plan, host).items():
            asked[name] = question
    return asked
