# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.firewall_apply: loads the rules on the host, and confirms them over a new SSH connection."""

import time
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ..plugin_utils._new_connection import use_new_connections
from ..plugin_utils._screen import show

# The host takes unconfirmed rules back after 60 s; an attempt may outlast that by SSH's own timeout.
PATIENCE_S = 120.0
POLL_S = 2.0
LOCKED_OUT = (
    "with the new rules no new SSH connection could be opened, so the host took them back by itself: "
    "does SSH come in by another port, or through a container? allow that port in fleet_host.firewall.allow "
    "[firewall-restored]"
)
WAITS = (
    "another run has loaded new rules: waiting until it has confirmed them or the host has taken them back, which it "
    "does within 60 s"
)
BUSY = "another run changes the firewall of this host: run again when it has ended [firewall-busy]"


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result |= self._in_turn(task_vars)
        if result.pop("unconfirmed", False) and not result.get("failed"):
            confirmed = self._confirm(task_vars)
            if confirmed.get("failed"):
                raise AnsibleActionFail(confirmed["msg"], result={"diff": result["diff"]})
        return result

    def _in_turn(self, task_vars: dict[str, object] | None) -> dict[str, Any]:
        """What the module answers once no other run's rules wait for their confirmation."""
        deadline = time.monotonic() + PATIENCE_S
        answer = self._module(self._task.args, task_vars)
        if answer.get("unsettled"):
            show(f"{(task_vars or {})['inventory_hostname']}: {WAITS}")
        while answer.pop("unsettled", False):
            if time.monotonic() > deadline:
                raise AnsibleActionFail(BUSY)
            time.sleep(POLL_S)
            answer = self._module(self._task.args, task_vars)
        return answer

    def _module(self, arguments: dict[str, object], task_vars: dict[str, object] | None) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(
            module_name="gb10.fleet.firewall_apply", module_args=arguments, task_vars=task_vars
        )
        return answer

    def _confirm(self, task_vars: dict[str, object] | None) -> dict[str, Any]:
        """Until the host answers over a connection that was opened after the rules held."""
        use_new_connections(self._connection)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                # for connections other than ssh, which are kept open
                self._connection.reset()
                return self._module({**self._task.args, "confirm": True}, task_vars)
            except AnsibleConnectionFailure:
                time.sleep(POLL_S)
        raise AnsibleActionFail(LOCKED_OUT)
