# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that the plan adds to what a scenario writes by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._fabric.plan import guard_files
from ansible_collections.gb10.fleet.plugins.module_utils._firewall import subject as firewall
from ansible_collections.gb10.fleet.plugins.module_utils._peers import subject as peers


def peer_access(who: Mapping[str, Any]) -> dict[str, Any]:
    return peers.with_files(who, "scenario")


def with_guard(files: Mapping[str, Any]) -> dict[str, Any]:
    return {**files, **guard_files()}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"firewall_slice": firewall.with_files, "peer_access_slice": peer_access, "with_guard": with_guard}
