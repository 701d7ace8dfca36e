# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.drift_bench: measures services of a host for a drift check.

A service that can't be measured is an answer too: the task never fails, so that all else is compared.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gb10.fleet.plugins.module_utils._bench.canary import ROUNDS, night_points
from ansible_collections.gb10.fleet.plugins.module_utils._bench.form import BusyError, NotWholeError, idle
from ansible_collections.gb10.fleet.plugins.module_utils._bench.sweep import steps, words
from ansible_collections.gb10.fleet.plugins.module_utils._transfer.received import one_line
from ansible_collections.gb10.fleet.plugins.modules.drift_bench import DOCUMENTATION
from ansible_collections.gb10.fleet.plugins.plugin_utils._argument_spec import documented
from ansible_collections.gb10.fleet.plugins.plugin_utils._asking import NoAnswerError
from ansible_collections.gb10.fleet.plugins.plugin_utils._benchmarking import Measuring, head, load_of, watched

# Of all services of a host; a run that has begun is waited for.
_MOST_S = 1200.0


class ActionModule(Measuring):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables)
        _checked, options = self.validate_argument_spec(documented(DOCUMENTATION))
        plan, host = options["plan"], variables["inventory_hostname"]
        until = time.monotonic() + _MOST_S
        names = [name for name in watched(plan, options["service"]) if head(plan, name) == host]
        if self._task.check_mode:
            names = []
        # one after the other: the services of a host share it
        found = {name: self._measured(plan, name, variables, until) for name in names}
        return result | {"changed": False, "services": found}

    def _measured(self, plan: Mapping[str, Any], name: str, variables: dict[str, Any], until: float) -> dict[str, Any]:
        points = night_points(plan["services"][name]["kv"])
        if not points:
            return {"unknown": "no prompt of a benchmark fits into its longest request"}
        try:
            load = load_of(plan, name)
            look = self.look(load, variables)
            idle(look)
            results = []
            # each run takes more than a second: no later one has these prompts, and none is in a cache yet
            for step in steps([(name, head(plan, name))], points, ROUNDS, int(time.time())):
                if time.monotonic() > until:
                    return {"unknown": f"the services of this host took more than {_MOST_S // 60:.0f} minutes"}
                done = self.measure({**load, "words": words(load, step.point, step.seed)}, step.point, variables)
                results.append({**done, "point": asdict(step.point), "round": step.round})
        except BusyError as why:
            return {"busy": str(why)}
        except AnsibleConnectionFailure as error:
            return {"unknown": one_line(f"unreachable: {error}".partition("\n")[0])}
        except (NoAnswerError, NotWholeError) as why:
            return {"unknown": str(why)}
        return {"seen": look["seen"], "results": results}
