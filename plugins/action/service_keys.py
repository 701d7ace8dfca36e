# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.service_keys: makes files on the controller, reaches no host."""

import secrets
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base.own_files import unwritten
from ..plugin_utils._documented import OnController
from ..plugin_utils._kept_secret import keep

_KEY_BYTES = 32


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        files = [Path(file) for file in options["files"]]
        made = [str(file) for file in files if not file.exists()]
        if not self._task.check_mode:
            try:
                made = [str(file) for file in files if keep(file, secrets.token_hex(_KEY_BYTES).encode() + b"\n")]
            except OSError as error:
                expected = "a folder of yours beside the inventory, where a key can be kept"
                remedy = "make it writable, or name a file of yours with api_key_file in the service"
                raise AnsibleActionFail(unwritten(error, files[0].parent, expected, remedy)) from error
        return {"changed": bool(made), "made": made}
