# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: init
short_description: Write an inventory of machines that were read
version_added: 0.2.0
description:
  - Decides the declarations of an inventory from the reading of M(gb10.fleet.init_info) on each machine, and writes
    C(hosts.yml), C(group_vars/all/connection.yml) and C(group_vars/all/fleet.yml).
  - A network for the cables that another tool made is declared as it is, and stays that tool's.
  - A file that is there is never written over. A second run that would write the same changes nothing.
options:
  hosts:
    description: The machines, C(hosts) of M(gb10.fleet.init_hosts).
    type: list
    elements: dict
    required: true
  folder: {description: Where the inventory goes., type: path, required: true}
  adopt:
    description: V(true) declares the services that run there also, V(false) not even the cables' network as it is.
      Without it the network is declared as it is, and services are written as comments.
    type: bool
  tried:
    description: The folder of a M(gb10.fleet.init_try), whose service is declared as it is, with its key.
    type: str
    default: ""
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
  - gb10.fleet.attributes.on_controller
"""

EXAMPLES = r"""
- name: Write an inventory
  gb10.fleet.init:
    hosts: "{{ init_found.hosts }}"
    folder: mine
"""

RETURN = r"""
files: {description: The inventory's files., returned: success, type: list, elements: str}
notes: {description: "The decisions, one sentence each.", returned: success, type: list, elements: str}
"""
