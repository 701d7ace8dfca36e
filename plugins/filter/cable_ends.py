# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: cable_ends
short_description: What of all readings the check of one host's cables goes by
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - The host's own reading, and the MAC addresses of the hosts that answered it or are declared to be at the other end,
    so that M(gb10.fleet.fabric_check) is given as much in a large fleet as in a small one.
positional: _input, host, interfaces
options:
  _input:
    description: By host what M(gb10.fleet.fabric_info) returned.
    type: dict
    required: true
  host:
    description: The host whose cables are to be checked.
    type: str
    required: true
  interfaces:
    description: Its C(interfaces) in its fabric slice of the plan.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Judge the fabric
  gb10.fleet.fabric_check:
    plan: "{{ fabric_plan }}"
    readings: "{{ readings | gb10.fleet.cable_ends(inventory_hostname, fabric_plan.interfaces) }}"
"""

RETURN = r"""
_value:
  description: As it came, with less in it.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.hosts import cable_ends


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cable_ends": cable_ends}
