# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.speed_proof: compares on the controller what was measured; reaches no host."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.canary import slower_than
from ansible_collections.gb10.fleet.plugins.module_utils._operations.rollout.compare import (
    answer_seconds,
    slower_services,
)
from ansible_collections.gb10.fleet.plugins.modules.speed_proof import DOCUMENTATION
from ansible_collections.gb10.fleet.plugins.plugin_utils._argument_spec import documented


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(documented(DOCUMENTATION))
        before, after = answer_seconds(options["before"]), answer_seconds(options["after"])
        slower = slower_services(before, after, options["least"])
        slower += slower_than(options["figures_before"], options["figures_after"], options["least"])
        if slower:
            raise AnsibleActionFail("\n".join(slower))
        return result | {"changed": False, "seconds": before}
