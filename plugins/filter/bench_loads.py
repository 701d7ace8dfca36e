# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: bench_loads
short_description: How services of a host are measured shortly
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Of each of these services whose endpoint is on the host, how it is asked and what. A task that is given the whole
    plan on each host takes as long as the square of the number of hosts.
positional: _input, host, services
options:
  _input:
    description: RV(gb10.fleet.plan#module:plan).
    type: dict
    required: true
  host:
    description: The host's name in the inventory.
    type: str
    required: true
  services:
    description: Names of services of the plan.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Measure the services that are compared with how fast they were
  gb10.fleet.bench_services:
    loads: "{{ fleet_plan.plan | gb10.fleet.bench_loads(inventory_hostname, fleet_plan.plan.drift.benchmark) }}"
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

from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.of_plan import bench_loads


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"bench_loads": bench_loads}
