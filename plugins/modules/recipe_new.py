# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: recipe_new
short_description: Write a recipe for a model that has none
version_added: 0.1.0
description:
  - Reads the model's config.json, size and commit from the hub, and derives a recipe. It writes the recipe with the
    reason of each value as a comment, and the config.json beside it. Edit and keep both.
  - The hub's answer is kept beside the inventory, so that plans need no hub.
  - A file that is there is never overwritten.
extends_documentation_fragment: [gb10.fleet.attributes.changes, gb10.fleet.attributes.on_controller]
options:
  model:
    description: The hub's id of the model, C(organisation/name), of GGUF files C(organisation/name:Q4_K_M).
    type: str
    required: true
  revision: {description: The commit; that of C(main) if it is left out., type: str}
  folder: {description: "Where the recipe goes. Without it, the folder C(recipes) beside the inventory.", type: path}
  checkpoint:
    description: The facts that M(gb10.fleet.checkpoint_info) has read of the model, instead of a question to the hub.
    type: dict
  source_path:
    description: The folder on the host that O(checkpoint) was read from. The recipe names it as the model's source.
    type: path
"""

EXAMPLES = r"""
- name: Write a recipe for a model of the hub
  gb10.fleet.recipe_new:
    model: Qwen/Qwen3-8B
    folder: inventories/site/recipes
"""

RETURN = r"""
path: {description: The recipe's file., returned: success, type: str}
sentences: {description: The obstacles to the model., returned: success, type: list, elements: str}
"""
