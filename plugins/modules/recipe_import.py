# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: recipe_import
short_description: Write another project's recipe as one of ours
version_added: 0.2.0
description:
  - Reads a recipe of another project, as docs/how-to/recipes.md lists them ("Import"), and writes it as
    a recipe of this collection.
  - Warns of each thing that is not carried over, and keeps the words in C(status.left_out) of the recipe. Plans with
    that recipe warn until its owner has taken the words out.
  - A file that is there is never overwritten. A folder that is not there is made.
extends_documentation_fragment: [gb10.fleet.attributes.changes, gb10.fleet.attributes.on_controller]
options:
  file:
    description: The other project's recipe. A relative path begins in the folder where Ansible was called.
    type: path
  folder: {description: "Where the recipe goes. Without it, the folder C(recipes) beside the inventory.", type: path}
  name:
    description: The new recipe's name. Without it, that of O(file) in small letters, with a dash for other characters.
    type: str
  form:
    description: How it is written; sparkrun for a recipe of yours that others are to have, as NAME.sparkrun.yaml.
    type: str
    choices: [ours, sparkrun]
    default: ours
"""

EXAMPLES = r"""
- name: Take over a recipe
  gb10.fleet.recipe_import:
    file: qwen3-coder-next-fp8.yaml
    folder: inventories/site/recipes
"""

RETURN = r"""
path: {description: The recipe's file., returned: success, type: str}
sentences: {description: The parts that were not carried over., returned: success, type: list, elements: str}
"""
