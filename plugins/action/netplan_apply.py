# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.netplan_apply: starts the change on the host, and confirms it over a new SSH connection."""

import time
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ..module_utils._host.netplan import outcome
from ..plugin_utils._new_connection import use_new_connections
from ..plugin_utils._screen import is_brief, is_first, show
from ..plugin_utils._sudo import refuse_without_terminal

# The host decides within 90 s; an SSH attempt may outlast that by its own timeout.
PATIENCE_S = 120.0
POLL_S = 2.0


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result |= self._execute_module(
            module_name="gb10.fleet.netplan_apply", module_args=self._task.args, task_vars=task_vars
        )
        refuse_without_terminal(result)
        change = result.pop("transaction", None)
        if change is None or result.get("failed"):
            return result
        host = (task_vars or {})["inventory_hostname"]
        if not is_brief() or is_first("network"):
            show(f"{host}: changing the network; the host takes it back unless a new SSH connection confirms it")
        contact = self._confirm(change)
        if contact.phase != "confirmed":
            raise AnsibleActionFail(outcome.refusal(contact), result={"diff": result["diff"]})
        return result

    def _confirm(self, change: str) -> outcome.Contact:
        """Until the host says confirmed or restored: ask, each time over a connection of its own."""
        use_new_connections(self._connection)
        deadline = time.monotonic() + PATIENCE_S
        contact = outcome.Contact()
        while contact.phase not in ("confirmed", "restored") and time.monotonic() < deadline:
            self._ask(change, contact)
            if contact.phase not in ("confirmed", "restored"):
                time.sleep(POLL_S)
        return contact

    def _ask(self, change: str, contact: outcome.Contact) -> None:
        try:
            answer = self._command(outcome.READ_STATUS, contact)
            contact.status = outcome.newest(answer, change) or contact.status
            if contact.phase == "applied":
                # Over a connection that was opened after the change: what proves that a new one is possible.
                self._command(outcome.confirmation(change), contact)
        except AnsibleConnectionFailure:
            contact.answered = False

    def _command(self, command: str, contact: outcome.Contact) -> str:
        """Its standard output, over a new connection; what it says when it fails is kept in ``contact``."""
        self._connection.reset()
        done = self._low_level_execute_command(command)
        contact.answered = True
        contact.error = "" if done["rc"] == 0 else (done["stderr"] or done["stdout"]).strip()[-500:]
        return str(done["stdout"])
