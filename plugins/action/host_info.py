# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.host_info: the first that becomes root on a host, so the one that says why that fails."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.plugin_utils._sudo import refuse_without_terminal


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    _requires_connection = True
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result |= self._execute_module(
            module_name="gb10.fleet.host_info", module_args=self._task.args, task_vars=task_vars
        )
        refuse_without_terminal(result)
        return result
