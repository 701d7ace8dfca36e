# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: update
short_description: Plan the order of host updates and check that each is safe
version_added: 0.1.0
description:
  - Judges each host as it would be after the update, by versions that are known to fail or to work. Shows the changes,
    their order and the time without service, and refuses before the first change.
  - In check mode there are no C(steps) to take; C(changed) says whether there would be some.
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
  - gb10.fleet.attributes.on_controller
options:
  plan: {description: C(plan) of M(gb10.fleet.plan)., type: dict, required: true}
  hosts: {description: The hosts of the run., type: list, elements: str, required: true}
  states: {description: "By host, C(state) of M(gb10.fleet.host_info).", type: dict, required: true}
  found: {description: "By host, C(updates) of M(gb10.fleet.update_info).", type: dict, required: true}
  ranks: {description: "By host, C(ranks) of M(gb10.fleet.rank_info).", type: dict, required: true}
  firmware:
    description: Whether offered firmware is brought; if it is left out, a host with an offer is refused.
    type: bool
  together:
    description: Whether the hosts of a group are updated at once, instead of one after the other.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Decide the order
  gb10.fleet.update:
    plan: "{{ fleet_plan.plan }}"
    hosts: "{{ ansible_play_hosts_all }}"
    states: "{{ hostvars | gb10.fleet.internal('by_host', ansible_play_hosts, 'look', 'state') }}"
    found: "{{ hostvars | gb10.fleet.internal('by_host', ansible_play_hosts, 'found', 'updates') }}"
    ranks: "{{ hostvars | gb10.fleet.internal('by_host', ansible_play_hosts, 'ranks', 'ranks') }}"
"""

RETURN = r"""
steps:
  description: The updates, one after the other, each with C(hosts), C(turns), C(services) and C(holds).
  returned: success
  type: list
  elements: dict
judged: {description: By host what M(gb10.fleet.host_update) keeps., returned: success, type: dict}
"""
