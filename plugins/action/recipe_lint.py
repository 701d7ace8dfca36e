# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.recipe_lint: runs on the controller, reaches no host."""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base.gb10 import SHIPPED_RECIPES
from ..module_utils._engines.recipes.recipe import load_all
from ..module_utils._operations.shelf import as_text, rows
from ..module_utils._plan.recipe_lint import lint_recipes, report
from ..plugin_utils._documented import OnController
from ..plugin_utils._screen import show


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        written = options["folders"]
        folders = _beside_inventories(variables) if written is None else [*map(Path, written)]
        library, of_recipes = load_all([*folders, SHIPPED_RECIPES])
        named = [name for name in variables["groups"]["all"] if name != "localhost"]
        owned = [variables["hostvars"][name].get("fleet_host") or {} for name in named]
        table, verdicts = rows([*library.recipes.values()], library, owned, {}), lint_recipes(library, of_recipes)
        hosts = f"hosts of this inventory ({len(owned)})" if owned else "as many hosts of 128 GB as a recipe wants"
        show(f"\non {hosts}, each recipe alone; ~ is our forecast\n\n{as_text(table)}\n\n{report(verdicts)}\n")
        failed = [verdict.name for verdict in verdicts if verdict.failed]
        if failed:
            raise AnsibleActionFail(f"errors in {', '.join(failed)}: see the report above")
        return {"changed": False, "recipes": [verdict.as_dict() for verdict in verdicts], "table": table}


def _beside_inventories(variables: dict[str, Any]) -> list[Path]:
    """The folder ``recipes`` of each inventory, which may be given as a folder or as a file in it."""
    sources = [Path(source) for source in variables.get("ansible_inventory_sources") or ()]
    candidates = [(source if source.is_dir() else source.parent) / "recipes" for source in sources if source.exists()]
    return [folder for folder in dict.fromkeys(candidates) if folder.is_dir() and folder != SHIPPED_RECIPES]
