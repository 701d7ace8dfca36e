# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This plugin util is PRIVATE to the collection.
"""A reading with what only the controller can compare: secrets, and certificates, of which it has the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.managed import managed_files
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.secrets import compared
from ansible_collections.gb10.fleet.plugins.plugin_utils._certificates import described


def with_comparisons(
    state: Mapping[str, Any], plan: Mapping[str, Any], salt: str, read: Callable[[str], str]
) -> dict[str, Any]:
    """state: as `host_info` read it by the plan's questions. plan: the host's slice. read: a file of ours."""
    found = dict(state)
    if found["files"] is not None:
        found["files"] = compared(found["files"], managed_files(plan), salt, read)
    if found["certificates"] is not None:
        now, shown = datetime.now(UTC), found["certificates"].items()
        found["certificates"] = {path: described(text, now) for path, text in shown if text is not None}
    return found
