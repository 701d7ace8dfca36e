# SPDX-License-Identifier: GPL-3.0-or-later
"""What actions that plan have in common: the inventory's variables, recipes, the lock and what was observed."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._base.findings import Finding, FleetError
from ..module_utils._engines.recipes.kept_models import FOLDER as MODELS
from ..module_utils._engines.recipes.kept_models import keep, read_hub
from ..module_utils._plan.declared import OURS, is_meant_for_us
from ..module_utils._plan.inventory_files import inventory_folder, not_inventories
from ..module_utils._plan.models import unread_models, wanted_files
from ..module_utils._plan.sources import Inventory, InventoryHost, Sources, read_sources
from ..module_utils._stores.weights.hub_api import HubApi
from ._screen import show, warn

# The hosts that `try` took into its run, whose inventory holds nobody else's but the controller.
TRIED = "fleet_tried"


def fleet_hosts(variables: Mapping[str, Any]) -> list[str]:
    """Whom a plan is about: the inventory's hosts."""
    found: list[str] = variables["groups"].get(TRIED) or variables["groups"]["all"]
    return found


class Planning(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    def declaration(self, variables: dict[str, Any]) -> Sources:
        """AnsibleActionFail for what can't be read."""
        folder = Path(inventory_folder(variables.get("inventory_dir")))
        files = {name: variables["hostvars"][name].get("inventory_file") for name in fleet_hosts(variables)}
        if problems := not_inventories(files, variables.get("ansible_inventory_sources") or ()):
            raise AnsibleActionFail("nothing was changed: " + problems[0].sentence())
        note = None if self._task.check_mode else warn
        try:
            sources = read_sources(inventory_of(variables, folder), note=note)
        except FleetError as problem:
            raise AnsibleActionFail(f"nothing was changed: {problem}") from None
        return self._with_models(sources)

    def _with_models(self, sources: Sources) -> Sources:
        """With what is read now of the models that nothing is known of."""
        library, folder = sources.library, sources.folder
        read: dict[str, Any] = {}
        unread: dict[str, list[Finding]] = {}
        files = wanted_files(sources.services)
        for repository, revision in unread_models(sources.services, library).items():
            show(f"model {repository}: no recipe has it, so it is read from the hub, once")
            try:
                read[repository] = read_hub(HubApi.of_environment(), repository, revision, files.get(repository))
                if not self._task.check_mode:
                    keep(folder, read[repository])
            except FleetError as problem:
                unread[repository] = [*problem.findings]
            except OSError as problem:
                raise AnsibleActionFail(
                    f"nothing was changed: what was read of {repository} can't be kept in {folder / MODELS}: {problem}"
                ) from None
        library = replace(library, checkpoints={**library.checkpoints, **read}, unread=unread)
        return replace(sources, library=library)


def inventory_of(variables: dict[str, Any], folder: Path) -> Inventory:
    """Address, SSH port and `fleet_*` variables by host. What hosts share is templated once: 500 may share it."""
    hostvars = variables["hostvars"]
    templated: dict[int, tuple[Any, Any]] = {}  # id of the raw value -> (that value, kept alive; the templated one)
    hosts: dict[str, InventoryHost] = {}
    for name in fleet_hosts(variables):
        raw = hostvars.raw_get(name)
        found = {}
        for key in (key for key in raw if is_meant_for_us(key) and key not in OURS):
            if id(raw[key]) not in templated:
                templated[id(raw[key])] = (raw[key], hostvars[name][key])
            found[key] = templated[id(raw[key])][1]
        own = hostvars[name]
        address, port = str(own.get("ansible_host", name)), int(own.get("ansible_port") or 22)
        hosts[name] = {"address": address, "port": port, "variables": found}
    return {"hosts": hosts, "folder": str(folder)}
