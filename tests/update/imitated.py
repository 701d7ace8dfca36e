# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are a JSON file each, for the flow of gb10.fleet.update alone: who is cut off where, and what then.

Copied into a copy of the collection as a module util; the actions that reach a host there are the classes below. Real:
the playbook, Ansible, the plan, the judgement, the order, the proof. Imitated: everything on a host.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

KERNEL, NEXT = "6.17.0-1014-nvidia", "6.17.0-1021-nvidia"
STEPS = [{"action": "install", "package": f"linux-image-{NEXT}", "have": "", "version": "1"}]
NOTHING: dict[str, Any] = {"restart": False, "units": [], "seconds": {}, "figures": {}}


class Host(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    """has: the kernel that is installed; runs: that was booted; boot: which boot it is; up: whether services run."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        self.variables = task_vars or {}
        self.name = self.variables["inventory_hostname"]
        file = Path(os.environ["UPDATE_HOSTS"], self.name)
        new = {"has": KERNEL, "runs": KERNEL, "boot": 1, "up": True, "record": None}
        self.host: dict[str, Any] = json.loads(file.read_text()) if file.exists() else new
        before = json.dumps(self.host)
        answer = self.answer(self._task.args)
        file.write_text(json.dumps(self.host))
        if os.environ.get("UPDATE_CUT") == f"{self.name} {self._task.args.get('state')}":
            os.kill(os.getppid(), signal.SIGKILL)
        return {"changed": json.dumps(self.host) != before, **answer}

    def answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError


class HostUpdate(Host):
    def answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        state, record = arguments["state"], self.host["record"]
        if state == "refreshed" or (state == "restored" and record is None):
            return NOTHING
        if state == "absent":
            self.host["record"] = None
            return NOTHING
        boot = str(self.host["boot"])
        if state == "kept" and (record is None or record["stage"] == "kept"):
            judged = json.loads(json.dumps(arguments["judged"]))
            units = {*judged["units"], *(record["units"] if record else ())}
            record = {**judged, "units": sorted(units), "stage": "kept", "boot_id": boot, "begun_s": 1}
            record |= {"lost": [], "automatic": []}
        elif state == "installed" and record["stage"] == "kept":
            self.host["has"] = NEXT if record["steps"] else self.host["has"]
            record |= {"stage": "installed", "boot_id": boot}
        elif state == "restored" and record["stage"] == "installed":
            self.host["has"] = KERNEL
            record |= {"stage": "restored", "boot_id": boot}
        self.host["record"] = record
        restart = record["stage"] in ("installed", "restored") and record["boot_id"] == boot
        return {"restart": restart, **{key: record[key] for key in ("units", "seconds", "figures")}}


class Reboot(Host):
    def answer(self, _arguments: dict[str, Any]) -> dict[str, Any]:
        self.host |= {"boot": self.host["boot"] + 1, "runs": self.host["has"]}
        return {}


class UpdateInfo(Host):
    def answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        empty = dict.fromkeys(("why", "broken", "firmware_why", "record_why"), "")
        lists: dict[str, Any] = {name: [] for name in ("kept_back", "downgraded", "held", "lost")}
        return {
            "updates": {
                **empty,
                **lists,
                "boot_id": str(self.host["boot"]),
                "steps": STEPS if self.host["has"] == KERNEL else [],
                "installed": {},
                "kernels": sorted({KERNEL, self.host["has"]}),
                "firmware": None,
                "units": dict.fromkeys(arguments.get("units", ()), self.host["up"]),
                "took_s": None,
                "record": self.host["record"],
            }
        }


class HostInfo(Host):
    """UPDATE_BREAKS: hosts whose driver does not work with the new kernel."""

    def answer(self, _arguments: dict[str, Any]) -> dict[str, Any]:
        # of the unit tests' folder, which is on the path where this runs as a copy
        from drift_fleet import state_of  # noqa: PLC0415

        state = json.loads(json.dumps(state_of(self.variables["fleet_plan"]["plan"], self.name), default=str))
        state["gpu"] = {"present": False, "module": False, "users": 0}
        state["kernel"]["release"] = self.host["runs"]
        if self.host["runs"] == NEXT and self.name in os.environ.get("UPDATE_BREAKS", "").split():
            state["driver"] = None
        return {"state": state, "unknown": {}}


class RankInfo(Host):
    def answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        health = "serving" if self.host["up"] else "stopped"
        ranks = [{"service": one["name"], "rank": one["rank"], "health": health} for one in arguments["services"]]
        return {"ranks": [{**one, "supervisor": {"ready_s": 30.0}, "problems": []} for one in ranks]}


class ServiceReady(Host):
    """UPDATE_SLOWS: hosts that answer slowly with the new kernel."""

    def answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        slow = self.host["runs"] == NEXT and self.name in os.environ.get("UPDATE_SLOWS", "").split()
        seconds = 9.0 if slow else 0.3
        proof = {"state": "serving", "answer": "", "comparison": "", "problems": []}
        return {"failed": not self.host["up"], "service": arguments["service"]["name"], "seconds": seconds} | proof


class BenchServices(Host):
    """UPDATE_LIMPS: hosts whose services take twice as long for a token with the new kernel; UPDATE_BUSY: those that
    others ask."""

    def answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        # of the collection, which this file is copied into
        from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.form import BETTER  # noqa: PLC0415

        names = [*arguments["loads"]]
        if self.name in os.environ.get("UPDATE_BUSY", "").split():
            return {"figures": {}, "unmeasured": [f"{name} was not measured: others asked" for name in names]}
        slow = self.host["runs"] == NEXT and self.name in os.environ.get("UPDATE_LIMPS", "").split()
        each = {
            figure: [(2 if slow and figure == "next token ms" else 1) * (10 + round / 100) for round in range(6)]
            for figure in BETTER
        }
        return {"figures": {name: {"512 tokens x 4": each} for name in names}, "unmeasured": []}


class GatewayHold(Host):
    def answer(self, _arguments: dict[str, Any]) -> dict[str, Any]:
        return {}


class Services(Host):
    """In the place of the tasks that start and stop services."""

    def answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.host["up"] = arguments["services"]
        return {}


ACTIONS = {
    "host_update": HostUpdate,
    "imitated_reboot": Reboot,
    "update_info": UpdateInfo,
    "host_info": HostInfo,
    "rank_info": RankInfo,
    "service_ready": ServiceReady,
    "bench_services": BenchServices,
    "gateway_hold": GatewayHold,
    "imitated_services": Services,
}
