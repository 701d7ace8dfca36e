# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: preflight
short_description: What a host can't carry of its slice of the plan
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description: Compares what the plan needs of a host with a reading of M(gb10.fleet.host_info).
positional: _input, host, state, others, severity, kept
options:
  _input:
    description: The host's slice of the plan, with its C(needs).
    type: dict
    required: true
  host:
    description: The host's name.
    type: str
    required: true
  state:
    description: The reading.
    type: dict
    required: true
  others:
    description:
      - The readings of the other hosts of a service, by name; without them only what staging needs is judged.
    type: dict
  severity:
    description:
      - Which problems, those that refuse this host (V(error)), those that are only shown (V(warning)), or those that
        refuse the run on all its hosts (V(run)), since they are its controller's.
    type: str
    choices: [error, warning, run]
    default: error
  kept:
    description:
      - Those of the secrets that the controller has (C(needs.secrets)). A secret that only the host has, another
        controller has made. Without the list nothing is said of them.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Show what is in the way
  ansible.builtin.debug:
    msg: "{{ fleet_plan.plan.hosts.titan | gb10.fleet.preflight('titan', reading.state) }}"
"""

RETURN = r"""
_value:
  description: One sentence a problem, with place and remedy.
  type: list
  elements: str
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import ordered
from ansible_collections.gb10.fleet.plugins.module_utils._plan.preflight.needs import (
    lets_others_in,
    made_elsewhere,
    obstacles,
    preflight,
)


def preflight_sentences(
    plan: Any, host: str, state: Any, others: Any = None, severity: str = "error", kept: Any = None
) -> list[str]:
    if not all(isinstance(given, Mapping) for given in (plan, state, others or {})):
        raise AnsibleFilterError(f"gb10.fleet.preflight takes maps, not {type(plan)}, {type(state)} and {type(others)}")
    if severity == "run":
        found = [*made_elsewhere(plan["needs"], state, kept), *lets_others_in(plan["peer_access"], state)]
        return [finding.sentence() for finding in found]
    in_the_way = obstacles(host, plan, state) if others is not None else []
    found = ordered([*preflight(plan["needs"], state, others), *in_the_way])
    return [finding.sentence() for finding in found if finding.severity == severity]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"preflight": preflight_sentences}
