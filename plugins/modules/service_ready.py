# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: service_ready
short_description: Wait until a service answers a real request
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Waits until the service answers one real request through its own endpoint, showing progress, and compares what its
    engine printed at this start with the plan.
  - Waits through a start that dies, as the service's supervisor tries again within its budget; fails, with the reason,
    when it gives up.
options:
  service:
    description: A service whose endpoint is on this host, of C(services) of the host's slice of the plan.
    type: dict
    required: true
attributes:
  check_mode:
    description: Is skipped in check mode, since nothing was started.
    support: partial
    details: Reads nothing and says so.
  diff_mode: {description: "Changes nothing, so there is no diff.", support: none}
  action: {description: Runs on the controller and reads the host through M(gb10.fleet.service_info)., support: full}
"""

EXAMPLES = r"""
- name: Wait for the answer
  gb10.fleet.service_ready:
    service: "{{ fleet_slice.services | selectattr('name', 'eq', 'nano') | first }}"
"""

RETURN = r"""
service: {description: The service's name., returned: success, type: str}
state: {description: Always V(serving)., returned: success, type: str}
answer: {description: The model's answer., returned: success, type: str}
seconds: {description: The seconds that it took., returned: success, type: float}
boot: {description: The engine's lines about its memory and KV cache at this start., returned: success, type: dict}
comparison:
  description: The printed KV pool against the plan's, in a few words; empty if nothing is known.
  returned: success
  type: str
  sample: KV pool 292,320 tokens, as planned
record:
  description: The memory that the start has shown, for M(gb10.fleet.observation_record); V(null) if its log has nothing
    of it.
  returned: success
  type: dict
start:
  description: How long its last start took, by phase, in a few words; empty where its journal does not tell.
  returned: success
  type: str
  sample: "started in 83 s: weights 40, compilation 22, program 12, graphs 3, first answer 2 s"
starts:
  description: Its last starts by phase, for M(gb10.fleet.observation_record); V(null) where its journal has none.
  returned: success
  type: dict
findings: {description: Where the running service differs from the plan., returned: success, type: list, elements: dict}
problems: {description: The findings as sentences., returned: success, type: list, elements: str}
ansible_stats:
  description: The part of it that ansible-runner and AWX keep as artifacts of the run, below C(gb10_fleet).
  returned: success
  type: dict
"""
