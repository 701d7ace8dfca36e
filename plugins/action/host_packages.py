# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.host_packages: a host that lacks no package costs one short command, without Python there."""

import re
import shlex
from typing import Any

from ..module_utils._base.layout import INSTALLED
from ..module_utils._host.probe.system import read_packages
from ..plugin_utils._documented import Documented

LOCK_S = 1800  # an update of DGX OS may be at work
_NO_START = 101  # of invoke-rc.d: an action that policy forbids
# What apt's module says of a package that the host's lists don't have.
_NOT_LISTED = "No package matching"
# What apt and dpkg print where a package that came before was never set up.
_NOT_SET_UP = re.compile("dpkg returned an error code|dpkg was interrupted")
_NAMED = re.compile(r"^dpkg: error processing package (\S+)", re.MULTILINE)


class ActionModule(Documented):
    def act(self, arguments: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        found = read_packages(self._command, arguments["name"])
        missing = [name for name, package in found.items() if package is None]
        if not missing:
            return {"changed": False, "missing": []}
        apt = {"name": missing, "update_cache": True, "lock_timeout": LOCK_S}
        if not arguments["start_services"]:
            apt["policy_rc_d"] = _NO_START
        result: dict[str, Any] = self._execute_module("ansible.builtin.apt", apt, task_vars=variables)
        unlisted = result.get("failed") and str(result.get("msg")).startswith(_NOT_LISTED)
        if unlisted and self._task.check_mode and arguments["assume_available"]:
            result = {"changed": True}
        if not result.get("failed") and not self._task.check_mode:
            self._noted(missing)
        return _explained(result) | {"missing": missing}

    def _noted(self, packages: list[str]) -> None:
        """For `host_removal`: which packages were not here before."""
        noted = shlex.join(f"{INSTALLED}/{name}" for name in packages)
        self._low_level_execute_command(f"mkdir -p {shlex.quote(INSTALLED)} && touch {noted}")

    def _command(self, arguments: list[str]) -> tuple[int, str, str]:
        answer = self._low_level_execute_command(shlex.join(arguments))
        return answer["rc"], answer["stdout"], answer["stderr"]


def _explained(result: dict[str, object]) -> dict[str, Any]:
    """A failure of dpkg with the packages that it could not set up, and what there is to do."""
    printed = "\n".join(str(result.get(key, "")) for key in ("msg", "stdout", "stderr"))
    if not result.get("failed") or not _NOT_SET_UP.search(printed):
        return result
    names = ", ".join(dict.fromkeys(_NAMED.findall(printed))) or "a package"
    remedy = "`sudo dpkg --configure -a` on that host shows why; mend that package, and run again"
    return result | {"msg": f"dpkg can't set up {names}, and apt installs nothing beside it: {remedy}"}
