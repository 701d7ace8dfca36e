# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.secret_files: reads the secrets on the controller, and renders what the host gets."""

from typing import Any

from ..module_utils._base.managed import Managed
from ..module_utils._subjects.registry import SUBJECTS
from ..plugin_utils._documented import Documented
from ..plugin_utils._secret_text import text_on_host


class ActionModule(Documented):
    def act(self, options: dict[str, object], variables: dict[str, object]) -> dict[str, Any]:
        subject = next(subject for subject in SUBJECTS if subject.name == options["part"])
        files = [file for file in subject.files(options["plan"]) if isinstance(file, Managed) and file.secret]
        # the plan stays here: the host needs the secrets alone
        arguments = {
            "part": options["part"],
            "plan": None,
            "secrets": {file.path: text_on_host(self, file) for file in files},
        }
        return dict(self._execute_module("gb10.fleet.secret_files", arguments, task_vars=variables))
