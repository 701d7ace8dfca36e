# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.speed_proof: compares on the controller what was measured; reaches no host."""

from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._operations.bench.canary import slower_than
from ..module_utils._operations.rollout.compare import answer_seconds, slower_services
from ..plugin_utils._documented import OnController


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        before, after = answer_seconds(options["before"]), answer_seconds(options["after"])
        slower = slower_services(before, after, options["least"])
        slower += slower_than(options["figures_before"], options["figures_after"], options["least"])
        if slower:
            raise AnsibleActionFail("\n".join(slower))
        return {"changed": False, "seconds": before}
