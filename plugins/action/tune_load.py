# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.tune_load: each round moves the deadline by which the host puts back what served before."""

import time
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._engines.registry import ENGINES
from ..module_utils._operations.bench.form import BusyError, NotWholeError
from ..module_utils._operations.bench.sweep import Point, words
from ..module_utils._operations.tune.goal import figures_of, read_goal
from ..plugin_utils._asking import NoAnswerError
from ..plugin_utils._benchmarking import UNMEASURED, Measuring
from ..plugin_utils._screen import show


class ActionModule(Measuring):
    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables)
        if self._task.check_mode:
            return result | UNMEASURED
        load, point = self._task.args["load"], Point(**self._task.args["point"])
        keys = ENGINES[load["engine"]].spec.load_goals
        asked = read_goal(self._task.args["goal"], [*keys])
        found: dict[str, list[float]] = {name: [] for name in asked.figures}
        seed = int(time.time())
        for number in range(int(self._task.args["rounds"]) + 1):
            moved = self._execute_module(
                "gb10.fleet.service_trial",
                module_args={"service": load["service"], "seconds": self._task.args["limit_s"]},
                task_vars=variables,
            )
            if moved.get("failed"):
                raise AnsibleActionFail(f"{load['service']} can't be measured: {moved.get('msg')}")
            try:
                answer = self.measure({**load, "words": words(load, point, seed + number)}, point, variables)
                figures = figures_of(answer["raw"], answer["figures"], asked, keys)
            except (NoAnswerError, NotWholeError, ValueError) as why:
                busy = isinstance(why, BusyError)
                raise AnsibleActionFail(f"{load['service']} can't be measured: {why}", result={"busy": busy}) from None
            if number:
                for name, value in figures.items():
                    found[name].append(value)
        show(", ".join(f"{name} {' '.join(f'{value:.4g}' for value in values)}" for name, values in found.items()))
        return {**result, "changed": False, "figures": found}
