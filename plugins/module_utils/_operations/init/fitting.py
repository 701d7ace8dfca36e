# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the recipes that others have run fit on a machine: each is planned there alone, as `recipe_lint` does."""

from typing import Any

from ..._engines.recipes.recipe import Library
from ..._plan.fleet import plan_fleet
from .decide import Host, settings_of

_RUN = ("tested", "reported")
_CHAT = "chat"
SERVICE = "chat"
_MOST = 5


def fitting(name: str, host: Host, library: Library) -> list[dict[str, Any]]:
    """At most five rows of the plan's table, with their `recipe`: chat models for one host, the largest first."""
    found: list[dict[str, Any]] = []
    for recipe in library.recipes.values():
        data = recipe.data
        if 1 in data["host_counts"] and data["kind"] == _CHAT and data["status"]["state"] in _RUN:
            service = {"recipe": recipe.name, "hosts": [name], "port": 8000}
            variables: dict[str, Any] = {"fleet_services": {SERVICE: service}, "fleet_host": settings_of(host.reading)}
            inventory = {name: {"address": host.address or name, "variables": variables}}
            plan = plan_fleet({"hosts": inventory, "folder": "."}, library)
            found += [
                {**row, "recipe": recipe.name} for row in plan["summary"] if row["fits"] == "yes" and row["requests"]
            ]
    return sorted(found, key=lambda row: (-(row["download_bytes"] or 0), row["recipe"]))[:_MOST]
