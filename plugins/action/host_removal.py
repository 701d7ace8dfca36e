# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.host_removal: takes from the host's slice what the host has to look for."""

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase

from ..module_utils._base.managed import managed
from ..module_utils._base.owned import patterns_of


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = {**self._task.args, "slice": looked_for(self._task.args["slice"])}
        result |= self._execute_module("gb10.fleet.host_removal", arguments, task_vars=task_vars)
        return result


def looked_for(mine: Mapping[str, Any]) -> dict[str, Any]:
    """``{inventory, paths, owns, links, sysctl}``: by whom, which files and links there may be, by patterns too, which
    addresses by interface, and which values of the kernel."""
    # a netplan file goes by a transaction of its own
    paths = {file.path for file in managed(mine) if file.kind != "folder" and not file.path.startswith("/etc/netplan/")}
    return {
        "inventory": mine["tls"]["inventory"],
        "paths": sorted(paths),
        "owns": [*patterns_of(mine)],
        "links": {
            interface["name"]: interface["address"]
            for interface in mine["fabric"]["interfaces"]
            if interface["address"]
        },
        "sysctl": sorted({*mine["host_tuning"].get("sysctl", {}), *mine["fabric"]["sysctl"]}),
    }
