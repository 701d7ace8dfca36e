# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: bench_services
short_description: Run short speed measurements on a host's services
version_added: 0.1.0
description:
  - Measures each of them for a minute or two by the load generator of its own image. Nothing counts where others ask
    the service, before or during a measurement.
  - Never fails. A service that can't be measured answers with the reason.
extends_documentation_fragment:
  - gb10.fleet.attributes.measures
options:
  loads:
    description: The measurements to make, of C(bench_loads) of the filter P(gb10.fleet.internal#filter).
    type: dict
    required: true
attributes:
  action: {description: The controller checks the host's answer., support: full}
"""

EXAMPLES = r"""
- name: Measure the services that are compared with how fast they were
  gb10.fleet.bench_services:
    loads: "{{ fleet_plan.plan | gb10.fleet.internal('bench_loads', inventory_hostname, ['chat']) }}"
  become: true
  register: drift_bench
"""

RETURN = r"""
services:
  description: By name, C(seen) and C(results) of a service that was measured, else C(busy) or C(unknown) with why.
  returned: always
  type: dict
figures:
  description: By name, of each service that was measured, its figures by point, the values of all rounds.
  returned: always
  type: dict
unmeasured: {description: "Why the others were not, a sentence each.", returned: always, type: list, elements: str}
"""
