# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.unconverged: compares on the controller what hosts have answered; reaches no host."""

from typing import Any

from ansible.utils.display import Display
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.unconverged import (
    needed_first,
    unconverged,
    unstaged,
)
from ansible_collections.gb10.fleet.plugins.plugin_utils._documented import OnController
from ansible_collections.gb10.fleet.plugins.plugin_utils._screen import refusal


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        plan, interfaces = options["plan"], options["interfaces"]
        states = {host: options["readings"].get(host) for host in options["hosts"]}
        if options["staging"]:
            return {"changed": False, "reasons": unstaged(plan, states, Display().vvv)}
        tags, skipped = variables.get("ansible_run_tags", ["all"]), variables.get("ansible_skip_tags", [])
        if missing := [*needed_first(plan, states, interfaces, tags, skipped, Display().vvv)]:
            raise refusal("\n".join(missing), "refused, as named above: nothing was changed")
        return {"changed": False, "reasons": unconverged(plan, states, interfaces, Display().vvv)}
