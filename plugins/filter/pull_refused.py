# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: pull_refused
short_description: Why a host can't be left to fetch its slice itself
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - What M(gb10.fleet.publish) would refuse this host for.
positional: _input, host, variables
options:
  _input:
    description: The host's slice of the plan.
    type: dict
    required: true
  host:
    description: The host's name in the inventory.
    type: str
    required: true
  variables:
    description: The names of the host's variables.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Refuse a host that needs the controller at each change
  gb10.fleet.findings:
    errors: "{{ fleet_slice | gb10.fleet.pull_refused(inventory_hostname, hostvars[inventory_hostname] | list) }}"
"""

RETURN = r"""
_value:
  description: One sentence a reason.
  type: list
  elements: str
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._operations.pull.published import refused


def pull_refused(slice_: Mapping[str, Any], host: str, variables: Iterable[str]) -> list[str]:
    return [one.sentence() for one in refused(host, slice_, frozenset(variables))]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"pull_refused": pull_refused}
