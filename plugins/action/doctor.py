# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.doctor: readings and plan in, or one file; table and files out. Reaches no host."""

import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display

from ..module_utils._base.faults import Fault, guarded
from ..module_utils._base.findings import Finding, sentence
from ..module_utils._base.own_files import replace_file, unwritten
from ..module_utils._base.plan import Plan
from ..module_utils._base.reading import State
from ..module_utils._operations.doctor.bundle import as_text as bundle_text
from ..module_utils._operations.doctor.bundle import make_bundle, parse_bundle
from ..module_utils._operations.doctor.judge import Examined, examine, examine_file, silent, together
from ..module_utils._operations.doctor.text import as_text
from ..module_utils._operations.drift.compare import Reading, Result, compare
from ..module_utils._plan.text import WIDTH
from ..plugin_utils._documented import OnController
from ..plugin_utils._kept_secret import make_changing
from ..plugin_utils._screen import show, warn


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        errors: list[str] = []
        files: list[str] = []
        if options["source"]:
            hosts = [_from_file(Path(options["source"]).expanduser())]
        else:
            plan = options["plan"]
            errors = [sentence(finding) for finding in plan["findings"] if finding["severity"] == "error"]
            readings = {host: Reading.registered(variables["hostvars"], host) for host in options["hosts"]}
            hosts = _from_hosts(plan, readings)
            if not self._task.check_mode:
                files = self._write(Path(options["folder"]), hosts)
        for fault in (fault for host in hosts for fault in host.faults):
            Display().vvv(fault.trace, host=fault.host or None)
        width = max(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
        [text] = guarded("", "the text for this screen", lambda: [as_text(hosts, errors, files, width)])
        if isinstance(text, Fault):
            Display().vvv(text.trace)
            raise AnsibleActionFail(f"{text.part}: {text.why}")
        stopped = [host.host for host in hosts if host.verdict in ("stops you", "could not look")]
        in_the_way = bool(stopped or errors)
        show(f"\n{text}\n" if in_the_way or not options["brief"] else f"  nothing is in the way on {_named(hosts)}")
        result = {
            "changed": False,
            "verdicts": {host.host: host.verdict for host in hosts},
            "findings": {host.host: [finding.as_dict() for finding in host.findings] for host in hosts},
        }
        if in_the_way:
            what = f"{', '.join(stopped)} can't be converged as it is" if stopped else "the plan has errors"
            raise AnsibleActionFail(f"{what}: see above for each reason and its remedy", result=result)
        return result

    @staticmethod
    def _write(folder: Path, hosts: list[Examined]) -> list[str]:
        """What was found is shown, whether or not it can be kept."""
        written = []
        try:
            make_changing(folder)
            for host in hosts:
                if host.bundle is not None:
                    path = folder / f"{host.host}.json"
                    replace_file(path, bundle_text(host.bundle).encode())
                    written.append(str(path))
        except OSError as problem:
            warn(f"no file of a host is kept: {unwritten(problem, folder, 'a folder of yours', 'make it writable')}")
        return written


def _named(hosts: list[Examined]) -> str:
    return ", ".join(host.host for host in hosts)


def _from_file(path: Path) -> Examined:
    return examine_file(parse_bundle(path.read_bytes(), str(path)))


def _from_hosts(plan: Plan, readings: Mapping[str, Reading]) -> list[Examined]:
    states = {host: reading.state for host, reading in readings.items() if reading.state is not None}
    compared = compare(plan, readings, time.strftime("%Y-%m-%d", time.gmtime()))
    of_all = guarded("", "what hosts share", lambda: together(plan, states).items())
    faults = [
        *compared.faults,
        *(finding_or_fault for finding_or_fault in of_all if isinstance(finding_or_fault, Fault)),
    ]
    shared: dict[str, list[Finding]] = dict(
        finding_or_fault for finding_or_fault in of_all if not isinstance(finding_or_fault, Fault)
    )
    found = []
    for host, reading in sorted(readings.items()):
        if reading.state is None:
            found.append(silent(host, reading.why))
            continue
        bundle = guarded(host, "its file", partial(_bundle, host, plan, reading.state, reading.unknown, compared))
        found += [_examined(host, host_part, shared.get(host, [])) for host_part in bundle]
    return [replace(item, faults=tuple(_of(item, faults))) for item in found]


def _bundle(
    host: str, plan: Plan, state: State, unknown: Mapping[str, str], compared: Result
) -> Iterator[dict[str, Any]]:
    changes = sorted(
        {difference.place for difference in compared.differences if difference.host == host and difference.repairs}
    )
    yield make_bundle(host, plan, state, unknown, changes)


def _examined(host: str, bundle: dict[str, object] | Fault, shared: list[Finding]) -> Examined:
    if isinstance(bundle, Fault):
        return Examined(host, (), None, faults=(bundle,))
    bundle["together"] = [finding.as_dict() for finding in shared]
    return examine(bundle)


def _of(examined: Examined, faults: list[Fault]) -> Iterator[Fault]:
    """Its own, and those of the fleet that it is in; each once, whoever met it."""
    mine = [fault for fault in faults if fault.host in ("", examined.host) and examined.bundle is not None]
    yield from {(item.part, item.slip): item for item in (*mine, *examined.faults)}.values()
