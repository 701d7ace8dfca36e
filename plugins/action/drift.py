# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.drift: readings and plan in, verdict and reports out; runs on the controller, reaches no host.

A run on the whole fleet keeps its history and writes the reports; a limited one only shows what it found.
"""

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ansible.utils.display import Display

from ..module_utils._base import own_files
from ..module_utils._base.faults import fault_of
from ..module_utils._base.findings import Difference
from ..module_utils._base.own_files import replace_file
from ..module_utils._base.plan import Plan
from ..module_utils._base.subject import Unknown
from ..module_utils._operations.bench.canary import name_of, night, skipped
from ..module_utils._operations.bench.expected import judged, kept_record, records, with_run
from ..module_utils._operations.bench.form import earlier
from ..module_utils._operations.bench.of_plan import head, run_of, watched
from ..module_utils._operations.bench.sweep import Point
from ..module_utils._operations.drift.compare import EXIT_CODES, Reading, compare
from ..module_utils._operations.drift.document import Document, History
from ..module_utils._operations.drift.formats import junit, prometheus
from ..module_utils._operations.drift.history import parse, remember
from ..module_utils._operations.drift.report import as_json, as_text, report, summary
from ..module_utils._plan.choice import split_by_limit
from ..plugin_utils._documented import OnController
from ..plugin_utils._drift_page import page
from ..plugin_utils._kept_secret import make_changing
from ..plugin_utils._screen import show, warn

HISTORY = "history.json"
HOOK_SECONDS = 60
T = TypeVar("T")


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        plan, folder, at = options["plan"], Path(options["folder"]), time.time()
        hosts = _asked(plan, options["hosts"], options["service"])
        for one in split_by_limit(plan, [*plan["services"]], options["hosts"]):
            warn(f"the ranks of a service were not compared, since this run {one.found}; {one.remedy}")
        readings = {host: Reading.registered(variables["hostvars"], host) for host in hosts}
        now = time.gmtime(at)
        self._faults = 0
        nothing: list[Difference | Unknown] = []
        speeds = self._whole("speeds", lambda: self._speeds(plan, options, variables["hostvars"], hosts), nothing)
        history = own_files.read(folder / HISTORY, parse, self._note) or parse(b"{}")
        shown_now = time.strftime("%Y-%m-%dT%H:%M:%SZ", now)
        compared = compare(plan, readings, time.strftime("%Y-%m-%d", now), options["service"], speeds)
        for fault in compared.faults:
            Display().vvv(fault.trace, host=fault.host)
        before: tuple[History, list[str]] = (history, [])
        day = int(at // 86400)
        after, new = self._whole("history", lambda: remember(history, compared, readings, shown_now, day), before)
        document = report(compared, after["since"], shown_now)
        success = int(at) if compared.verdict != "unknown" else history["last_success"]
        after["last_success"] = success
        files = self._files(document, after, int(at))
        if {*hosts} == {*plan["hosts"]} and not options["service"] and not self._task.check_mode:
            problem = _write(folder, files)
            if problem:  # what was found is shown all the same
                self._note(problem)
            if new and plan["drift"]["hook"]:
                _call_hook(plan["drift"]["hook"], {**document, "new": new})
        as_shown = as_json if options["format"] == "json" else as_text
        show("\n" + self._whole("the text for this screen", lambda: as_shown(document), summary(document)) + "\n")
        verdict = "unknown" if self._faults and compared.verdict == "clean" else compared.verdict
        return {"changed": False, "verdict": verdict, "exit_code": EXIT_CODES[verdict]}

    def _whole(self, part: str, make: Callable[[], T], otherwise: T) -> T:
        """What is made; where a fault of ours is met, that is said, and what else there is goes on."""
        try:
            return make()
        except Exception as problem:  # whatever it is: what was found is shown all the same
            fault = fault_of(problem, "", part)
            self._faults += 1
            self._note(f"{part}: {fault.why}")
            Display().vvv(fault.trace)
            return otherwise

    def _files(self, document: Document, history: History, at: int) -> dict[str, str]:
        """The reports and the history, by the names of their files; without those in which a fault of ours is met."""
        makes = {
            "report.json": lambda: as_json(document),
            "report.html": lambda: page(document, history["nights"]),
            "junit.xml": lambda: junit(document),
            "gb10_drift.prom": lambda: prometheus(document, at, history["last_success"]),
            HISTORY: lambda: json.dumps(history, indent=1, sort_keys=True) + "\n",
        }
        made = {name: self._whole(name, make, "") for name, make in makes.items()}
        return {name: text for name, text in made.items() if text}

    def _speeds(
        self, plan: Plan, options: Mapping[str, Any], hostvars: Any, hosts: list[str]
    ) -> list[Difference | Unknown]:
        """What the benchmarks of services say. Keeps those that later nights are compared with."""
        found: list[Difference | Unknown] = []
        known = records(plan)
        names = watched(plan, options["service"])
        for host in hosts if options["speeds"] else ():
            answer = (hostvars.raw_get(host).get("drift_bench") or {}).get("services")
            if answer is None and any(head(plan, name) == host for name in names):
                found.append(Unknown(host, "speed of its services", "not measured in time"))
            for name, measured in (answer or {}).items():
                if "results" not in measured:
                    busy = measured.get("busy")
                    part = f"speed of {name}"
                    found.append(skipped(host, name, busy) if busy else Unknown(host, part, measured["unknown"]))
                    continue
                done = [{**result, "point": Point(**result["point"])} for result in measured["results"]]
                tonight = run_of(plan, name, name_of(name), datetime.now(UTC), measured["seen"], done)
                if record := with_run(known.get(name), tonight):
                    known[name] = record
                    file, text = kept_record(plan, name, record)
                    self._keep(Path(options["speeds"]).parent / file, text)
                path = Path(options["speeds"]) / f"{name_of(name)}.json"
                kept = own_files.read(path, partial(earlier, what=path.name), self._note)
                judged_night = night(host, name, kept, tonight, plan["drift"]["slower_percent"])
                found += judged_night.findings
                if judged_night.keep:
                    self._keep(path, json.dumps(tonight, indent=1) + "\n")
        return [*found, *(judged(plan, known) if options["speeds"] else ())]

    def _keep(self, path: Path, text: str) -> None:
        """What was found is shown, whether or not it can be kept."""
        try:
            replace_file(path, text.encode())
        except OSError as problem:
            self._note(own_files.unwritten(problem, path, "a file of yours", "make it writable"))

    def _note(self, sentence: str) -> None:
        warn(sentence)


def _asked(plan: Plan, hosts: list[str], service: str) -> list[str]:
    """The hosts of this run; of one service, those that it stands on."""
    mine = plan["services"][service]["hosts"] if service else hosts
    return sorted({*hosts} & {*mine})


def _write(folder: Path, files: Mapping[str, str]) -> str:
    """A sentence when they can't be written, else an empty string."""
    try:
        make_changing(folder)
        for name, text in files.items():
            replace_file(folder / name, text.encode())
    except OSError as problem:
        return f"the reports can't be written: {problem}; make {folder} a folder with room"
    return ""


def _call_hook(hook: list[str], document: Mapping[str, object]) -> None:
    """Give the report to the owner's program. It may fail without hurting the check."""
    try:
        done = subprocess.run(
            hook, input=as_json(document), text=True, capture_output=True, check=False, timeout=HOOK_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        warn(f"fleet_drift.hook: {error}")
    else:
        if done.returncode:
            warn(f"fleet_drift.hook: {hook[0]} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
