# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.gateway_run: reads on the controller what no plan holds, keys and the certificate."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.subject import secrets_of
from ansible_collections.gb10.fleet.plugins.modules.gateway_run import DOCUMENTATION
from ansible_collections.gb10.fleet.plugins.plugin_utils._argument_spec import documented
from ansible_collections.gb10.fleet.plugins.plugin_utils._secret_text import text_on_host


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    _requires_connection = True
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(documented(DOCUMENTATION))
        secrets = {one.path: text_on_host(self, one) for one in secrets_of(options["plan"])}
        arguments = {**self._task.args, "secrets": secrets}
        result |= self._execute_module("gb10.fleet.gateway_run", arguments, task_vars=task_vars)
        return result
