# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the recipes that others have run fit on a machine: each is planned there alone, as `recipe_lint` does. And
what a plan makes of what serves there."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..._base.findings import finding_of
from ..._engines.recipes.recipe import Library, Recipe
from ..._plan.fleet import plan_fleet
from .adopt import changes
from .decide import Host, Proposal, settings_of

_RUN = ("tested", "reported")
_CHAT = "chat"
SERVICE = "chat"
_MOST = 5


def fitting(name: str, host: Host, library: Library) -> list[dict[str, Any]]:
    """At most five rows of the plan's table, with their `recipe`: chat models for one host, the largest first, behind
    them those that a plan warns of."""
    found: list[dict[str, Any]] = []
    for recipe in library.recipes.values():
        data = recipe.data
        if 1 in data["host_counts"] and data["kind"] == _CHAT and data["status"]["state"] in _RUN:
            service = {"recipe": recipe.name, "hosts": [name], "port": 8000}
            variables: dict[str, Any] = {"fleet_services": {SERVICE: service}, "fleet_host": settings_of(host.reading)}
            inventory = {name: {"address": host.address or name, "variables": variables}}
            plan = plan_fleet({"hosts": inventory, "folder": "."}, library)
            more = {"recipe": recipe.name, "status": data["status"]["state"]}
            found += [{**row, **more} for row in plan["summary"] if row["fits"] == "yes" and row["requests"]]
    return sorted(found, key=lambda row: (row["warnings"] > 0, -(row["download_bytes"] or 0), row["recipe"]))[:_MOST]


def taking_over(hosts: Mapping[str, Host], proposal: Proposal, library: Library) -> dict[str, list[str]]:
    """For each service that runs there what its first start by us changes, and what a plan refuses."""
    own = {service.recipe["name"]: service.recipe for service in proposal.services.values() if service.recipe}
    made = {name: Recipe(name, data, library.folders[0] / f"{name}.yml") for name, data in own.items()}
    services = {name: one.service for name, one in proposal.services.items()}
    shared = {"fleet_services": services, **({"fleet_fabric": proposal.fabric} if proposal.fabric else {})}
    inventory = {
        name: {
            "address": host.address or name,
            "variables": {**shared, **({"fleet_host": settings} if (settings := settings_of(host.reading)) else {})},
        }
        for name, host in hosts.items()
    }
    plan = plan_fleet({"hosts": inventory, "folder": "."}, replace(library, recipes={**library.recipes, **made}))
    errors = [finding_of(row) for row in plan["findings"] if row["severity"] == "error"]
    found: dict[str, list[str]] = {}
    for name, one in proposal.services.items():
        planned = plan["services"].get(name)
        words = [f"to take it over: {way}, on {host}; then site.yml" for host, way in one.stops.items()]
        if planned and (differs := changes(one.runs, planned["flags"])):
            words.append(f"ours starts it with {differs}")
        mine = [error.sentence() for error in errors if name == error.service or one.service["recipe"] == error.recipe]
        found[name] = [*words, *(f"a plan refuses it: {sentence}" for sentence in mine)]
    return found
