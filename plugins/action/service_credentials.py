# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.service_credentials: reads what no plan holds on the controller, and knows whose it is."""

from typing import Any

from ..module_utils._subjects.services.subject import credentials
from ..module_utils._subjects.tls.subject import trusted
from ..plugin_utils._documented import Documented
from ..plugin_utils._secret_text import text_on_host


class ActionModule(Documented):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        files = [file for service in options["services"] for file in credentials(service)]
        files += [file for file in trusted(options["tls"]) if file.kind == "file"]
        arguments = {
            "tls": options["tls"],
            "certificates": [service["tls"] for service in options["services"] if service["tls"]],
            "modes": {file.path: file.mode for file in files},
            "secrets": {file.path: text_on_host(self, file) for file in files},
        }
        result: dict[str, Any] = self._execute_module("gb10.fleet.service_credentials", arguments, task_vars=variables)
        named = result.get("changed_files")
        # whatever a host names
        changed = [path for path in named if isinstance(path, str)] if isinstance(named, list) else []
        result["changed_services"] = sorted({file.service for file in files if file.path in changed} - {""})
        return result
