# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: rollout
short_description: Plan the order of replicas in a rollout
version_added: 0.1.0
description:
  - If O(ranks) is left out, it names the services that share the requests of the named service, and their hosts.
  - With them it shows the moves, their order and the time without a serving host, and refuses other changes.
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
  - gb10.fleet.attributes.on_controller
options:
  plan: {description: C(plan) of M(gb10.fleet.plan)., type: dict, required: true}
  service: {description: "A service, or a model by its name for clients.", type: str, required: true}
  hosts:
    description:
      - The hosts of the run, with all of the services'. At a gateway that is none of them nothing waits.
    type: list
    elements: str
    required: true
  ranks: {description: "By host, C(ranks) of M(gb10.fleet.rank_info).", type: dict}
"""

EXAMPLES = r"""
- name: Decide what moves
  gb10.fleet.rollout:
    plan: "{{ fleet_plan.plan }}"
    service: chat
    hosts: "{{ ansible_play_hosts_all }}"
  register: rollout
"""

RETURN = r"""
services: {description: The services that share the model's requests., returned: success, type: list, elements: str}
hosts: {description: Their hosts., returned: success, type: list, elements: str}
gateways: {description: "The gateway's hosts, of those of the run.", returned: success, type: list, elements: str}
steps:
  description: The moves, one after the other, each with C(service), C(hosts), C(serves), C(others), C(nobody_s),
    C(limit_s) and C(holds).
  returned: with O(ranks)
  type: list
  elements: dict
replicas:
  description: The C(definition) that is planned of each of the services, and its C(hosts), by the service's name.
  returned: with O(ranks)
  type: dict
"""
