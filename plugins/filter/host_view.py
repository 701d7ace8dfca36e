# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: host_view
short_description: What of the plan a host's reading goes by
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Its own slice, and the little that is asked of the others. A task that is given the whole plan on each host takes as
    long as the square of the number of hosts.
positional: _input, host
options:
  _input:
    description: RV(gb10.fleet.plan#module:plan).
    type: dict
    required: true
  host:
    description: The host's name in the inventory.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Read the host
  gb10.fleet.drift_info:
    view: "{{ fleet_plan.plan | gb10.fleet.host_view(inventory_hostname) }}"
    folder: /var/lib/gb10-fleet/drift
  register: drift_reading
"""

RETURN = r"""
_value:
  description: C(slice), the host's, as docs/architecture.md lists it; C(addresses), those of all rails, where it has
    rails; C(weights_days), within how many days each file of weights is to be read.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.questions import host_view


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"host_view": host_view}
