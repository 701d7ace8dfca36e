# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: fleet_table
type: aggregate
short_description: Print the table at the end of a run
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - After C(site.yml) and C(verify.yml) it prints a row for each host and service, with endpoint, model, context, KV
    pool, memory and state. The answer to one real request and the causes that stopped hosts follow.
  - After C(status.yml) it prints a row for each rank with health, tokens a second, KV use and memory, a row for each
    model of the gateway, and a paragraph for each problem with its remedy. With a problem, or a fault of this
    collection, C(ansible-playbook) ends with 2. If a host failed or could not be reached, Ansible's own code stays.
  - A callback also reports hosts that failed or could not be reached.
notes:
  - This collection's playbooks bring it. For playbooks of your own write C(callbacks_enabled = gb10.fleet.fleet_table).
"""

import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ansible import constants as C  # noqa: N812 - as Ansible calls it
from ansible.plugins.callback import CallbackBase

from ..module_utils._base.faults import Fault, guarded
from ..module_utils._base.findings import of_sudo
from ..module_utils._base.plan import Plan
from ..module_utils._base.reading import State
from ..module_utils._operations.verify.tables import Stopped, end_table, machine_shown, status_of, status_text
from ..plugin_utils._lease import at_work, is_over, this_work
from ..plugin_utils._screen import clean, show
from ..plugin_utils._status_page import keep, last_night, page

PROBLEMS = 2  # the exit code of a status that lists problems
# Tasks that only look: who is stopped by one of them has not been changed.
_BEFORE_CHANGES = re.compile(r"/roles/preflight/|/tasks/preflight\.yml")
# They refuse, and change nothing.
_REFUSING = ("gb10.fleet.findings", "gb10.fleet.lease", "gb10.fleet.rollout", "gb10.fleet.unconverged")
# They show what they found by themselves; what stops a benchmark says nothing of the service.
_OWN_TABLES = {"gb10.fleet.ask", "gb10.fleet.doctor", "gb10.fleet.bench", "gb10.fleet.publish"}
_STATUS = re.compile(r"/playbooks/status\.yml")
_WHY = re.compile(r"/playbooks/why\.yml")


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core carries no types
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gb10.fleet.fleet_table"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        clean()
        self._plan: Plan | None = None
        self._hosts: list[str] = []
        self._services: list[str] = []
        self._verified: dict[tuple[str, str], dict[str, Any]] = {}
        self._ranks: dict[tuple[str, str], dict[str, Any]] = {}
        self._stopped: dict[str, tuple[Stopped, str]] = {}
        self._removed: dict[tuple[str, str], str] = {}
        self._proved: set[str] = set()
        self._clients: dict[str, str] = {}
        self._gateways: dict[str, dict[str, Any]] = {}
        self._used: dict[str, dict[str, Any]] = {}
        self._frozen: dict[str, list[str]] = {}
        self._machines: dict[str, dict[str, str]] = {}
        self._leases: dict[str, dict[str, str]] = {}
        self._states: dict[str, State] = {}
        self._page = self._drift = self._observed = self._unwritten = ""
        self._is_status = False
        self._shows_ok = True

    def v2_playbook_on_start(self, playbook: object) -> None:
        self._shows_ok = C.config.get_config_value("display_ok_hosts", plugin_type="callback", plugin_name="default")

    def v2_playbook_on_play_start(self, play: Any) -> None:
        given = play.get_variable_manager().extra_vars
        self._page, self._drift = (str(given.get(name) or "") for name in ("page", "drift_folder"))

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        if task.resolved_action in _OWN_TABLES or _WHY.search(task.get_path() or ""):
            self._plan = None
        self._is_status = self._is_status or bool(_STATUS.search(task.get_path() or ""))

    def v2_runner_on_ok(self, result: Any) -> None:
        if not self._shows_ok and not result.result.get("changed"):
            self._handle_warnings(dict(result.result))  # Ansible's own callback passes over them with the line
        action = result.task.resolved_action
        if action == "gb10.fleet.plan":
            self._plan, self._hosts = result.result["plan"], result.result["chosen"]
            self._services, self._observed = result.result["services"], result.result["observed"]
        elif action == "gb10.fleet.rollout":
            self._services = result.result["services"]  # of others on these hosts nothing is known
        elif action == "gb10.fleet.service_ready":
            self._note(result.host.get_name(), result.result)
        elif action == "gb10.fleet.rank_info":
            self._ranks |= {(result.host.get_name(), rank["service"]): rank for rank in result.result["ranks"]}
            self._frozen[result.host.get_name()] = result.result["frozen"]
            if lease := result.result.get("lease"):
                self._leases[result.host.get_name()] = lease
        elif action == "gb10.fleet.host_info" and self._is_status and self._plan:
            host = result.host.get_name()
            if self._page:
                self._states[host] = result.result["state"]
            self._machines[host], problems = machine_shown(self._plan, host, result.result["state"])
            self._frozen[host] = [*self._frozen.get(host, ()), *problems]
        elif action == "gb10.fleet.gateway_ready" and "answers" in result.result:
            self._proved.add(result.host.get_name())
        elif action == "gb10.fleet.gateway_info":
            if result.result["gateway"]:
                self._gateways[result.host.get_name()] = result.result["gateway"]
            self._used |= {client["client"]: client for client in result.result["clients"]}
        elif action == "gb10.fleet.service_removal":
            word = "would be removed" if result.task.check_mode else "removed"
            self._removed |= {
                (result.host.get_name(), service["service"]): word for service in result.result["removed"]
            }

    def v2_runner_item_on_ok(self, result: Any) -> None:
        if result.task.resolved_action == "gb10.fleet.service_ready":
            self._note(result.host.get_name(), result.result)
        elif result.task.resolved_action == "gb10.fleet.gateway_ready" and "answers" in result.result:
            self._clients |= result.result["answers"]

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            why = _reason(result)
            not_seen: Stopped = "not read" if of_sudo(why) else "failed"
            refused = result.task.resolved_action in _REFUSING or _BEFORE_CHANGES.search(result.task.get_path())
            word: Stopped = "refused" if refused else not_seen
            self._stopped.setdefault(result.host.get_name(), (word, why))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._stopped.setdefault(result.host.get_name(), ("unreachable", _reason(result)))

    def v2_playbook_on_stats(self, stats: object) -> None:
        seen_any = (
            self._verified
            or self._ranks
            or self._removed
            or self._stopped
            or self._gateways
            or self._used
            or self._page
        )
        if self._plan is None or not seen_any:
            return
        [text] = guarded("", "the table", partial(self._tables, self._plan))
        is_ours = isinstance(text, Fault)
        if isinstance(text, Fault):  # Ansible would let it pass with a warning
            self._display.vvv(text.trace)
            text = f"the table: {text.why}"
        show(f"\n{text}\n")
        looked = (*self._ranks.values(), *self._gateways.values(), *self._used.values())
        if (
            self._is_status
            and not self._stopped
            and (is_ours or self._unwritten or any(self._frozen.values()) or any(look["problems"] for look in looked))
        ):
            raise SystemExit(PROBLEMS)

    def _tables(self, plan: Plan) -> Iterator[str]:
        if self._is_status:
            seen = (self._ranks, self._stopped, self._gateways, self._used, self._frozen, self._machines)
            status = status_of(plan, self._services, *seen)
            mine = this_work()
            busy = [f"{host}: {at_work(lease)}" for host, lease in self._leases.items() if not is_over(lease, mine)]
            if self._page:
                night = last_night(Path(self._drift or Path(self._observed).parent / "drift"))
                now = time.strftime("%Y-%m-%d %H:%M %Z")
                text = page(plan, self._hosts, status, self._states, night, now)
                self._unwritten = keep(Path(self._page).expanduser(), text)
            yield "\n\n".join(filter(None, (status_text(status), "\n".join(busy), self._unwritten)))
        else:
            done = (self._verified, self._ranks, self._stopped, self._removed, self._proved, self._clients)
            yield end_table(plan, self._services, self._hosts, *done)

    def _note(self, host: str, result: dict[str, Any]) -> None:
        if "service" in result:
            self._verified[host, result["service"]] = result
            # what a rollout saw of its ranks before it moved them
            before = {key: rank for key, rank in self._ranks.items() if key[1] == result["service"]}
            self._ranks |= {key: rank | {"problems": []} for key, rank in before.items()}


def _reason(result: Any) -> str:
    """What a failed task said, in a line; its first failed item where it was a loop; of a refusal a line a finding."""
    for item in result.result.get("results", []):
        if item.get("failed"):
            return " ".join(str(item.get("msg", "")).split())
    if result.task.resolved_action == "gb10.fleet.findings" and (refused := getattr(result, "exception", None)):
        event = refused.event
        while event.chain:  # Ansible's own words come before ours
            event = event.chain.event
        return str(event.msg)
    return " ".join(str(result.result.get("msg", "")).split())
