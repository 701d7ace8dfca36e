# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a benchmark."""

from collections.abc import Mapping, Sequence

from ..module_utils._operations.bench.compare import WRONG, Difference
from ..module_utils._operations.bench.conditions import NAMES
from ..module_utils._operations.bench.report import LEFT, WIDTH, plots, recipe_text, span, tables, verdict_text
from ._page import rendered


def page(runs: Sequence[Mapping[str, object]], found: Sequence[Difference], paired: bool) -> str:
    """The whole page. runs: what is compared with first, where there is one. paired: whether they ran in turns."""
    return rendered(
        "playbooks/templates/bench.html.j2",
        runs=runs,
        found=[(item, span(item), verdict_text(item)) for item in found],
        paired=paired,
        wrong=round(1 / WRONG),
        names=NAMES,
        plots=plots(runs),
        tables=[(run["name"], rows) for run in runs for rows in tables(run)],
        width=WIDTH,
        left=LEFT,
        lines=recipe_text(runs[-1]),
    )
