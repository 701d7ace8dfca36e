# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: bundle_check
short_description: Verify the bundle files that hosts need before any host changes
version_added: 0.1.0
description:
  - Runs on the controller. Reads every byte that hosts are about to get, and compares it with the bundle's manifest.
  - Keeps beside the inventory which bundle it was; an older one is refused from then on.
options:
  plan: {description: "RV(gb10.fleet.plan#module:plan), with the bundle as source.", type: dict, required: true}
  folders: {description: "The bundle's folders, the newest first.", type: list, elements: path, required: true}
  inventory: {description: The inventory's folder., type: path, required: true}
  unconverged:
    description: By host of the run why it must be converged; of one without a reason nothing is looked at.
    type: dict
    required: true
  readings:
    description: By host what M(gb10.fleet.host_info) has read of it before a converge.
    type: dict
    required: true
  installing:
    description: Whether roles may install on the hosts; V(false) where only images and models are brought.
    type: bool
    default: true
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
  - gb10.fleet.attributes.on_controller
"""

EXAMPLES = r"""
- name: Read what the hosts are to get
  gb10.fleet.bundle_check:
    plan: "{{ fleet_plan.plan }}"
    folders: "{{ fleet_plan.bundle.folders }}"
    inventory: "{{ inventory_dir }}"
    unconverged: {titan: [image registry.example.org/server:1.4 has to be brought]}
    readings: {titan: {state: {images_changing: [registry.example.org/server:1.4], models_changing: []}, unknown: {}}}
  run_once: true
"""

RETURN = r"""
environment:
  description: The variables that point programs on the hosts to the bundle and to nothing else.
  returned: success
  type: dict
folder: {description: Where the files go on a host., returned: success, type: str}
deliveries:
  description: By host the files that it gets. By where each goes, its path in the bundle.
  returned: success
  type: dict
"""
