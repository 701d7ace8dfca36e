# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.bench: reads an earlier run, shows what was measured, and keeps it beside the inventory."""

import json
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base.findings import Finding
from ..module_utils._base.own_files import replace_file
from ..module_utils._operations.bench import of_plan
from ..module_utils._operations.bench.expected import kept_record, records, share_lines, with_run
from ..module_utils._operations.bench.form import MOST_BYTES, earlier
from ..module_utils._operations.bench.report import comparison, recipe_text, table, text_tables
from ..module_utils._operations.bench.share import against_recipe, shared
from ..plugin_utils._bench_page import page
from ..plugin_utils._documented import OnController
from ..plugin_utils._screen import refusal, show


class ActionModule(OnController):
    def act(self, given: dict[str, object], variables: dict[str, object]) -> dict[str, Any]:
        options = of_plan.completed(given)
        if options["measured"] is not None:
            return {"changed": False} if self._task.check_mode else _kept(options)
        names = of_plan.compared_services(options)
        _refuse(of_plan.unusable(options))
        if options["share"] and Path(options["share"]).exists():
            raise AnsibleActionFail(f"share: {options['share']} is there; expected a new file; do this: name another")
        if options["seen"] is None:
            return {"changed": False, "targets": [of_plan.target(options, name) for name in dict.fromkeys(names)]}
        _refuse(of_plan.incomparable(options, _before(options)))
        # each run takes more than a second: no later benchmark has these prompts, and none is in a cache yet
        order = of_plan.ordered_steps(options, int(time.time()))
        show(of_plan.announced(options, order))
        return {"changed": False, "steps": [] if self._task.check_mode else order}


def _kept(options: Mapping[str, Any]) -> dict[str, Any]:
    """The runs and their page, written when all of it is there."""
    folder = Path(options["folder"])
    before, new = _before(options), of_plan.finished_runs(options, datetime.now(UTC))
    runs, paired = [*([before] if before else []), *new], len(new) > 1
    found = of_plan.compared(runs, paired)
    for run in runs:
        show("\n".join([f"{run['name']}:", *table(run), *text_tables(run)]))
    if found:
        show("\n".join([f"{runs[1]['name']} against {runs[0]['name']}:", *comparison(found)]))
    own: dict[Path, str] = {}
    plan = options["plan"]
    known = records(plan)
    for run in new:
        name = run["service"]
        record = with_run(known.get(name), run)
        for line in share_lines(plan["services"][name]["speed"], record):
            show(line)
        if record:
            known[name] = record  # two runs of one service in one benchmark are both kept
            path, text = kept_record(plan, name, record)
            own[folder.parent / path] = text
    for line in against_recipe(new[-1], plan["services"][new[-1]["service"]]["measured"]):
        show(line)
    show("for measured in its recipe:\n" + recipe_text(runs[-1]))
    if options["share"]:
        own[Path(options["share"]).absolute()] = json.dumps(shared(new[-1], plan), indent=1) + "\n"
    written = {folder / f"{item['name']}.json": json.dumps(item, indent=1) + "\n" for item in new}
    html = folder / f"{runs[-1]['name']}.html"
    for file, content in {**written, **own, html: page(runs, found, paired)}.items():
        replace_file(file, content.encode())
    show(f"kept: {html}" + (f"; to share: {options['share']}" if options["share"] else ""))
    return {"changed": True, "runs": [str(path) for path in written], "page": str(html)}


def _before(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The earlier run that is compared with."""
    name, folder = of_plan.earlier_run(options), Path(options["folder"])
    if not name:
        return None
    path = folder / f"{name}.json"
    known = sorted(file.stem for file in folder.glob("*.json"))
    if name not in known:
        raise AnsibleActionFail(f'against: no service and no run "{name}"; kept are {", ".join(known) or "none yet"}')
    try:
        with path.open("rb") as stream:
            return earlier(stream.read(MOST_BYTES + 1), str(path))
    except (OSError, ValueError) as problem:
        raise AnsibleActionFail(f"{path} can't be compared with: {problem}; remove it, and measure again") from None


def _refuse(found: Iterable[Finding]) -> None:
    sentences = [finding.sentence() for finding in found]
    if sentences:
        raise refusal("\n".join(sentences), "refused, as named above: nothing was measured")
