#!/usr/bin/python
# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drift_bench
short_description: Measure the services of a host for a drift check
version_added: 0.2.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Measures the services of C(fleet_drift.benchmark) whose endpoint is on this host, shortly, by the load generator of
    its own image. Nothing counts where others ask the service, before or meanwhile.
  - Never fails. A service that can't be measured answers with the reason.
extends_documentation_fragment:
  - gb10.fleet.attributes.measures
options:
  loads:
    description: What to measure, of the filter P(gb10.fleet.night_loads#filter).
    type: dict
    required: true
attributes:
  action:
    description: What a host answers is checked on the controller.
    support: full
"""

EXAMPLES = r"""
- name: Measure the services that are compared with how fast they were
  gb10.fleet.drift_bench:
    loads: "{{ fleet_plan.plan | gb10.fleet.night_loads(inventory_hostname) }}"
  become: true
  register: drift_bench
"""

RETURN = r"""
services:
  description: By name, C(seen) and C(results) of a service that was measured, else C(busy) or C(unknown) with why.
  returned: always
  type: dict
"""
