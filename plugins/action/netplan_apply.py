# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.netplan_apply: starts the change on the host, and confirms it over a new SSH connection."""

from __future__ import annotations

import json
import time
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gb10.fleet.plugins.plugin_utils._new_connection import use_new_connections
from ansible_collections.gb10.fleet.plugins.plugin_utils._sudo import refuse_without_terminal

GUARD = "/usr/bin/python3 -IB /usr/local/lib/gb10-fleet/netplan"
# The host decides within 90 s; an SSH attempt may outlast that by its own timeout.
PATIENCE_S = 120.0
POLL_S = 2.0


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    _requires_connection = True
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result |= self._execute_module(
            module_name="gb10.fleet.netplan_apply", module_args=self._task.args, task_vars=task_vars
        )
        refuse_without_terminal(result)
        change = result.pop("transaction", None)
        if change is None or result.get("failed"):
            return result
        host = (task_vars or {})["inventory_hostname"]
        Display().display(
            f"{host}: changing the network; the host takes it back unless a new SSH connection confirms it"
        )
        verdict = self._confirm(change)
        if verdict["phase"] != "confirmed":
            raise AnsibleActionFail(_refusal(verdict), result={"diff": result["diff"]})
        return result

    def _confirm(self, change: str) -> dict[str, str]:
        """Until the host says confirmed or restored: ask, each time over a connection of its own."""
        use_new_connections(self._connection)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                status = self._ask("status")
                if status.get("id") == change:
                    if status["phase"] == "applied":
                        # Opened after the change: what proves that a new connection is possible.
                        status = self._ask("confirm", change)
                    if status["phase"] in ("confirmed", "restored"):
                        return status
            except AnsibleConnectionFailure:
                pass
            time.sleep(POLL_S)
        return {"phase": "unknown", "reason": ""}

    def _ask(self, *arguments: str) -> dict[str, str]:
        """What the host's guard answers over a new connection."""
        self._connection.reset()
        done = self._low_level_execute_command(" ".join((GUARD, *arguments)))
        if done["rc"] != 0:
            raise AnsibleConnectionFailure(done["stderr"])
        answer: dict[str, str] = json.loads(done["stdout"])
        return answer


def _refusal(verdict: dict[str, str]) -> str:
    if verdict["phase"] == "restored":
        return (
            f"the host took the network change back, the old files are in place and applied: {verdict['reason']}; "
            "correct fleet_fabric or the host's files and run again [netplan-restored]"
        )
    return (
        "the network change was not confirmed, and the host has not been reachable since; it takes the change back by "
        "itself: look at it through its console, `journalctl -u gb10-netplan-change` [netplan-unconfirmed]"
    )
