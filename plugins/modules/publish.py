# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: publish
short_description: Sign and publish host slices for hosts in pull mode
version_added: 0.1.0
description:
  - Writes C(HOST.slice) for each host of the run, and this collection as C(collection-SHA256.tar.gz), into a folder
    that hosts can read, by HTTP or as a mounted folder. Reaches no host.
  - C(ssh-keygen) signs, with a key that only this machine has; it is made where there is none. A slice names no secret.
  - Each new slice has a higher serial than the slice before, by the clock of this machine. One that says the same as
    before stays as it is. Those of hosts that the inventory has no more, and collections that none names, are removed.
  - Refuses a host with something that needs this machine at each change, before it writes anything.
options:
  fleet: {description: The result of M(gb10.fleet.plan)., type: dict, required: true}
  folder: {description: Where the slices are written., type: path, required: true}
  key:
    description: The file of the private key; the public one is beside it, with C(.pub).
    type: path
    required: true
extends_documentation_fragment:
  - gb10.fleet.attributes.on_controller
attributes:
  check_mode: {description: Names the hosts whose slice would change., support: full}
  diff_mode: {description: A slice is not shown; C(plan.yml) shows what it is made of., support: none}
"""

EXAMPLES = r"""
- name: Publish the slices of all hosts of the run
  gb10.fleet.publish:
    fleet: "{{ fleet_plan }}"
    folder: /srv/www/fleet
    key: "{{ inventory_dir }}/.fleet/publisher/key"
  run_once: true
"""

RETURN = r"""
published:
  description: The hosts whose slice has changed.
  returned: success
  type: list
  elements: str
public_key:
  description: The public key that lets hosts verify slices from here; empty in check mode if there is no key yet.
  returned: success
  type: str
"""
