# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: recipe_import
short_description: Convert a recipe from another project
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Reads recipes of spark-vllm-docker (eugr, version 1) and of sparkrun (version 2).
  - The parts that can't be carried over are reported, such as patches of the image and the plan's own decisions.
positional: _input, name
options:
  _input: {description: "The recipe's text, or what YAML makes of it.", type: raw, required: true}
  name:
    description: The new recipe's name, which is also its file's name without C(.yml).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show what an imported recipe would be
  ansible.builtin.debug:
    msg: "{{ lookup('ansible.builtin.file', 'qwen3-coder-next-fp8.yaml') | gb10.fleet.recipe_import('coder-next') }}"
"""

RETURN = r"""
_value:
  description:
    - C(recipe), the recipe, or V(null) where an error prevents it.
    - C(findings), a list of maps with C(rule), C(kind), C(severity), C(place), C(found), C(expected), C(remedy).
    - C(sentences), the same in one line each.
  type: dict
  sample: {recipe: {name: coder-next}, findings: [], sentences: []}
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils import api


def recipe_import(source: object, name: object) -> api.Imported:
    if not isinstance(source, str | Mapping) or not isinstance(name, str):
        raise AnsibleFilterError(f"gb10.fleet.recipe_import takes a text or a map, and a name, not {type(source)}")
    return api.import_recipe(source, name)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"recipe_import": recipe_import}
