# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: update_proof
short_description: What is wrong with a host that was updated and has restarted
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Compares what runs with what was to run, and looks for faults that the host had not before.
positional: _input, host, state, updates
options:
  _input:
    description: The host's slice of the plan.
    type: dict
    required: true
  host:
    description: The host's name.
    type: str
    required: true
  state:
    description: C(state) of M(gb10.fleet.host_info).
    type: dict
    required: true
  updates:
    description: C(updates) of M(gb10.fleet.update_info).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Refuse a host that is not as it was to be
  gb10.fleet.findings:
    errors: "{{ fleet_slice | gb10.fleet.update_proof(inventory_hostname, look.state, found.updates) }}"
"""

RETURN = r"""
_value:
  description: One sentence a fault, with place and remedy.
  type: list
  elements: str
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import ordered
from ansible_collections.gb10.fleet.plugins.module_utils._operations.update.proof import unproved


def update_proof(mine: Mapping[str, Any], host: str, state: Mapping[str, Any], updates: Mapping[str, Any]) -> list[str]:
    return [one.sentence() for one in ordered(unproved(host, mine, state, updates))]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"update_proof": update_proof}
