# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.rollout: decides on the controller, by the plan and by what hosts say of their ranks."""

from dataclasses import asdict
from typing import Any

from ..module_utils._base.findings import Finding
from ..module_utils._operations.rollout.steps import chosen, obstacles, page, replicas_of, steps
from ..plugin_utils._documented import OnController
from ..plugin_utils._screen import refusal, show


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        plan, here = options["plan"], options["hosts"]
        services, problems = chosen(plan, options["service"], here)
        _refuse(problems)
        hosts = sorted({host for name in services for host in plan["services"][name]["hosts"]})
        gateways = [host for host in (plan["gateway"] or {"hosts": []})["hosts"] if host in here]
        result = {"changed": False, "services": services, "hosts": hosts, "gateways": gateways}
        if options["ranks"] is None:
            return result
        replicas = replicas_of(plan, services, options["ranks"])
        _refuse(obstacles(replicas))
        offered = plan["gateway"]["models"] if gateways else []
        backend = next((row["services"][0] for row in offered if services[0] in row["services"]), None)
        order = steps(replicas, backend)
        show(page(replicas, order))
        shared = {
            replica.service: {"definition": replica.wanted, "start": replica.start, "hosts": replica.hosts}
            for replica in replicas
        }
        return result | {"steps": [asdict(step) for step in order], "replicas": shared}


def _refuse(problems: Any) -> None:
    found: list[Finding] = [*problems]
    if found:
        raise refusal(
            "\n".join(finding.sentence() for finding in found), "refused, as named above: nothing was changed"
        )
