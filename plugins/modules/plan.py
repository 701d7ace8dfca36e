# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: plan
short_description: Compute the plan for the whole fleet
version_added: 0.1.0
description:
  - Computes, on the controller and only from the inventory, every decision for every host and service, and the faults
    of the declaration. Reaches no host.
  - Reads C(fleet_services), C(fleet_fabric), C(fleet_firewall), C(fleet_name), C(fleet_host) and
    C(fleet_recipe_dirs) of all hosts, so that hosts outside of C(--limit) are planned also.
  - Results that hosts have shown make its figures exact, and decide nothing. It comes from the folder C(observed)
    beside the inventory, which the role P(gb10.fleet.verify#role) writes.
  - Fails when an error concerns a host of this run.
options:
  show: {description: Print the plan., type: bool, default: false}
  format:
    description: The form of the output. The outermost braces of V(json) stand at the beginning of a line.
    type: str
    choices: [text, json]
    default: text
  explain:
    description: The service or host whose values are printed with their reasons; V("") for none. C(-v) prints all.
    type: str
    default: ""
  scope:
    description:
      - The services of this run. V(fleet) is every service and every host of the run.
      - V(any) is every service and V(groups) those on several hosts, both narrowed by O(service). V(one) is the service
        that O(service) must name.
    type: str
    choices: [fleet, any, groups, one]
    default: fleet
  service: {description: The name of a service., type: str, default: ""}
  retire:
    description: Services that are no longer declared, for removal from the hosts of this run.
    type: list
    elements: str
    default: []
  retry:
    description: Services to bring although a rollout has taken back what is declared of them.
    type: list
    elements: str
    default: []
    version_added: 0.2.0
  refuse:
    description: Fail for an error of the plan. V(false) leaves it to the reader of RV(plan)'s findings.
    type: bool
    default: true
  relock:
    description: The name of an image (its reference) or a model (its repository) whose place in the lock doesn't count
      any more. It is brought from its source again if it isn't pinned.
    type: str
    default: ""
  partial:
    description: Allow a limit that takes some hosts of a service and leaves out others.
    type: bool
    default: false
  warn:
    description: Show the plan's warnings. A playbook that plans again for its hosts leaves that to the second time.
    type: bool
    default: true
  bundle:
    description: The folder of a bundle that all sources are taken from, or several with commas, the newest first. A
      host that is missing there is an error.
    type: str
    default: ""
  pulled:
    description:
      - A file of the slice that C(gb10.fleet.publish) has published for this host. The plan then decides nothing and
        takes this file. The run concerns only this host; P(gb10.fleet.pull#role) has checked the signature.
    type: path
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
  - gb10.fleet.attributes.on_controller
"""

EXAMPLES = r"""
- name: Decide everything for the fleet
  gb10.fleet.plan:
  run_once: true
  register: fleet_plan
"""

RETURN = r"""
plan:
  description: The decisions, as C(docs/explanation/architecture.md) describes them.
  returned: success
  type: dict
observed: {description: The folder on the controller that holds what hosts have shown., returned: success, type: str}
lock_file:
  description: The file on the controller that identifies images and models, beside the inventory unless
    C(fleet_lock_file) gives another place.
  returned: success
  type: str
bundle:
  description: The bundle's C(folders), and the folder of the C(inventory).
  returned: with O(bundle)
  type: dict
hosts: {description: The hosts of this run., returned: success, type: list, elements: str}
services: {description: The services that the run is about., returned: success, type: list, elements: str}
removal:
  description:
    - The facts that decide over services on a host that are not declared there. C(inventory), the name of this
      inventory; C(placed), the hosts of each service; C(hosts) of this run; C(retire).
  returned: success
  type: dict
retry: {description: As given., returned: success, type: list, elements: str}
run:
  description: The person of this run, with release and commits; a host that is changed keeps it.
  returned: without O(pulled)
  type: dict
alone:
  description: Whether this is a host that has fetched its slice itself, and knows no other one.
  returned: success
  type: bool
chosen:
  description: The hosts of this run that these services are on; of a run about the fleet, all.
  returned: success
  type: list
  elements: str
ansible_stats:
  description: The part of it that ansible-runner and AWX keep as artifacts of the run, below C(gb10_fleet).
  returned: success
  type: dict
"""
