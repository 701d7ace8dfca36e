# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.findings: what was found, in its own words and once."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.modules.findings import DOCUMENTATION
from ansible_collections.gb10.fleet.plugins.plugin_utils._argument_spec import documented
from ansible_collections.gb10.fleet.plugins.plugin_utils._screen import refusal, warn


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables)
        _checked, options = self.validate_argument_spec(documented(DOCUMENTATION))
        for sentence in options["warnings"]:
            warn(f"{variables.get('inventory_hostname', '')}: {sentence}")
        errors = options["errors"]
        if errors:
            raise refusal("\n".join(errors), "refused, as named above: nothing was changed here")
        return result | {"changed": False}
