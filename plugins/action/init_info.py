# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.init_info: what a machine shows of itself, in bounds."""

from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base.findings import of_sudo
from ..module_utils._operations.init.reading import FORM as READING
from ..plugin_utils._asking import Answering


class ActionModule(Answering):
    FORM = READING

    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        try:
            return super().run(tmp, task_vars)
        except AnsibleActionFail as problem:
            if remedy := of_sudo(str(problem)):
                raise AnsibleActionFail(f"{problem}; {remedy}; nothing was written and nothing was changed") from None
            raise
