# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.bench_load: what a host measured counts only if it is whole."""

from typing import Any

from ..module_utils._operations.bench.form import NotWholeError
from ..module_utils._operations.bench.sweep import Point
from ..plugin_utils._asking import NoAnswerError
from ..plugin_utils._benchmarking import UNMEASURED, Measuring, not_whole, show_figures


class ActionModule(Measuring):
    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables)
        load, given = self._task.args["load"], self._task.args.get("point")
        if self._task.check_mode and given:
            return result | UNMEASURED
        point = Point(**given) if given else None
        try:
            answer = self.measure(load, point, variables) if point else self.look(load, variables)
        except (NoAnswerError, NotWholeError) as why:
            raise not_whole(load["service"], point, why) from None
        if point:
            show_figures(load["service"], point, answer["figures"])
        return {**result, "changed": False, **answer}
