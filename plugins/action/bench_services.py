# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.bench_services: measures services of a host shortly.

A service that can't be measured is an answer too: the task never fails, so that all else goes on.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleConnectionFailure

from ..module_utils._base.received import one_line
from ..module_utils._operations.bench.canary import ROUNDS
from ..module_utils._operations.bench.form import BusyError, NotWholeError, idle, values_of
from ..module_utils._operations.bench.sweep import Point, steps, words
from ..plugin_utils._asking import NoAnswerError
from ..plugin_utils._benchmarking import Measuring
from ..plugin_utils._documented import Documented

# Of all services of a host; a run that has begun is waited for.
_MOST_S = 1200.0


class ActionModule(Documented, Measuring):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        until = time.monotonic() + _MOST_S
        loads = {} if self._task.check_mode else options["loads"]
        # one after the other: the services of a host share it
        found = {name: self._measured(name, one, variables, until) for name, one in loads.items()}
        return {
            "changed": False,
            "services": found,
            "figures": {name: values_of(one["results"]) for name, one in found.items() if "results" in one},
            "unmeasured": [
                f"{name} was not measured: {one.get('busy') or one['unknown']}"
                for name, one in found.items()
                if "results" not in one
            ],
        }

    def _measured(self, name: str, given: Mapping[str, Any], variables: dict[str, Any], until: float) -> dict[str, Any]:
        load, points = given["load"], [Point(**point) for point in given["points"]]
        if not points:
            return {"unknown": "no prompt of a benchmark fits into its longest request"}
        try:
            look = self.look(load, variables)
            idle(look)
            results = []
            # each run takes more than a second: no later one has these prompts, and none is in a cache yet
            for step in steps([(name, variables["inventory_hostname"])], points, ROUNDS, int(time.time())):
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
