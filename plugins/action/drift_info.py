# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.drift_info: asks one host for everything that the plan says of it, by one module call.

A host that can't be read is an answer too: the task never fails, so that the other hosts are compared.
"""

import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.utils.display import Display

from ..action.host_info import FORM
from ..module_utils._base import own_files
from ..module_utils._base.received import one_line
from ..module_utils._operations.drift.history import parse
from ..module_utils._operations.drift.questions import DEEP_SECONDS, questions
from ..module_utils._operations.drift.secrets import new_salt
from ..module_utils._subjects.form import forms, taken
from ..plugin_utils._asking import Asking, NoAnswerError
from ..plugin_utils._compared import with_comparisons
from ..plugin_utils._documented import Documented

HISTORY = "history.json"
NOT_DEEP = {"days": 1, "today": 0, "seconds": 0, "seen": {}}


class ActionModule(Documented, Asking):
    def act(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        view = options["view"]
        mine = view["slice"]
        deep = _deep(view["weights_days"], variables["inventory_hostname"], Path(options["folder"]))
        ask = questions(view, deep if options["deep"] else NOT_DEEP)
        before, salt = time.time(), options["salt"] or new_salt()
        asked = {"ask": ask, "salt": salt, "paths": mine["needs"]["paths"]}

        try:
            answer = self.ask("gb10.fleet.host_info", asked, variables, FORM)
        except AnsibleConnectionFailure as error:
            return _silent(one_line(f"unreachable: {error}".partition("\n")[0]))
        except NoAnswerError as why:
            return _silent(str(why))
        state, unknown = taken(answer["state"], answer["unknown"], forms(ask))
        state, faults = with_comparisons(state, mine, salt, self._loader.get_text_file_contents)
        for fault in faults:
            Display().vvv(fault.trace)
        unknown |= {fault.part: fault.why for fault in faults}
        state["asked_between"] = [before, time.time()]
        return {"changed": False, "state": state, "unknown": unknown, "why": ""}


def _deep(days: int, host: str, folder: Path) -> dict[str, Any]:
    """Which weights to read byte by byte tonight: the host chooses by what was read before."""
    # the action `drift` sets aside one that can't be read, and says so once
    history, _why = own_files.look(folder / HISTORY, parse)
    read = history["read"] if history else {}
    return {"days": days, "today": int(time.time() // 86400), "seconds": DEEP_SECONDS, "seen": read.get(host, {})}


def _silent(why: str) -> dict[str, Any]:
    return {"changed": False, "state": None, "unknown": {}, "why": why}
