# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.bench_load: what a host measured counts only if it is whole."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.gb10.fleet.plugins.module_utils._bench.form import ANSWER, measured
from ansible_collections.gb10.fleet.plugins.module_utils._bench.sweep import Point
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.plugin_utils._asking import Asking, NoAnswerError
from ansible_collections.gb10.fleet.plugins.plugin_utils._screen import show

_KEPT = "nothing of this benchmark was kept"


class ActionModule(Asking):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables)
        if self._task.check_mode:
            return result | {"changed": False, "skipped": True, "msg": "check mode: nothing was measured"}
        arguments = self._task.args
        point, service = arguments.get("point"), arguments["load"]["service"]
        keys = ENGINES[arguments["load"]["engine"]].spec.load_keys

        def used(answer: dict[str, Any]) -> dict[str, Any]:
            return {"seen": answer["seen"], **(measured(Point(**point), answer, keys) if point else {})}

        try:
            answer: dict[str, Any] = self.ask("gb10.fleet.bench_load", arguments, variables, ANSWER, used)
        except NoAnswerError as why:
            at = f" at {point['name']}" if point else ""
            raise AnsibleActionFail(
                f"{service} can't be measured{at}: {why}; {_KEPT}", result={"unread": True}
            ) from None
        if point:
            show(
                f"{service}: {point['name']}: "
                + ", ".join(f"{value:.4g} {name}" for name, value in answer["figures"].items())
            )
        return {**result, "changed": False, **answer}
