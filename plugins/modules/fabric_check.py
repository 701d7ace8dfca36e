# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: fabric_check
short_description: Compare a host's measured fabric with the plan
version_added: 0.1.0
description:
  - Compares the plan with the readings of M(gb10.fleet.fabric_info) and the result of M(gb10.fleet.fabric_bandwidth),
    on the controller. Fails when something is not as planned; what could not be proven is a warning.
  - Also what needs the other end of a cable can't be proven, where the run's limit leaves that host out.
options:
  plan: {description: The host's fabric slice of the plan., type: dict, required: true}
  readings:
    description: The result of M(gb10.fleet.fabric_info), by host of the run. The readings of the other hosts show who
      is at the end of a cable; a host that was not read may be among them.
    type: dict
    required: true
  bandwidth: {description: The host's measurements. Without them bandwidth is not judged., type: dict}
extends_documentation_fragment: [gb10.fleet.attributes.on_controller]
attributes:
  check_mode: {description: "Skipped in check mode, since nothing was set that could be proven.", support: none}
  diff_mode: {description: "Changes nothing, so there is no diff.", support: none}
"""

EXAMPLES = r"""
- name: Judge the fabric
  gb10.fleet.fabric_check:
    plan: "{{ fabric_plan }}"
    readings: "{{ readings }}"
"""

RETURN = r"""
findings:
  description: The differences from the plan, each with rule, place, found, expected and remedy.
  returned: always
  type: list
  elements: dict
fabric:
  description: C(links), C(addresses), C(neighbours), C(frames), C(rdma) and C(bandwidth), each V(ok), V(failed),
    V(not proven), V(not possible here), V(not measured), V(measured by the other end) or V(not used).
  returned: always
  type: dict
"""
