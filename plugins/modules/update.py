#!/usr/bin/python
# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: update
short_description: Decide which hosts are updated, in which order, and whether they may be
version_added: 0.2.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Without O(found) it refuses a run that leaves out hosts of a group.
  - With it, it judges what each host would be once it is updated, by what is known to fail and to work, shows what
    changes in which order and how long nobody serves, and refuses before the first change.
  - In check mode there are no C(steps) to take; C(changed) says whether there would be some.
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
  - gb10.fleet.attributes.on_controller
options:
  plan:
    description: C(plan) of M(gb10.fleet.plan).
    type: dict
    required: true
  hosts:
    description: The hosts of the run.
    type: list
    elements: str
    required: true
  states:
    description: By host, C(state) of M(gb10.fleet.host_info).
    type: dict
    default: {}
  found:
    description: By host, C(updates) of M(gb10.fleet.update_info).
    type: dict
  ranks:
    description: By host, C(ranks) of M(gb10.fleet.rank_info).
    type: dict
    default: {}
  firmware:
    description: Whether firmware that is offered is brought; without it a host that is offered some is refused.
    type: bool
  together:
    description: Whether the hosts of a group are updated at once, instead of one after the other.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Refuse a run that leaves out a part of a group
  gb10.fleet.update:
    plan: "{{ fleet_plan.plan }}"
    hosts: "{{ ansible_play_hosts_all }}"
"""

RETURN = r"""
steps:
  description: What is updated, one after the other, each with C(hosts), C(turns), C(services) and C(holds).
  returned: with O(found)
  type: list
  elements: dict
judged:
  description: By host what M(gb10.fleet.host_update) keeps.
  returned: with O(found)
  type: dict
"""
