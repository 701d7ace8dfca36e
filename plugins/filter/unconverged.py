# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: unconverged
short_description: Why hosts have to be converged
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - A host on which every role would find all as the plan says needs no role. Whatever is not certain is a reason.
  - Hosts that depend on each other have to be converged together.
positional: _input, plan, hosts, interfaces, staging
options:
  _input:
    description: By host C(compared) of M(gb10.fleet.host_info). A host without it is converged.
    type: dict
    required: true
  plan:
    description: The plan, as M(gb10.fleet.plan) returns it.
    type: dict
    required: true
  hosts:
    description: The hosts of the run.
    type: list
    elements: str
    required: true
  interfaces:
    description: By host whether M(gb10.fleet.netplan_apply) would change it, C(differs).
    type: dict
    default: {}
  staging:
    description: Only whether images or models have to be brought.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show which hosts differ
  ansible.builtin.debug:
    msg: "{{ {'titan': reading.compared} | gb10.fleet.unconverged(fleet_plan.plan, ['titan']) }}"
"""

RETURN = r"""
_value:
  description: The reasons, by host; none for a host that is as declared.
  type: dict
  sample: {titan: [], spark-2: ["unit docker.service: inactive (dead)"]}
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.utils.display import Display
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.unconverged import unconverged, unstaged


def converge_why(
    states: Mapping[str, Any],
    plan: Mapping[str, Any],
    hosts: Sequence[str],
    interfaces: Mapping[str, bool] | None = None,
    staging: bool = False,
) -> dict[str, list[str]]:
    read = {host: states.get(host) for host in hosts}
    note = Display().vvv
    return unstaged(plan, read, note) if staging else unconverged(plan, read, interfaces or {}, note)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"unconverged": converge_why}
