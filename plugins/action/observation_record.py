# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.observation_record: the module keeps the document on the host, this its controller's copy."""

import json
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base.forms import forms
from ..module_utils._base.own_files import clear_of_folders, look, replace_file, unwritten
from ..module_utils._base.received import one_line
from ..module_utils._engines.observed import require_observed
from ..module_utils._host.settings.json_settings import written
from ..plugin_utils._asking import Answering
from ..plugin_utils._screen import warn


class ActionModule(Answering):
    FORM = forms("answers")["observation_record"]

    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        copy, content = Path(self._task.args["copy"]), self._task.args.get("content")
        # The host's reading has what it keeps of its starts: no call where nothing is new.
        if self._task.args["kind"] == "start" and content and look(copy, json.loads)[0] == content:
            return {"changed": False, "content": content}
        result: dict[str, Any] = super().run(tmp, task_vars)
        if result["content"] is None:
            return result
        try:
            require_observed(str(self._task.args["kind"]), result["content"])
        except (ValueError, RecursionError) as problem:
            why = one_line(f"{copy} is not written: {problem}", 1000)
            raise AnsibleActionFail(f"{why} [observed-unusable]") from None
        text = written(result["content"])
        if look(copy, bytes)[0] != text.encode():
            result["changed"] = True
            try:
                if not self._task.check_mode:
                    clear_of_folders(copy)
                    replace_file(copy, text.encode())
            except OSError as problem:  # the host keeps it, too, and what serves goes on
                warn(unwritten(problem, copy, "a file of yours", "make it writable; the next run writes it"))
        return result
