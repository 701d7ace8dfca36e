# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.recipe_shelf: runs on the controller, reaches no host."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display

from ..module_utils._base.findings import FleetError, did_you_mean
from ..module_utils._base.own_files import replace_file
from ..module_utils._engines.recipes import shelf
from ..module_utils._operations.shelf import as_text, changes, is_for, rows
from ..module_utils._plan.inventory_files import inventory_folder
from ..module_utils._plan.sources import read_sources
from ..plugin_utils._documented import OnController
from ..plugin_utils._own_recipes import as_yaml, write_new
from ..plugin_utils._planning import fleet_hosts, inventory_of
from ..plugin_utils._screen import show, warn
from ..plugin_utils._source_files import files_of

_MOST_NAMED = 3


class ActionModule(OnController):
    _before = "nothing was changed: "

    def act(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        folder, dry = Path(inventory_folder(variables.get("inventory_dir"))), self._task.check_mode
        inventory = inventory_of(variables, folder)
        written = [host["variables"].get(shelf.VARIABLE) for host in inventory["hosts"].values()]
        sources, findings = shelf.read_sources_of(next(filter(None, written), None))
        if not sources:
            raise FleetError(*findings, *(() if findings else [shelf.none_named()]))
        before = {one["name"]: shelf.read_kept(folder, one["name"], None if dry else warn) for one in sources}
        after = {one["name"]: self._taken(one, before[one["name"]], folder, options["fetch"]) for one in sources}
        recipes, _ = shelf.usable(after, folder)
        returned, diff = [], []
        if name := options["take"]:
            if name not in recipes:
                remedy = did_you_mean(name, recipes)
                raise AnsibleActionFail(f"take: found {name!a}; expected a recipe of the shelf; {remedy}")
            text = as_yaml(recipes[name].data, f"Taken from {recipes[name].data['sources'][0]}")
            diff += write_new({folder / "recipes" / f"{name}.yml": text}, "take", dry=dry)
        for name, kept in after.items():
            path, lines = shelf.file_of(folder, name), [*changes(before[name], kept)]
            _announce(name, kept, lines)
            old, new = (json.dumps(one, indent=1, sort_keys=True) + "\n" if one else "" for one in (before[name], kept))
            if old != new:
                diff.append({"before": old, "after": new, "before_header": str(path), "after_header": str(path)})
                if not dry:
                    replace_file(path, new.encode())
            returned.append({"name": name, "changes": lines, "refused": kept["refused"]})
        hosts = [inventory["hosts"][name]["variables"].get("fleet_host") or {} for name in fleet_hosts(variables)]
        library = read_sources(inventory).library
        left_out = {name: words for kept in after.values() for name, words in kept["left_out"].items()}
        chosen = [recipe for recipe in recipes.values() if is_for(recipe, options["purpose"], library)]
        table = rows(chosen, library, hosts, left_out, options["context"])
        words = f"each alone on your hosts ({len(hosts)}); ~ is our forecast\n\n{as_text(table)}"
        show(f"\n{words if table else 'no recipe for it'}\n")
        return {"changed": bool(diff), "sources": returned, "recipes": table, "diff": diff}

    def _taken(self, source: shelf.RecipeSource, before: shelf.Kept | None, folder: Path, again: bool) -> shelf.Kept:
        if before is not None and "commit" in source and shelf.is_current(before, source) and not again:
            return before
        return shelf.take(source, *files_of(source, folder), f"{datetime.now(UTC):%Y-%m-%d}", before)


def _announce(name: str, kept: shelf.Kept, lines: list[str]) -> None:
    commit = f" at {kept['commit'][:12]}" if kept["commit"] else ""
    refused = [f"no recipe: {file}: {why}" for file, why in kept["refused"].items()]
    if len(refused) > _MOST_NAMED and not Display().verbosity:
        refused[_MOST_NAMED:] = [f"no recipe: {len(refused) - _MOST_NAMED} more files; -v names them"]
    heading = f"{name} ({kept['url']}{commit}): {len(kept['recipes'])} recipes"
    show("\n  ".join([heading, *lines, *refused]))
