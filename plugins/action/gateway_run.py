# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.gateway_run: reads on the controller what no plan holds, keys and the certificate."""

from typing import Any

from ..module_utils._subjects.gateway.subject import secrets_of
from ..plugin_utils._documented import Documented
from ..plugin_utils._secret_text import text_on_host


class ActionModule(Documented):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        secrets = {secret.path: text_on_host(self, secret) for secret in secrets_of(options["plan"])}
        arguments = {**self._task.args, "secrets": secrets}
        return dict(self._execute_module("gb10.fleet.gateway_run", arguments, task_vars=variables))
