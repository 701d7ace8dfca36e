# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.unconverged: compares on the controller what hosts have answered; reaches no host."""

from pathlib import Path
from typing import Any

from ansible.utils.display import Display

from ..module_utils._operations.drift.unconverged import needed_first, unconverged, unstaged
from ..module_utils._plan.inventory_files import inventory_folder
from ..plugin_utils._documented import OnController
from ..plugin_utils._screen import refusal
from ..plugin_utils._who import refuse_older


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        plan, interfaces = options["plan"], options["interfaces"]
        states = {host: options["readings"].get(host) for host in options["hosts"]}
        if (run := options["run"]) and not options["go_back"]:
            lasts = {host: answer["state"]["last_run"] if answer else None for host, answer in states.items()}
            folder = Path(inventory_folder(variables.get("inventory_dir")))
            refuse_older(run, folder, lasts, dry=self._task.check_mode)
        if options["staging"]:
            return {"changed": False, "reasons": unstaged(plan, states, Display().vvv)}
        tags, skipped = variables.get("ansible_run_tags", ["all"]), variables.get("ansible_skip_tags", [])
        if missing := [*needed_first(plan, states, interfaces, tags, skipped, Display().vvv)]:
            raise refusal("\n".join(missing), "refused, as named above: nothing was changed")
        reasons = unconverged(plan, states, interfaces, Display().vvv)
        for host in reasons:
            spans = plan["hosts"][host]["phoenix"]["spans"]
            if spans and not Path(spans).exists():
                reasons[host].append(f"{spans}: Phoenix has made no key for spans yet")
        return {"changed": False, "reasons": reasons}
