# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This plugin util is PRIVATE to the collection.
"""What actions that plan have in common: the inventory's variables, recipes, the lock and what was observed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import Finding, FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.observed import Observed, read_observed
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.kept_models import FOLDER as MODELS
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.kept_models import keep, read_hub, read_kept
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library, load_all
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared import OURS, is_meant_for_us, not_inventories
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.models import unread_models
from ansible_collections.gb10.fleet.plugins.module_utils._stores.lock.file import NAME, read
from ansible_collections.gb10.fleet.plugins.module_utils._stores.lock.lock import Lock
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.hub_api import HubApi
from ansible_collections.gb10.fleet.plugins.plugin_utils._screen import show

_SERVICES = "fleet_services"


@dataclass(frozen=True)
class Declaration:
    """All that a plan is made of. folder: the inventory's."""

    inventory: dict[str, Any]
    library: Library
    of_recipes: list[Finding]
    observed: Observed
    lock: Lock
    folder: Path
    lock_file: Path

    @property
    def services(self) -> dict[str, Any]:
        """``fleet_services`` as it is written; empty where it is no map."""
        found = _written(self.inventory, _SERVICES, {})
        return found if isinstance(found, dict) else {}

    def with_service(self, name: str, service: dict[str, Any]) -> Declaration:
        """The same with another declaration of a service."""
        services = {**self.services, name: service}
        hosts = {
            host: {**one, "variables": {**one["variables"], _SERVICES: services}}
            for host, one in self.inventory["hosts"].items()
        }
        return replace(self, inventory={**self.inventory, "hosts": hosts})

    def planned(self, relock: str = "") -> dict[str, Any]:
        return plan_fleet(self.inventory, self.library, self.of_recipes, self.observed, lock=self.lock, relock=relock)


class Planning(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    def declaration(self, variables: dict[str, Any]) -> Declaration:
        """AnsibleActionFail for what can't be read."""
        folder = Path(variables.get("inventory_dir") or Path.cwd())
        sources = {name: variables["hostvars"][name].get("inventory_file") for name in variables["groups"]["all"]}
        if problems := not_inventories(sources, variables.get("ansible_inventory_sources") or ()):
            raise AnsibleActionFail("nothing was changed: " + problems[0].sentence())
        inventory = self._inventory(variables, folder)
        library, of_recipes = load_all([*_recipe_folders(inventory, folder), SHIPPED_RECIPES])
        library = self._with_models(library, _written(inventory, _SERVICES, {}), folder)
        lock_file = folder / str(_written(inventory, "fleet_lock_file", NAME))
        try:
            lock = read(lock_file)
        except FleetError as problem:
            raise AnsibleActionFail(f"nothing was changed: {problem}") from None
        return Declaration(inventory, library, of_recipes, read_observed(folder), lock, folder, lock_file)

    def _with_models(self, library: Library, services: Any, folder: Path) -> Library:
        """The library with what is kept of models, and what is read now of those that nothing is known of."""
        note = None if self._task.check_mode else Display().warning
        library = replace(library, checkpoints=read_kept(folder, note))
        read: dict[str, Any] = {}
        unread: dict[str, list[Finding]] = {}
        for repository, revision in unread_models(services, library).items():
            show(f"model {repository}: no recipe has it, so it is read from the hub, once")
            try:
                read[repository] = read_hub(HubApi.of_environment(), repository, revision)
                if not self._task.check_mode:
                    keep(folder, read[repository])
            except FleetError as problem:
                unread[repository] = [*problem.findings]
            except OSError as problem:
                raise AnsibleActionFail(
                    f"nothing was changed: what was read of {repository} can't be kept in {folder / MODELS}: {problem}"
                ) from None
        return replace(library, checkpoints={**library.checkpoints, **read}, unread=unread)

    def _inventory(self, variables: dict[str, Any], folder: Path) -> dict[str, Any]:
        """Address, SSH port and `fleet_*` variables by host. What hosts share is templated once: 500 may share it."""
        hostvars = variables["hostvars"]
        templated: dict[int, tuple[Any, Any]] = {}  # id of the raw value -> (that value, kept alive; the templated one)
        hosts = {}
        for name in variables["groups"]["all"]:
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


def _recipe_folders(inventory: dict[str, Any], folder: Path) -> list[Path]:
    """The owner's own recipes come first: the folder `recipes` of the inventory, or what `fleet_recipe_dirs` lists."""
    written = _written(inventory, "fleet_recipe_dirs", None)
    if isinstance(written, list):
        return [folder / str(path) for path in written]
    return [folder / "recipes"] if (folder / "recipes").is_dir() else []


def _written(inventory: dict[str, Any], name: str, otherwise: Any) -> Any:
    """The value that the first host with this variable has; the hosts share it."""
    values = (host["variables"].get(name) for host in inventory["hosts"].values())
    return next((value for value in values if value is not None), otherwise)
