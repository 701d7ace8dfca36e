# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.update: decides on the controller, by the plan and by what hosts say."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..module_utils._base.findings import Finding, ordered
from ..module_utils._base.subject import PreflightContext
from ..module_utils._operations.update.gate import apart, faults, name, problems
from ..module_utils._operations.update.order import groups_of, next_of, services_of, steps, wanting
from ..module_utils._operations.update.page import changes, page
from ..module_utils._operations.update.result import Result, result, running
from ..plugin_utils._documented import OnController
from ..plugin_utils._screen import refusal, show, warn


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        plan, here, found = options["plan"], options["hosts"], options["found"]
        groups = groups_of(plan)
        looks = {host: PreflightContext(host, plan["hosts"][host], options["states"][host]) for host in found}
        wanted = {
            host: next_of(one["record"], one["boot_id"])
            for host, one in found.items()
            if wanting(one, _waits(looks[host].state), bool(options["firmware"]))
        }
        results = {host: result(looks[host].state, found[host], bool(options["firmware"])) for host in found}
        self._judge(options, looks, results, wanted, groups)
        gateways = [host for host in (plan["gateway"] or {"hosts": []})["hosts"] if host in here]
        took = [item["took_s"] for item in found.values() if item["took_s"] is not None]
        order = steps(
            groups,
            wanted,
            services_of(plan, options["ranks"], bool(gateways)),
            gateways,
            max(took, default=None),
            options["together"],
        )
        lines = {
            host: changes(found[host], running(looks[host].state), results[host], bool(options["firmware"]))
            for host in wanted
        }
        show(page(lines, wanted, order, sorted(found.keys() - wanted.keys())))
        return {
            "changed": self._task.check_mode and bool(order),
            "steps": [] if self._task.check_mode else [asdict(step) for step in order],
            "judged": {host: _judged(looks[host], found[host], results[host], options) for host in found},
            "gateways": gateways,
        }

    @staticmethod
    def _judge(
        options: Mapping[str, Any],
        looks: Mapping[str, PreflightContext],
        results: Mapping[str, Result],
        wanted: Mapping[str, Any],
        groups: Sequence[Sequence[str]],
    ) -> None:
        """Whatever is wrong with any host, before the first change of one."""
        judged: dict[str, list[Finding]] = {"": [*apart(groups, results)]}
        for host in options["found"]:
            # a host that is put back needs no judgement of what it goes back from
            if wanted.get(host) != "put back":
                judged[host] = [*problems(looks[host], options["found"][host], results[host], options["firmware"])]
        for host, found in sorted(judged.items()):
            for finding in ordered(found):
                if finding.severity == "warning":
                    warn(f"{host}: {finding.sentence()}")
        _refuse({host: [finding for finding in found if finding.severity == "error"] for host, found in judged.items()})


def _judged(
    look: PreflightContext, found: Mapping[str, Any], after: Result, options: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "steps": found["steps"],
        "firmware": bool(options["firmware"] and found["firmware"]),
        "units": sorted(unit for unit, runs in found["units"].items() if runs),
        "expected": {"kernel": after.kernel, "driver": after.driver},
        "known": sorted({name(fault) for fault in faults(look.host, look.slice, look.state)}),
    }


def _waits(state: Mapping[str, Any]) -> bool:
    return bool((state.get("kernel") or {}).get("reboot_required"))


def _refuse(found: Mapping[str, Iterable[Finding]]) -> None:
    sentences = [
        f"{host}: {finding.sentence()}" if host else finding.sentence()
        for host, some in sorted(found.items())
        for finding in ordered(some)
    ]
    if sentences:
        raise refusal("\n".join(sentences), "refused, as named above: nothing was changed")
