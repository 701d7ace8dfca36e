# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.gateway_ready: reads a secret on the controller, and has the host ask with it."""

from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base import worded
from ..module_utils._base.forms import forms
from ..module_utils._subjects.gateway.clients import first_key
from ..plugin_utils._asking import Asking, NoAnswerError
from ..plugin_utils._screen import warn

_ANSWER = forms("verify")["gateway_answers"]


class ActionModule(Asking):
    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        if self._task.check_mode:
            return result | {"changed": False, "skipped": True, "msg": "check mode: nothing was started to be asked"}
        client, source = self._task.args.get("client"), self._task.args["secret"]
        text = self._loader.get_text_file_contents(source)
        try:
            key = text.strip() if client else first_key(text)
        except ValueError as problem:
            raise AnsibleActionFail(f"{source}: {problem}") from None
        proof, elsewhere = self._task.args["proof"], self._task.args.get("elsewhere") or {}
        asked = {"client": client, "proof": proof, "key": key, "elsewhere": elsewhere}
        try:
            answer = self.ask("gb10.fleet.gateway_ready", asked, task_vars or {}, _ANSWER)
        except NoAnswerError as why:
            raise AnsibleActionFail(str(why)) from None
        for request in proof.get("requests", ()):
            if (model := request["model"]) in elsewhere and model not in answer["answers"]:
                finding = worded.warning("gateway-elsewhere", f"model {model}", hosts=elsewhere[model])
                warn(finding.sentence())
        return {**result, "changed": False, **answer}
