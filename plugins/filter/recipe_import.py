# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: recipe_import
short_description: Turn another project's recipe into one of ours
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Reads recipes of spark-vllm-docker (eugr, version 1) and of sparkrun (version 2).
  - What can't be carried over is reported, such as patches of the image and what the plan decides itself.
positional: _input, name
options:
  _input:
    description: The recipe's text, or what YAML makes of it.
    type: raw
    required: true
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
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import error
from ansible_collections.gb10.fleet.plugins.module_utils._base.yaml_text import read_yaml
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.foreign import import_recipe


def recipe_import(source: Any, name: Any) -> dict[str, Any]:
    if not isinstance(source, str | Mapping) or not isinstance(name, str):
        raise AnsibleFilterError(f"gb10.fleet.recipe_import takes a text or a map, and a name, not {type(source)}")
    try:
        recipe, findings = import_recipe(read_yaml(source) if isinstance(source, str) else source, name)
    except ValueError as cause:
        unreadable = error(
            "recipe-unreadable", name, found=str(cause), expected="a YAML map", remedy="correct the file"
        )
        recipe, findings = None, [unreadable]
    return {
        "recipe": recipe,
        "findings": [finding.as_dict() for finding in findings],
        "sentences": [f"{finding.severity}: {finding.sentence()}" for finding in findings],
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"recipe_import": recipe_import}
