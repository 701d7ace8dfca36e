# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.recipe_import: runs on the controller, reaches no host."""

import contextlib
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils import api
from ..module_utils._base.findings import FleetError
from ..module_utils._base.foreign_files import content_of
from ..module_utils._engines.declaration import ModelData
from ..module_utils._engines.recipes.formats import own_name, read_text
from ..module_utils._engines.recipes.kept_models import keep, read_hub, read_kept
from ..module_utils._engines.recipes.to_sparkrun import to_sparkrun
from ..module_utils._stores.weights.hub_api import HubApi
from ..plugin_utils._documented import OnController
from ..plugin_utils._own_recipes import as_yaml, recipes_folder, write_new
from ..plugin_utils._screen import warn

# A recipe has some kilobytes.
_MOST_BYTES = 1 << 20
# A recipe lies at most so deep in its project, and a patch has some files.
_MOST_ABOVE, _MOST_FILES = 4, 200
# Its folder's name, which is none of a build's own files.
_MOD = re.compile(r"(?!Dockerfile$|build\.yml$)\w[\w.-]*")


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        if not options["file"]:
            raise AnsibleActionFail(
                "nothing was written: no recipe is named; expected: another project's recipe; do this: write -e "
                "recipe_import_file=THEIRS.yaml"
            )
        theirs = Path(options["file"]).absolute()
        folder = recipes_folder(options["folder"], variables, "recipe_import_folder")
        name = options["name"] or own_name(theirs.stem)
        text = _text(theirs)
        imported = api.import_recipe(text, name, _mods(theirs, text))
        for sentence in imported["sentences"]:
            warn(sentence)
        if imported["recipe"] is None:
            raise AnsibleActionFail(f"nothing was written: {theirs} can't be imported, for the reasons above")
        written = to_sparkrun(imported["recipe"]) if options["form"] == "sparkrun" else imported["recipe"]
        if written is None:
            raise AnsibleActionFail(f"nothing was written: {theirs} has no image or command that sparkrun takes")
        yaml = as_yaml(written, f"Imported from {theirs.name}")
        path = folder / f"{name}.{'yml' if options['form'] == 'ours' else 'sparkrun.yaml'}"
        beside = {folder / file: content for file, content in imported["files"].items()}
        diff = write_new({path: yaml, **beside}, "recipe_import_folder", dry=self._task.check_mode)
        if options["form"] == "ours":
            self._ask_hub(imported["recipe"]["model"], folder.parent)
        return {"changed": True, "path": str(path), "sentences": imported["sentences"], "diff": diff}

    def _ask_hub(self, model: ModelData, inventory: Path) -> None:
        """Keep what the hub has of a model whose shape nobody knows, as a plan does that names the model itself."""
        if model["config"] or model.get("file") or self._task.check_mode or model["repository"] in read_kept(inventory):
            return
        try:
            keep(inventory, read_hub(HubApi.of_environment(), model["repository"], model["revision"]))
        except (FleetError, OSError) as problem:
            warn(f"{model['repository']}: its shape and size stay unknown: {problem}")


def _mods(recipe: Path, text: str) -> dict[str, dict[str, str]]:
    """The texts of the patches in the folder ``mods`` of a recipe's project, in its order; no link is followed."""
    try:
        source = read_text(text)
    except ValueError:
        return {}
    named = source.get("mods") if isinstance(source, Mapping) else None
    found: dict[str, dict[str, str]] = {}
    for short in (str(mod).rstrip("/").rpartition("/")[2] for mod in (named if isinstance(named, list) else ())):
        for folder in (above / "mods" / short for above in recipe.parents[:_MOST_ABOVE]):
            if short in found or not _MOD.fullmatch(short) or folder.is_symlink() or folder.parent.is_symlink():
                continue
            paths = [path for path in islice(folder.rglob("*"), _MOST_FILES + 1) if not path.is_dir()]
            with contextlib.suppress(OSError, ValueError):
                if 0 < len(paths) <= _MOST_FILES and not any(path.is_symlink() for path in paths):
                    texts = {str(path.relative_to(folder)): content_of(path, _MOST_BYTES).decode() for path in paths}
                    found[short] = dict(sorted(texts.items()))
    return found


def _text(path: Path) -> str:
    try:
        return content_of(path, _MOST_BYTES).decode("utf-8")
    except (OSError, ValueError) as problem:
        found = getattr(problem, "strerror", None) or str(problem)
        raise AnsibleActionFail(
            f"nothing was written: {path}: {found}; expected: another project's recipe, a YAML file; do this: correct "
            "-e recipe_import_file=, a path from the folder where you are, or a whole one"
        ) from None
