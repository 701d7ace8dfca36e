# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.bench_load: what a host measured counts only if it is whole."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.gb10.fleet.plugins.module_utils._bench.form import NotWholeError
from ansible_collections.gb10.fleet.plugins.module_utils._bench.sweep import Point
from ansible_collections.gb10.fleet.plugins.plugin_utils._asking import NoAnswerError
from ansible_collections.gb10.fleet.plugins.plugin_utils._benchmarking import Measuring
from ansible_collections.gb10.fleet.plugins.plugin_utils._screen import show

_KEPT = "nothing of this benchmark was kept"


class ActionModule(Measuring):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables)
        if self._task.check_mode:
            return result | {"changed": False, "skipped": True, "msg": "check mode: nothing was measured"}
        load, given = self._task.args["load"], self._task.args.get("point")
        point = Point(**given) if given else None
        try:
            answer = self.measure(load, point, variables) if point else {"seen": self.look(load, variables)["seen"]}
        except (NoAnswerError, NotWholeError) as why:
            at = f" at {point.name}" if point else ""
            raise AnsibleActionFail(
                f"{load['service']} can't be measured{at}: {why}; {_KEPT}", result={"unread": True}
            ) from None
        if point:
            figures = ", ".join(f"{value:.4g} {name}" for name, value in answer["figures"].items())
            show(f"{load['service']}: {point.name}: {figures}")
        return {**result, "changed": False, **answer}
