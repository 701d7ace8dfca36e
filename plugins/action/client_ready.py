# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.client_ready: reads a client's secret on the controller, and has its host use the client."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.answer import CLIENT
from ansible_collections.gb10.fleet.plugins.plugin_utils._asking import Asking, NoAnswerError


class ActionModule(Asking):
    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        if self._task.check_mode:
            return result | {"changed": False, "skipped": True, "msg": "check mode: nothing was started to be asked"}
        arguments = self._task.args
        key = self._loader.get_text_file_contents(arguments["secret"]).strip()
        asked = {"client": arguments["client"], "proof": arguments["proof"], "key": key}
        try:
            answer = self.ask("gb10.fleet.client_ready", asked, task_vars or {}, CLIENT)
        except NoAnswerError as why:
            raise AnsibleActionFail(str(why)) from None
        return {**result, "changed": False, **answer}
