# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.unconverged: compares on the controller what hosts have answered; reaches no host."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.utils.display import Display

from ..module_utils._base.gb10 import ROOT
from ..module_utils._operations.drift.unconverged import Answers, needed_first, unconverged, unstaged
from ..module_utils._plan.inventory_files import inventory_folder
from ..module_utils._plan.preflight.earlier import goes_back
from ..plugin_utils._documented import OnController
from ..plugin_utils._screen import refusal
from ..plugin_utils._who import lag


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        plan, interfaces = options["plan"], options["interfaces"]
        states = {host: options["readings"].get(host) for host in options["hosts"]}
        if (run := options["run"]) and not options["go_back"]:
            self._refuse_older(run, Path(inventory_folder(variables.get("inventory_dir"))), states)
        if options["staging"]:
            return {"changed": False, "reasons": unstaged(plan, states, Display().vvv)}
        tags, skipped = variables.get("ansible_run_tags", ["all"]), variables.get("ansible_skip_tags", [])
        if missing := [*needed_first(plan, states, interfaces, tags, skipped, Display().vvv)]:
            raise refusal("\n".join(missing), "refused, as named above: nothing was changed")
        return {"changed": False, "reasons": unconverged(plan, states, interfaces, Display().vvv)}

    def _refuse_older(self, run: Mapping[str, str], inventory: Path, states: Answers) -> None:
        """A run that would undo on any host what the last one there did."""
        lines = []
        for host, answer in states.items():
            last = (answer["state"]["last_run"] if answer else None) or {}
            folders = {"commit": ROOT, "inventory_commit": inventory}
            lags = {key: lag(folder, last.get(key, "")) for key, folder in folders.items()}
            lines += [finding.sentence() for finding in goes_back(host, run, last, lags)]
        if lines:
            raise refusal("\n".join(lines), "refused, as named above: nothing was changed")
