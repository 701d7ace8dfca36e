# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.rank_info: what a host says of its ranks, in bounds, and judged."""

from typing import Any

from ..module_utils._base.forms import forms
from ..module_utils._operations.verify.artifact import of_ranks
from ..module_utils._operations.verify.ranks import frozen
from ..module_utils._operations.verify.tables import rank_shown
from ..plugin_utils._asking import Answering


class ActionModule(Answering):
    FORM = forms("verify")["ranks"]

    @staticmethod
    def used(answer: dict[str, Any]) -> dict[str, Any]:
        ranks = []
        for rank in answer["ranks"]:
            row, problems = rank_shown(rank["service"], rank["rank"], "", rank, "")
            ranks.append({**rank, "health": row["health"], "problems": problems})
        idle = [problem.sentence() for problem in frozen(answer["frozen"])]
        return {**answer, "ranks": ranks, "frozen": idle, **of_ranks(ranks)}
