# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: recipe_shelf
short_description: Take over recipes that others keep, and show which fit
version_added: 0.2.0
description:
  - Converts the recipes of each source of C(fleet_recipe_sources), and keeps them beside the inventory in
    C(.fleet/shelf). Services then find them by C(recipe) and by C(model). Nothing of a source is run.
  - A source with a commit is fetched again only if its declaration has changed.
  - Shows one table of all recipes, planned for the hosts of the inventory.
extends_documentation_fragment: [gb10.fleet.attributes.changes, gb10.fleet.attributes.on_controller]
options:
  purpose: {description: The use of the models., type: str, default: "", choices: ["", chat, code, vision, embed]}
  context: {description: Tokens of one request. Without it the recipe's number counts., type: int}
  fetch: {description: Whether to fetch all sources again., type: bool, default: false}
  take: {description: The name of a recipe to write into the folder of your own recipes., type: str, default: ""}
"""

EXAMPLES = r"""
- name: Show which recipes for code fit with long prompts
  gb10.fleet.recipe_shelf: {purpose: code, context: 131072}
"""

RETURN = r"""
sources: {description: The changes and refused files of each source., returned: success, type: list, elements: dict}
recipes: {description: The rows of the table., returned: success, type: list, elements: dict}
"""
