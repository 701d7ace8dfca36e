# SPDX-License-Identifier: GPL-3.0-or-later
"""All that a plan is made of: the inventory's variables, and what lies beside the inventory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

from .._base.findings import Finding
from .._base.gb10 import SHIPPED_RECIPES
from .._base.plan import Plan
from .._engines.observed import Observed, read_observed
from .._engines.recipes.kept_models import read_kept
from .._engines.recipes.recipe import Library, load_all
from .._engines.recipes.shelf import VARIABLE, on_shelf
from .._stores.lock.file import NAME, read
from .._stores.lock.lock import Lock
from .fleet import plan_fleet

SERVICES = "fleet_services"


class InventoryHost(TypedDict):
    """A host of an inventory. port: of SSH. variables: those named ``fleet_*``, templated."""

    address: str
    port: int
    variables: Mapping[str, Any]


class Inventory(TypedDict):
    """An inventory as a plan reads it. folder: of the inventory, which also holds recipes, lock and observations."""

    hosts: Mapping[str, InventoryHost]
    folder: str


@dataclass(frozen=True)
class Sources:
    """All that a plan is made of. of_recipes: what is wrong with recipes."""

    inventory: Inventory
    library: Library
    of_recipes: Sequence[Finding]
    observed: Observed
    lock: Lock
    lock_file: Path

    @property
    def folder(self) -> Path:
        return Path(self.inventory["folder"])

    @property
    def services(self) -> dict[str, Any]:
        """``fleet_services`` as it is written; empty where it is no map."""
        found = _written(self.inventory, SERVICES, {})
        return found if isinstance(found, dict) else {}

    @property
    def unseen(self) -> list[str]:
        """Hosts of whose memory nobody knows: it is not declared, and neither doctor nor a start has shown it."""
        return [
            name
            for name, host in self.inventory["hosts"].items()
            if "memory_kib" not in (host["variables"].get("fleet_host") or {})
            and not (self.folder / ".fleet/doctor" / f"{name}.json").is_file()
            and name not in self.observed.boots
        ]

    def with_service(self, name: str, service: Mapping[str, object]) -> "Sources":
        """The same with another declaration of a service."""
        services = {**self.services, name: service}
        hosts: dict[str, InventoryHost] = {
            its_name: {**host, "variables": {**host["variables"], SERVICES: services}}
            for its_name, host in self.inventory["hosts"].items()
        }
        return replace(self, inventory={**self.inventory, "hosts": hosts})

    def planned(self, relock: str = "") -> Plan:
        return plan_fleet(self.inventory, self.library, self.of_recipes, self.observed, lock=self.lock, relock=relock)


def read_sources(
    inventory: Inventory, recipes: Sequence[Path] | None = None, note: Callable[[str], None] | None = None
) -> Sources:
    """Read what lies beside the inventory. FleetError for a lock that can't be read.

    recipes: folders instead of those that the inventory has. note: is told of a damaged file, which is moved away;
    None leaves it where it is.
    """
    folder = Path(inventory["folder"])
    folders = _recipe_folders(inventory, folder) if recipes is None else recipes
    library, of_recipes = load_all([*folders, SHIPPED_RECIPES])
    of_others, problems = on_shelf(folder, _written(inventory, VARIABLE, None), note)
    library = replace(library, recipes={**of_others, **library.recipes}, checkpoints=read_kept(folder, note))
    of_recipes = [*of_recipes, *problems]
    lock_file = folder / str(_written(inventory, "fleet_lock_file", NAME))
    return Sources(inventory, library, of_recipes, read_observed(folder), read(lock_file), lock_file)


def _recipe_folders(inventory: Inventory, folder: Path) -> list[Path]:
    """The owner's own recipes come first: the folder `recipes` of the inventory, or what `fleet_recipe_dirs` lists."""
    written = _written(inventory, "fleet_recipe_dirs", None)
    if isinstance(written, list):
        return [folder / str(path) for path in written]
    return [folder / "recipes"] if (folder / "recipes").is_dir() else []


def _written(inventory: Inventory, name: str, otherwise: object) -> Any:
    """The value that the first host with this variable has; the hosts share it."""
    values = (host["variables"].get(name) for host in inventory["hosts"].values())
    return next((value for value in values if value is not None), otherwise)
