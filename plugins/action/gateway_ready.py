# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.gateway_ready: reads a client's key on the controller, and has the host ask with it."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.answer import GATEWAY_ANSWERS
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.clients import first_key
from ansible_collections.gb10.fleet.plugins.plugin_utils._asking import Asking, NoAnswerError


class ActionModule(Asking):
    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        if self._task.check_mode:
            return result | {"changed": False, "skipped": True, "msg": "check mode: nothing was started to be asked"}
        clients = self._task.args["clients"]
        try:
            key = first_key(self._loader.get_text_file_contents(clients))
        except ValueError as problem:
            raise AnsibleActionFail(f"{clients}: {problem}") from None
        asked = {"proof": self._task.args["proof"], "key": key}
        try:
            answer = self.ask("gb10.fleet.gateway_ready", asked, task_vars or {}, GATEWAY_ANSWERS)
        except NoAnswerError as why:
            raise AnsibleActionFail(str(why)) from None
        return {**result, "changed": False, **answer}
