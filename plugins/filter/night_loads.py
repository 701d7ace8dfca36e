# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: night_loads
short_description: What a drift check measures on a host
version_added: 0.2.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Of each service of C(fleet_drift.benchmark) whose endpoint is on the host, how it is asked and what. A task that is
    given the whole plan on each host takes as long as the square of the number of hosts.
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
  service:
    description: This service alone, if it is one of them; empty for all.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Measure the services that are compared with how fast they were
  gb10.fleet.drift_bench:
    loads: "{{ fleet_plan.plan | gb10.fleet.night_loads(inventory_hostname) }}"
  become: true
  register: drift_bench
"""

RETURN = r"""
_value:
  description: By service, C(load), what the host is given to measure it, and C(points), what is sent; none where no
    prompt fits into its longest request.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.plugin_utils._benchmarking import night_loads


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"night_loads": night_loads}
