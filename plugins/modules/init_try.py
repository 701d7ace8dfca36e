# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: init_try
short_description: Decide what is tried on machines that were read, and ask a person
version_added: 0.2.0
description:
  - Without O(plan) it chooses a model, and returns what an inventory declares for it. Nothing is written.
  - With O(plan) it shows the plan's table, asks whether to begin, and writes that inventory.
options:
  hosts: {description: "The machines, C(hosts) of M(gb10.fleet.init_hosts).", type: list, elements: dict, default: []}
  folder:
    description: Where the inventory of this try is kept. It belongs to this module, and each try writes it again.
    type: path
    default: fleet-try
  model:
    description: A recipe, or C(ORG/NAME) of the hub. Without it, the recipe that fits best on these machines.
    type: str
    default: ""
  plan: {description: "C(plan) of M(gb10.fleet.plan), made from this module's earlier result.", type: dict}
  texts: {description: C(texts) that this module returned., type: dict, default: {}}
  go: {description: Begin without a question., type: bool, default: false}
extends_documentation_fragment:
  - gb10.fleet.attributes.on_controller
attributes:
  check_mode: {description: "Shows what would be tried, asks nothing and writes nothing.", support: full}
  diff_mode: {description: "Its files are short, and shown by no diff.", support: none}
"""

EXAMPLES = r"""
- name: Choose a model
  gb10.fleet.init_try:
    hosts: "{{ init_found.hosts }}"
"""

RETURN = r"""
variables: {description: "By host, the variables that declare the service.", returned: without O(plan), type: dict}
texts:
  description: By name, the files of an inventory that declares the same.
  returned: without O(plan)
  type: dict
name:
  description: The service's name, which no other inventory has on these machines.
  returned: without O(plan)
  type: str
folder: {description: The folder's full name., returned: without O(plan), type: str}
spoken: {description: The tokens a second that others report of one request., returned: without O(plan), type: float}
end:
  description: The commands that keep the trial, and that remove it.
  returned: without O(plan)
  type: list
  elements: str
"""
