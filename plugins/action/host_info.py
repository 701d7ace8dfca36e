# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.host_info: the first that becomes root on a host, so the one that says why that fails.

With a view of the plan it asks in the same call for all that a converge compares.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display

from ..module_utils._base.forms import forms as answers
from ..module_utils._base.slice import Slice
from ..module_utils._host.probe.answer import read_answer
from ..module_utils._operations.drift.questions import before_change, paths_before_change
from ..module_utils._operations.drift.secrets import new_salt
from ..module_utils._subjects.form import forms, taken
from ..module_utils._subjects.state import ALWAYS, JUDGED, NOT_BEFORE_CHANGE, UNASKED
from ..plugin_utils._asking import Asking, NoAnswerError, as_read
from ..plugin_utils._compared import with_comparisons
from ..plugin_utils._lease import HOLDER, wait
from ..plugin_utils._sudo import refuse_without_terminal

# What each part of the state holds is checked by `_subjects.form`.
FORM = answers("answers")["host_info"]
# Of a module that failed; what else a host says of that is left out.
_WORDS = ("msg", "module_stderr", "module_stdout", "exception")
_MOST_WORDS = 1 << 16


class ActionModule(Asking):
    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables)
        asked = dict(self._task.args)
        view = asked.pop("view", None)
        if view:
            mine = view["slice"]
            asked["salt"] = asked.get("salt") or new_salt()
            asked["ask"] = before_change(view)
            asked["paths"] = sorted({*asked.get("paths", ()), *paths_before_change(mine)})
        try:
            answer = self.answered("gb10.fleet.host_info", asked, variables)
            refuse_without_terminal(answer)
            if answer.get("failed"):
                words = {key: answer[key][-_MOST_WORDS:] for key in _WORDS if isinstance(answer.get(key), str)}
                return result | {"failed": True, "changed": False} | words
            with as_read():
                answer = read_answer(FORM, answer)
            state, unknown = taken(answer["state"], answer["unknown"], forms(asked.get("ask")))
            if view and not self._task.check_mode and self._waits(state.get("lease") or {}, variables):
                return self.run(tmp, variables)
        except NoAnswerError as why:
            raise AnsibleActionFail(str(why)) from None
        result |= {"changed": False, "state": state, "unknown": unknown}
        if view:
            result |= self._parted(state, unknown, mine, asked["salt"])
        return result

    def _waits(self, holder: Mapping[str, str], variables: dict[str, object]) -> bool:
        """Whether another run changed the host, and has ended now."""
        ask = partial(self.ask, "gb10.fleet.lease", {}, variables, HOLDER)
        over = wait(
            str(variables.get("inventory_hostname")), holder, lambda: ask()["holder"], variables.get("take_over")
        )
        return over.get("token") != holder.get("token")

    def _parted(
        self, state: Mapping[str, object], unknown: Mapping[str, str], mine: Slice, salt: str
    ) -> dict[str, Any]:
        """What the preflight judges, and beside it all that was read."""
        whole, faults = with_comparisons(
            {**dict.fromkeys(NOT_BEFORE_CHANGE), **state}, mine, salt, self._loader.get_text_file_contents
        )
        for fault in faults:
            Display().vvv(fault.trace)
        images = whole["images"]
        names = images and {name: image and image["identity"] for name, image in images.items()}
        return {
            "state": {name: whole.get(name) for name in (*ALWAYS, *UNASKED, *JUDGED)} | {"images": names},
            "compared": {"state": whole, "unknown": {**unknown, **{fault.part: fault.why for fault in faults}}},
        }
