# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.bench: decides what is measured, compares it, and keeps it beside the inventory."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import Finding, error
from ansible_collections.gb10.fleet.plugins.module_utils._base.own_files import replace_file
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._base.ranks import head_of
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.compare import LEAST, Difference, differences
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.conditions import (
    NAMES,
    conditions,
    differing,
    other_profile,
    unlike,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.form import BETTER, MOST_BYTES, earlier
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.owner import owner_points
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.report import (
    comparison,
    recipe_text,
    table,
    text_tables,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.sweep import (
    DEFAULTS,
    Point,
    points,
    problems,
    services_of,
    steps,
    words,
    wrong_points,
)
from ansible_collections.gb10.fleet.plugins.modules.bench import DOCUMENTATION
from ansible_collections.gb10.fleet.plugins.plugin_utils._argument_spec import documented
from ansible_collections.gb10.fleet.plugins.plugin_utils._bench_page import page
from ansible_collections.gb10.fleet.plugins.plugin_utils._benchmarking import head, load_of, run_of
from ansible_collections.gb10.fleet.plugins.plugin_utils._screen import refusal, show


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars or {})
        _checked, options = self.validate_argument_spec(documented(DOCUMENTATION))
        result["changed"] = False
        options |= {key: value for key, value in DEFAULTS[options["profile"]].items() if options[key] is None}
        if options["measured"] is not None:
            return result if self._task.check_mode else result | self._kept(options)
        names = services_of(options["plan"], options["service"], options["against"])
        _refuse(_unusable(options, names))
        if options["seen"] is None:
            return result | {"targets": [_target(options, name) for name in dict.fromkeys(names)]}
        before = self._before(options, names)
        found = _points(options, names)
        _refuse(_incomparable(options, names, before, found))
        # each run takes more than a second: no later benchmark has these prompts, and none is in a cache yet
        sides = [(name, head(options["plan"], name)) for name in names]
        order = steps(sides, found, options["rounds"], int(time.time()))
        sent = ", ".join(point.name for point in found)
        show(
            f"{len(order)} runs of {' and '.join(dict.fromkeys(names))}: {sent}, each in {options['rounds']} rounds "
            "and one to warm up; nobody else may ask meanwhile"
        )
        targets = {name: _target(options, name) for name in names}
        return result | {
            "steps": [
                {
                    **asdict(step),
                    "load": {**targets[step.service]["load"], "words": words(targets[step.service]["load"], *sent)},
                    "owner": targets[step.service]["owner"],
                }
                for step in ([] if self._task.check_mode else order)
                for sent in [(step.point, step.seed)]
            ]
        }

    @staticmethod
    def _before(options: Mapping[str, Any], names: list[str]) -> dict[str, Any] | None:
        """The earlier run that is compared with; None for a service, and without any."""
        against = options["against"]
        return _read(Path(options["folder"]), against) if against and len(names) == 1 else None

    def _kept(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The runs and their page, written when all of it is there."""
        plan, folder = options["plan"], Path(options["folder"])
        names = services_of(plan, options["service"], options["against"])
        now = datetime.now(UTC)
        before = self._before(options, names)
        runs = [before] if before else []
        done = list(zip(options["steps"], options["measured"], strict=True))
        for side, name in enumerate(names, 2 - len(names)):
            own = [
                {**answer, "point": Point(**step["point"]), "round": step["round"]}
                for step, answer in done
                if step["side"] == side
            ]
            title = f"{name}-{now:%Y%m%d-%H%M%S}{'-before' if len(names) > 1 and not side else ''}"
            runs.append(run_of(plan, name, title, now, options["seen"][name], own, options["profile"]))
        found = _compared(runs, len(names) > 1)
        _show(runs, found)
        written = {
            folder / f"{one['name']}.json": json.dumps(one, indent=1) + "\n" for one in runs if one is not before
        }
        html = folder / f"{runs[-1]['name']}.html"
        for path, text in {**written, html: page(runs, found, len(names) > 1)}.items():
            replace_file(path, text.encode())
        show(f"kept: {html}")
        return {"changed": True, "runs": [str(path) for path in written], "page": str(html)}


def _compared(runs: list[dict[str, Any]], paired: bool) -> list[Difference]:
    if len(runs) == 1:
        return []
    first, second = (one["values"] for one in runs)
    return differences(first, second, BETTER, paired)


def _show(runs: list[dict[str, Any]], found: list[Difference]) -> None:
    for one in runs:
        show("\n".join([f"{one['name']}:", *table(one), *text_tables(one)]))
    if found:
        show("\n".join([f"{runs[1]['name']} against {runs[0]['name']}:", *comparison(found)]))
    show("for measured in its recipe:\n" + recipe_text(runs[-1]))


def _target(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What is asked of the host of an endpoint, and what llama-benchy is given on this machine."""
    plan = options["plan"]
    slice_, service = head_of(plan, name), plan["services"][name]
    owner = {
        "url": options["endpoint"] or service["endpoint"],
        "served": service["served_name"],
        "key": slice_["key"]["source"] if slice_["key"] else "",
        "authority": (slice_["tls"] or {}).get("ca") or "",
        "model": slice_["models"][0],
    }
    return {"service": name, "host": head(plan, name), "load": load_of(plan, name), "owner": owner}


def _points(options: Mapping[str, Any], names: list[str]) -> list[Point]:
    """Those that all of them hold."""
    pools = [options["plan"]["services"][name]["kv"] for name in names]
    contexts = [pool["context"] for pool in pools if pool["context"] is not None]
    most = [pool["max_concurrency"] for pool in pools if pool["max_concurrency"] is not None]
    lengths = (min(contexts, default=None), min(most, default=None))
    if options["profile"] == "owner":
        return owner_points(lengths[0], options["prompts"], options["depths"], options["answer"])
    closed = (options["prompts"], options["concurrency"], options["answer"])
    return points(*lengths, *closed, options["depths"], options["rates"], options["images"])


def _unusable(options: Mapping[str, Any], names: list[str]) -> Iterable[Finding]:
    yield from problems(
        options["plan"], names, options["hosts"], {name: engine.spec.load for name, engine in ENGINES.items()}
    )
    yield from wrong_points(options)
    if options["endpoint"] and len({*names}) > 1:
        yield error(
            "bench-endpoint",
            "endpoint",
            found=f"one for {' and '.join(names)}",
            expected="each service's own, where two are compared",
            remedy="leave it out, or measure one after the other and compare with the earlier run",
        )
    if options["rounds"] < LEAST:
        yield error(
            "bench-rounds", "rounds", found=str(options["rounds"]), expected=f"at least {LEAST}", remedy="leave it out"
        )
    for name in options["changed"]:
        if name not in NAMES:
            yield error("bench-changed", "changed", found=name, expected=", ".join(NAMES), remedy="write one of them")


def _incomparable(
    options: Mapping[str, Any], names: list[str], before: Mapping[str, Any] | None, found: list[Point]
) -> Iterable[Finding]:
    if not found:
        yield error(
            "bench-points",
            Place(service=names[-1]),
            found="no prompt fits into its longest request",
            expected=f"room for {min(options['prompts'])} tokens and {options['answer']} answered",
            remedy="write shorter ones, -e prompts=256",
        )
    now = {
        name: conditions(options["plan"]["services"][name], head_of(options["plan"], name), options["seen"][name])
        for name in names
    }
    if before:
        yield from other_profile(options["profile"], before)
        yield from differing(before["conditions"], now[names[-1]], options["changed"], before["name"])
        yield from unlike([asdict(point) for point in found], before["points"], before["name"])
    elif len(names) > 1:
        yield from differing(now[names[0]], now[names[1]], options["changed"], names[0])


def _read(folder: Path, name: str) -> dict[str, Any]:
    path = folder / f"{name}.json"
    known = sorted(one.stem for one in folder.glob("*.json"))
    if name not in known:
        raise AnsibleActionFail(f'against: no service and no run "{name}"; kept are {", ".join(known) or "none yet"}')
    try:
        with path.open("rb") as stream:
            return earlier(stream.read(MOST_BYTES + 1), str(path))
    except (OSError, ValueError) as problem:
        raise AnsibleActionFail(f"{path} can't be compared with: {problem}; remove it, and measure anew") from None


def _refuse(found: Iterable[Finding]) -> None:
    sentences = [one.sentence() for one in found]
    if sentences:
        raise refusal("\n".join(sentences), "refused, as named above: nothing was measured")
