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
from ..plugin_utils._documented import Documented
from ..plugin_utils._screen import show


class ActionModule(Documented, Measuring):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        if self._task.check_mode:
            return UNMEASURED
        load, point = options["load"], Point(**options["point"])
        keys = ENGINES[load["engine"]].spec.load_goals
        asked = read_goal(options["goal"], [*keys])
        found: dict[str, list[float]] = {name: [] for name in asked.figures}
        seed = int(time.time())
        for number in range(options["rounds"] + 1):
            moved = self._execute_module(
                "gb10.fleet.service_trial",
                module_args={"service": load["service"], "seconds": options["limit_s"]},
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
        return {"changed": False, "figures": found}
