# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: lock_record
short_description: Record image and model digests in the lock file
version_added: 0.1.0
description:
  - Compares what each host has with the lock, a file on the controller beside the inventory, and adds what was brought
    for the first time. The state of the host that brought it counts, not that of hosts that took it from there.
  - A host's answer changes nothing in the lock, except with O(relock).
  - Runs of several controllers on one machine add one after the other; a damaged file is refused.
options:
  wanted: {description: By host the parts C(images) and C(models) of its slice of the plan., type: dict, required: true}
  file: {description: The file., type: path, required: true}
  images:
    description: By host what M(gb10.fleet.container_images) returned as RV(gb10.fleet.container_images#module:images).
    type: dict
    default: {}
  models:
    description: By host what M(gb10.fleet.model_snapshots) returned as RV(gb10.fleet.model_snapshots#module:models).
    type: dict
    default: {}
  relock: {description: The name of an image or a model whose entry is written again., type: str, default: ""}
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
  - gb10.fleet.attributes.on_controller
"""

EXAMPLES = r"""
- name: Keep what was brought first
  gb10.fleet.lock_record:
    wanted: "{{ hostvars | gb10.fleet.internal('by_host', ansible_play_hosts, 'fleet_slice') }}"
    file: "{{ fleet_plan.lock_file }}"
    images: "{{ hostvars | gb10.fleet.internal('by_host', ansible_play_hosts, 'image_store_brought', 'images') }}"
  run_once: true
"""

RETURN = r"""
refused:
  description: By host, what it has that is not as locked, as sentences.
  returned: success
  type: dict
  sample: {spark-2: ["vllm:1: identity 0123456789ab; expected identity ba9876543210, as locked"]}
"""
