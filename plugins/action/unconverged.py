# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.unconverged: compares on the controller what hosts have answered; reaches no host."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.unconverged import (
    needed_first,
    unconverged,
    unstaged,
)
from ansible_collections.gb10.fleet.plugins.modules.unconverged import DOCUMENTATION
from ansible_collections.gb10.fleet.plugins.plugin_utils._argument_spec import documented
from ansible_collections.gb10.fleet.plugins.plugin_utils._screen import refusal


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables)
        _checked, options = self.validate_argument_spec(documented(DOCUMENTATION))
        plan, interfaces = options["plan"], options["interfaces"]
        states = {host: options["readings"].get(host) for host in options["hosts"]}
        result["changed"] = False
        if options["staging"]:
            return result | {"reasons": unstaged(plan, states, Display().vvv)}
        tags, skipped = variables.get("ansible_run_tags", ["all"]), variables.get("ansible_skip_tags", [])
        if missing := [*needed_first(plan, states, interfaces, tags, skipped, Display().vvv)]:
            raise refusal("\n".join(missing), "refused, as named above: nothing was changed")
        return result | {"reasons": unconverged(plan, states, interfaces, Display().vvv)}
