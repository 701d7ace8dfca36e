# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.host_info: the first that becomes root on a host, so the one that says why that fails.

With a view of the plan it asks in the same call for all that a converge compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.gb10.fleet.plugins.module_utils._base.received import checked
from ansible_collections.gb10.fleet.plugins.module_utils._base.schema import Spec
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.answer import read_answer
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.questions import (
    before_change,
    paths_before_change,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.secrets import new_salt
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.state import ALWAYS, NOT_BEFORE_CHANGE, UNASKED
from ansible_collections.gb10.fleet.plugins.plugin_utils._asking import Asking, NoAnswerError, as_read
from ansible_collections.gb10.fleet.plugins.plugin_utils._compared import with_comparisons
from ansible_collections.gb10.fleet.plugins.plugin_utils._sudo import refuse_without_terminal

# What a part of the state holds is judged by who compares it (``compare.judged``).
FORM: Spec = {
    "type": "map",
    "options": {
        "state": {"type": "map", "required": True},
        "unknown": {"type": "map", "required": True, "values": {"type": "str"}},
    },
}
# But for the one that is judged on all hosts at once.
OUR_UNITS: Spec = {
    "type": "list",
    "nullable": True,
    "elements": {
        "type": "map",
        "options": {
            "unit": {"type": "str", "required": True},
            "inventory": {"type": "str", "required": True},
            "ranks": {"type": "int", "required": True},
            "unproved": {"type": "bool", "required": True},
        },
    },
}
# Of a module that failed; what else a host says of that is left out.
_WORDS = ("msg", "module_stderr", "module_stdout", "exception")
_MOST_WORDS = 1 << 16


class ActionModule(Asking):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        asked = dict(self._task.args)
        view = asked.pop("view", None)
        if view:
            mine = view["slice"]
            asked["salt"] = asked.get("salt") or new_salt()
            asked["ask"] = before_change(view)
            asked["paths"] = sorted({*asked.get("paths", ()), *paths_before_change(mine)})
        try:
            answer = self.answered("gb10.fleet.host_info", asked, task_vars or {})
            refuse_without_terminal(answer)
            if answer.get("failed"):
                words = {key: answer[key][-_MOST_WORDS:] for key in _WORDS if isinstance(answer.get(key), str)}
                return result | {"failed": True, "changed": False} | words
            with as_read():
                answer = read_answer(FORM, answer)
                checked(OUR_UNITS, answer["state"]["our_units"], "its answer's our_units")
        except NoAnswerError as why:
            raise AnsibleActionFail(str(why)) from None
        result |= {"changed": False} | answer
        if view:
            result |= self._parted(answer, mine, asked["salt"])
        return result

    def _parted(self, answer: Mapping[str, Any], mine: Mapping[str, Any], salt: str) -> dict[str, Any]:
        """What the preflight judges as without a view, and beside it all that was read; None where it can't be used."""
        whole = dict.fromkeys(NOT_BEFORE_CHANGE) | answer["state"]
        state = {name: whole.get(name) for name in (*ALWAYS, *UNASKED)}
        try:
            images = whole["images"]
            state["images"] = images and {name: image and image["identity"] for name, image in images.items()}
            read = self._loader.get_text_file_contents
            compared = {"state": with_comparisons(whole, mine, salt, read), "unknown": answer["unknown"]}
        except Exception:  # whatever it has answered: it is judged by what can be, and converged
            return {"state": {"images": None, **state}, "compared": None}
        return {"state": state, "compared": compared}
