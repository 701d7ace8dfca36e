# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: export
short_description: Write services as Kubernetes or GPUStack objects
version_added: 0.1.0
description:
  - Runs on the controller and reaches no host. Writes a file for each service. For Kubernetes it has a LeaderWorkerSet
    of its ranks, a Service before its head, and a ConfigMap where it has overlays; a Secret is referred to and never
    written. For GPUStack it is what that imports as a deployment.
  - A service that can't be carried over gets no file; RV(refused) says why. It fails if that is so of all of them.
  - If O(services) are all of the plan, an export removes its files of services that no longer exist.
options:
  plan: {description: RV(gb10.fleet.plan#module:plan)., type: dict, required: true}
  services: {description: The services to write., type: list, elements: str, required: true}
  target: {description: For whom., type: str, choices: [kubernetes, gpustack], required: true}
  folder: {description: Where the files go. It is made if it is missing., type: path, required: true}
  rdma_resource:
    description: With Kubernetes, the resource that makes the cluster's device plugin hand C(/dev/infiniband) to pods.
    type: str
    default: rdma/rdma_shared_device_a
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
  - gb10.fleet.attributes.on_controller
"""

EXAMPLES = r"""
- name: Write what Kubernetes is to run
  gb10.fleet.export:
    plan: "{{ fleet_plan.plan }}"
    services: "{{ fleet_plan.services }}"
    target: kubernetes
    folder: /srv/manifests/sparks
  run_once: true
"""

RETURN = r"""
files:
  description: The files of the services, whether they changed or not.
  returned: success
  type: list
  elements: str
removed: {description: The files that were removed., returned: success, type: list, elements: str}
refused: {description: "All that can't be carried over, a sentence each.", returned: success, type: list, elements: str}
warnings_of_services:
  description: The parts that work in another way there, one sentence each.
  returned: success
  type: list
  elements: str
"""
