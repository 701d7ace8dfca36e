# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.recipe_new: runs on the controller, reaches no host."""

import json
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError, ordered
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.derive import as_file, derive
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.kept_models import keep, read_hub, read_kept
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.checkpoint import require_of
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.hub_api import HubApi
from ansible_collections.gb10.fleet.plugins.plugin_utils._documented import OnController
from ansible_collections.gb10.fleet.plugins.plugin_utils._own_recipes import recipes_folder, write_new
from ansible_collections.gb10.fleet.plugins.plugin_utils._screen import warn


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        folder = recipes_folder(options["folder"], variables, "recipe_new_to")
        try:
            checkpoint = self._checkpoint(options, folder.parent)
        except FleetError as problem:
            raise AnsibleActionFail(f"nothing was written: {problem}") from None
        recipe, findings = derive(checkpoint)
        sentences = [finding.sentence() for finding in ordered(findings)]
        if recipe is None:
            raise AnsibleActionFail("nothing was written: " + "\n".join(sentences))
        name = recipe["name"]
        if options["source_path"]:
            recipe["model"]["source"] = {"path": options["source_path"]}
        texts = {
            folder / f"{name}.yml": as_file(recipe, checkpoint, name),
            folder / "configs" / f"{name}.json": json.dumps(checkpoint["config"], indent=2) + "\n",
        }
        diff = write_new(texts, "recipe_new_to", dry=self._task.check_mode)
        # plans of whoever names this model are made from what is kept: the hub's own answer, and no host's
        if not self._task.check_mode and options["checkpoint"] is None:
            keep(folder.parent, checkpoint)
        for sentence in sentences:
            warn(sentence)
        path = next(iter(texts))
        return {"changed": True, "path": str(path), "sentences": sentences, "diff": diff}

    def _checkpoint(self, options: dict[str, Any], inventory: Path) -> dict[str, Any]:
        """What was handed over, is kept of that commit, or is read now. Raises FleetError."""
        model, revision = options["model"], options["revision"]
        if options["checkpoint"] is not None:
            return require_of(options["checkpoint"], model, revision)
        note = None if self._task.check_mode else warn
        kept = read_kept(inventory, note).get(model)
        if kept is not None and revision in (None, kept["revision"]):
            return kept
        return read_hub(HubApi.of_environment(), model, revision)
