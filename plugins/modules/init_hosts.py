# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: init_hosts
short_description: Find Sparks and test which accept this account
version_added: 0.2.0
description:
  - Looks in NVIDIA Sync's list, ssh's files, the neighbour table and the answers to one multicast question, asks which
    of the machines are the owner's, and logs into those by ssh with a key.
  - The PCI id of its GPU identifies a Spark. Names prove nothing.
  - Asks at most three questions, and none that O(hosts), O(keep_keys) or C(-K) answers. Changes nothing on a machine.
    Host keys that a person has agreed to go into this account's known_hosts.
options:
  hosts:
    description: Names or addresses. Without them machines are looked for.
    type: list
    elements: str
    default: []
  user:
    description: The account on the machines, unless ssh's files give another account than this account's name.
    type: str
    default: ""
  keep_keys:
    description: Keep host keys that nobody has compared yet, once they were shown.
    type: bool
    default: false
extends_documentation_fragment:
  - gb10.fleet.attributes.on_controller
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Find machines
  gb10.fleet.init_hosts:
    hosts: [spark-3f1c.local]
  register: init_found
"""

RETURN = r"""
hosts:
  description: The machines that let this account in. C(name), C(address), empty for this machine itself, C(user), empty
    where ssh's files name it, C(password), the password for sudo that a person gave.
  returned: success
  type: list
  elements: dict
token:
  description: The common mark of the frames that let the machines find each other.
  returned: success
  type: str
"""
