# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: host_slice
short_description: A host's slice of the plan
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Of its services, those that the run is about.
positional: _input, host
options:
  _input:
    description: What M(gb10.fleet.plan) returned.
    type: dict
    required: true
  host:
    description: The host's name in the inventory.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Hand each host its slice
  ansible.builtin.set_fact:
    fleet_slice: "{{ fleet_plan | gb10.fleet.host_slice(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: The slice, as docs/architecture.md lists it.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.hosts import host_slice


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"host_slice": host_slice}
