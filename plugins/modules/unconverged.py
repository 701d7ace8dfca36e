# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: unconverged
short_description: List the reasons why each host must be converged
version_added: 0.2.0
description:
  - A host needs no role if every role would find all as the plan says. An uncertain fact is a reason.
  - Hosts that depend on each other must be converged together.
  - Refuses a run that C(--tags) or C(--skip-tags) limits to roles which need another role first.
extends_documentation_fragment:
  - gb10.fleet.attributes.on_controller
  - gb10.fleet.attributes.reads_only
options:
  plan: {description: C(plan) of M(gb10.fleet.plan)., type: dict, required: true}
  hosts: {description: The hosts of the run., type: list, elements: str, required: true}
  readings:
    description: By host C(compared) of M(gb10.fleet.host_info). A host without it is converged.
    type: dict
    required: true
  interfaces:
    description: By host whether M(gb10.fleet.netplan_apply) would change it, C(differs).
    type: dict
    default: {}
  run:
    description: C(run) of M(gb10.fleet.plan). A run that would undo the last run on a host is refused.
    type: dict
    default: {}
  go_back: {description: Let it undo that., type: bool, default: false}
  staging: {description: Only whether images or models must be brought., type: bool, default: false}
"""

EXAMPLES = r"""
- name: Find hosts that differ from the plan
  gb10.fleet.unconverged:
    plan: "{{ fleet_plan.plan }}"
    hosts: "{{ ansible_play_hosts }}"
    readings: "{{ hostvars | gb10.fleet.internal('by_host', ansible_play_hosts, 'preflight_reading', 'compared') }}"
  run_once: true
  register: fleet_unconverged
"""

RETURN = r"""
reasons:
  description: The reasons, by host; empty for a host that is as declared.
  returned: success
  type: dict
  sample: {titan: [], spark-2: ["unit docker.service: inactive (dead)"]}
"""
