# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: recipe_lint
short_description: Check recipes before they are used
version_added: 0.1.0
description:
  - Plans every recipe by itself, on hosts that have nothing else to do, and shows in one table which model fits on the
    hosts of the inventory, the largest first. Without an inventory they are machines of 128 GB.
  - Fails when a recipe has an error, unless its status is C(known-bad).
options:
  folders:
    description: Folders of recipes before the shipped one. Without it, the folder C(recipes) of each inventory.
    type: list
    elements: path
extends_documentation_fragment: [gb10.fleet.attributes.reads_only, gb10.fleet.attributes.on_controller]
"""

EXAMPLES = r"""
- name: Judge my recipes and the shipped ones
  gb10.fleet.recipe_lint:
    folders: ["{{ inventory_dir }}/recipes"]
"""

RETURN = r"""
recipes:
  description: A verdict for every recipe.
  returned: success
  type: list
  elements: dict
  contains:
    name: {description: The recipe., type: str}
    file: {description: Where it is written., type: str}
    status: {description: Its own word., type: str}
    passed: {description: "Whether it has no error, and is not known to be bad.", type: bool}
    findings: {description: The plan's result for it., type: list, elements: dict}
table: {description: "The table that is shown, as that of the shelf.", returned: success, type: list, elements: dict}
"""
