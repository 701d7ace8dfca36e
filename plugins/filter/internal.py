# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: internal
short_description: Join the plan and results for the collection's own playbooks and roles
version_added: 0.2.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Calls one of the functions that the file of this filter lists. Each says in the source what it takes and returns.
  - It is not for other playbooks, and changes with each release.
positional: _input, function
options:
  _input:
    description: The function's first argument. Its others follow the name.
    type: raw
    required: true
  function:
    description: The function's name.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show each host's public key
  ansible.builtin.debug:
    msg: "{{ hostvars | gb10.fleet.internal('by_host', ansible_play_hosts, 'identity', 'public_key') }}"
"""

RETURN = r"""
_value:
  description: The function's return value.
  type: raw
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils._base import layout
from ..module_utils._base.findings import ordered
from ..module_utils._base.ranks import elsewhere
from ..module_utils._base.reading import State
from ..module_utils._base.slice import Slice
from ..module_utils._host.joins.hosts import by_host, cable_ends, fabric_addresses, host_slice, whole_services
from ..module_utils._host.joins.services import changed_services, service_starts
from ..module_utils._operations.bench.burn_in import burn_in_order, burn_in_verdict
from ..module_utils._operations.bench.of_plan import bench_loads
from ..module_utils._operations.drift.questions import host_view
from ..module_utils._operations.pull.published import refused
from ..module_utils._operations.recover import copies, recovered
from ..module_utils._operations.undo.dependents import removal
from ..module_utils._operations.update.gate import unproved
from ..module_utils._operations.update.page import stopped
from ..module_utils._operations.verify.why import why
from ..module_utils._plan.described import explained
from ..module_utils._plan.inventory_files import inventory_folder
from ..module_utils._plan.preflight.earlier import upgrade
from ..module_utils._plan.preflight.needs import lets_others_in, made_elsewhere, obstacles, preflight
from ..module_utils._subjects.services.removals import findings, not_there
from ..module_utils._subjects.services.taken_back import forgotten, kept
from ..module_utils._subjects.services.undeclared import undeclared


def preflight_sentences(
    plan: Any,
    host: str,
    state: Any,
    others: Any = None,
    severity: str = "error",
    kept: Sequence[str] | None = None,
    retry: Sequence[str] = (),
    *,
    checking: bool = False,
) -> list[str]:
    """What a host can't carry of its slice of the plan, a sentence a problem.

    state: of `gb10.fleet.host_info`. others: the same of the other hosts of a service, by name; without them only what
    staging needs is judged. severity: error refuses this host, warning is only shown, run refuses the run on all its
    hosts, since it is the controller's. kept: those of ``needs.secrets`` that the controller has. A secret that only
    the host has, another controller has made; without the list nothing is said of them. retry: services that may be
    brought although they were taken back. checking: leave out what ends with the containers of others, so that a check
    shows what a run would change while these serve.
    """
    if not all(isinstance(given, Mapping) for given in (plan, state, others or {})):
        raise AnsibleFilterError(f"preflight takes maps, not {type(plan)}, {type(state)} and {type(others)}")
    if severity == "run":
        found = [*made_elsewhere(plan["needs"], state, kept), *lets_others_in(plan["peer_access"], state)]
        return [finding.sentence() for finding in found]
    in_the_way = obstacles(host, plan, state) if others is not None else []
    found = ordered([*preflight(plan["needs"], state, others), *in_the_way])
    found = [one for one in found if others is not None or one.rule != "preflight-port"]  # staging opens none
    found = [one for one in found if one.rule not in _ASKED_FOR or one.service not in retry]
    found = [one for one in found if not (checking and one.rule in _OTHERS_RUN)]
    # whoever reads this has given the password that sudo asks for
    return [one.sentence() for one in found if one.severity == severity and one.rule != "sudo-password"]


def run_record(run: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The file by which a host knows who changed it last. run: of `gb10.fleet.plan`."""
    return {layout.LAST_RUN: {"mode": "0644", "content": json.dumps(run, indent=2, sort_keys=True) + "\n"}}


# Of a service that the run was asked to bring.
_ASKED_FOR = ("service-taken-back", "service-restarts")
_OTHERS_RUN = ("preflight-port", "docker-restart")


def pull_refused(slice_: Slice, host: str, variables: Iterable[str]) -> list[str]:
    """What `gb10.fleet.publish` would refuse this host for. variables: the names of all that it has."""
    return [finding.sentence() for finding in refused(host, slice_, frozenset(variables))]


def undeclared_services(
    states: Mapping[str, Any], removed: Mapping[str, Any], alive: Sequence[str], severity: str = "error"
) -> list[str]:
    """What to report of services that nobody declares on these hosts; with the host's name where there are several.

    Those that the run removes, since it was asked to or they are declared on other hosts now, and those that another
    inventory wrote, are warnings. All others are errors. severity retired: what was to be removed and is nowhere.

    states: of `gb10.fleet.host_info`, by host. removed: what decides over them, ``removal`` of `gb10.fleet.plan`;
    nothing is found where it is empty. alive: the hosts that the run goes on with.
    """
    if not removed:
        return []
    run = {**removed, "alive": alive}
    if severity == "retired":
        return [finding.sentence() for finding in not_there(states, run)]
    return [
        f"{host}: {finding.sentence()}" if len(states) > 1 else finding.sentence()
        for host, state in states.items()
        for finding in findings(undeclared(state["our_units"] or (), host, run), run)
        if finding.severity == severity
    ]


def update_proof(mine: Slice, host: str, state: State, updates: Mapping[str, object]) -> list[str]:
    """What is wrong with a host that was updated and has restarted: what runs is not what was to run, or a fault that
    it had not before. mine: its slice. state: of `gb10.fleet.host_info`. updates: of `gb10.fleet.update_info`."""
    return [finding.sentence() for finding in ordered(unproved(host, mine, state, updates))]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "bench_loads": bench_loads,
    "burn_in_order": burn_in_order,
    "burn_in_verdict": burn_in_verdict,
    "by_host": by_host,
    "cable_ends": cable_ends,
    "changed_services": changed_services,
    "elsewhere": elsewhere,
    "explained": explained,
    "fabric_addresses": fabric_addresses,
    "host_slice": host_slice,
    "host_view": host_view,
    "inventory_folder": inventory_folder,
    "forgotten": forgotten,
    "preflight": preflight_sentences,
    "pull_refused": pull_refused,
    "copies": copies,
    "recovered": recovered,
    "removal": removal,
    "run_record": run_record,
    "service_starts": service_starts,
    "taken_back": kept,
    "undeclared_services": undeclared_services,
    "upgrade": upgrade,
    "update_proof": update_proof,
    "update_stopped": stopped,
    "whole_services": whole_services,
    "why": why,
}


def internal(given: object, function: str, *arguments: object, **options: object) -> Any:
    return FUNCTIONS[function](given, *arguments, **options)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"internal": internal}
