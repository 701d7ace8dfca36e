# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.recipe_new: runs on the controller, reaches no host."""

import json
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base.findings import ordered
from ..module_utils._engines.recipes.derive import as_file, derive
from ..module_utils._engines.recipes.kept_models import keep, read_hub, read_kept
from ..module_utils._facts.models.checkpoint import Checkpoint, require_of
from ..module_utils._facts.models.gguf_files import meant, named_model
from ..module_utils._stores.weights.hub_api import HubApi
from ..plugin_utils._documented import OnController
from ..plugin_utils._own_recipes import recipes_folder, write_new
from ..plugin_utils._screen import warn


class ActionModule(OnController):
    _before = "nothing was written: "

    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        folder = recipes_folder(options["folder"], variables, "recipe_new_to")
        named = named_model(options["model"])
        file = named.get("file")
        checkpoint = self._checkpoint(options, named["repository"], file, folder.parent)
        recipe, findings = derive(checkpoint, file=file)
        sentences = [finding.sentence() for finding in ordered(findings)]
        if recipe is None:
            raise AnsibleActionFail("nothing was written: " + "\n".join(sentences))
        name = recipe["name"]
        if options["source_path"]:
            recipe["model"]["source"] = {"path": options["source_path"]}
        config = checkpoint["config"] if recipe["model"].get("file") == checkpoint["config"].get("file") else {}
        texts = {folder / f"{name}.yml": as_file(recipe, checkpoint, name if config else None)}
        if config:
            texts[folder / "configs" / f"{name}.json"] = json.dumps(config, indent=2) + "\n"
        diff = write_new(texts, "recipe_new_to", dry=self._task.check_mode)
        # plans of whoever names this model are made from what is kept: the hub's own answer, and no host's
        if not self._task.check_mode and options["checkpoint"] is None:
            keep(folder.parent, checkpoint)
        for sentence in sentences:
            warn(sentence)
        path = next(iter(texts))
        return {"changed": True, "path": str(path), "sentences": sentences, "diff": diff}

    def _checkpoint(self, options: dict[str, Any], model: str, file: str | None, inventory: Path) -> Checkpoint:
        """What was handed over, is kept of that commit, or is read now. Raises FleetError."""
        revision = options["revision"]
        if options["checkpoint"] is not None:
            return require_of(options["checkpoint"], model, revision)
        note = None if self._task.check_mode else warn
        kept = read_kept(inventory, note).get(model)
        of_file = kept is not None and (file is None or kept["config"].get("file") in meant(kept["gguf"], file))
        if kept is not None and of_file and revision in (None, kept["revision"]):
            return kept
        return read_hub(HubApi.of_environment(), model, revision, file)
