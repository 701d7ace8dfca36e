# SPDX-License-Identifier: GPL-3.0-or-later
"""What plans make of machines that were read: the model that fits best, for a first answer or an inventory, and what
serves there now."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..._base.findings import did_you_mean, finding_of
from ..._base.plan import Plan
from ..._base.sizes import size
from ..._engines.recipes.recipe import Library, Recipe
from ..._engines.speed.served import reported_decode
from ..._plan.fleet import plan_fleet
from .adopt import changes
from .decide import Host, Proposal, settings_of

NAME = "chat"
FOLDER = "fleet-try"
_RUN = ("tested", "reported")
# Whoever tries waits for the download, and reads the answer while it comes.
_PATIENCE_BYTES = 40 << 30
_READING_TOKENS_S = 30
_MOST = 5
_PORTS = range(8000, 8100)
# As `fleet_fabric`, and a service of `fleet_services`, have them.
Fabric = Mapping[str, Any]
Service = Mapping[str, Any]


def of_inventories(hosts: Mapping[str, Host]) -> list[dict[str, Any]]:
    """The services there that inventories of this collection keep, as `adopted` has those of others."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for name, host in hosts.items():
        for one in host.reading["ours"]:
            known = found.setdefault((one["service"], one["inventory"]), {**one, "hosts": []})
            known["hosts"].append(name)
            known |= {key: one[key] or known[key] for key in ("model", "port")}
    return [*found.values()]


def port_for(running: Iterable[Service], inventory: str) -> int:
    """The first port on which nobody else answers there. running: what serves. inventory: of this try."""
    taken = {service["port"] for service in running if service.get("inventory") != inventory}
    return next(port for port in _PORTS if port not in taken)


def name_for(running: Iterable[Service], inventory: str) -> str:
    """What the service is called: a name that no other inventory has there."""
    taken = {service.get("service") for service in running if service.get("inventory") != inventory}
    names = itertools.chain([NAME], (f"try-{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in taken)


def named(model: str, library: Library) -> tuple[dict[str, Any], str]:
    """What a service says of a model by its name, a recipe's or ORG/NAME; or why it can't be."""
    if model in library.recipes:
        return {"recipe": model}, ""
    of_models = {one.data["model"]["repository"]: name for name, one in reversed([*library.recipes.items()])}
    if model in of_models:
        return {"recipe": of_models[model]}, ""
    if model.count("/") == 1 and all(model.split("/")):
        return {"model": model}, ""
    remedy = did_you_mean(model, library.recipes)
    return {}, f"model: {model!a} is no recipe and no ORG/NAME of the hub; {remedy}"


def _fits(hosts: Mapping[str, Host], fabric: Fabric, library: Library) -> Iterator[tuple[str, Plan, Any]]:
    """Chat recipes that others have run on so many hosts and that fit there, each with its plan and its row."""
    for name, recipe in library.recipes.items():
        data = recipe.data
        if len(hosts) in data["host_counts"] and data["kind"] == "chat" and data["status"]["state"] in _RUN:
            plan = planned({"recipe": name}, hosts, fabric, library)
            [row] = plan["summary"]
            if row["fits"] == "yes" and row["requests"]:
                yield name, plan, row


def best(hosts: Mapping[str, Host], fabric: Fabric, library: Library) -> str:
    """The recipe for a first answer, empty where none fits: of what others have run, the largest that comes soon and
    answers as fast as a person reads; else the largest that comes soon, or the smallest of all. A recipe that a plan
    warns of comes last."""
    found = [
        (row["download_bytes"] or 0, (spoken(plan) or 0) >= _READING_TOKENS_S, not row["warnings"], name)
        for name, plan, row in _fits(hosts, fabric, library)
        if not [finding for finding in plan["findings"] if finding["severity"] == "error"]
    ]
    found = [item for item in found if item[2]] or found
    soon = [item for item in found if item[0] <= _PATIENCE_BYTES]
    fast_ones = [item for item in soon if item[1]]
    return max(fast_ones or soon or [min(found)])[3] if found else ""


def fitting(name: str, host: Host, library: Library) -> list[dict[str, Any]]:
    """At most five rows of the plan's table, with their `recipe`: chat models for one host, the largest first, behind
    them those that a plan warns of."""
    states = {recipe: one.data["status"]["state"] for recipe, one in library.recipes.items()}
    rows = _fits({name: host}, {}, library)
    found = [{**row, "recipe": recipe, "status": states[recipe]} for recipe, _plan, row in rows]
    return sorted(found, key=lambda row: (row["warnings"] > 0, -(row["download_bytes"] or 0), row["recipe"]))[:_MOST]


def taking_over(hosts: Mapping[str, Host], proposal: Proposal, library: Library) -> dict[str, list[str]]:
    """For each service that runs there what its first start by us changes, and what a plan refuses."""
    own = {service.recipe["name"]: service.recipe for service in proposal.services.values() if service.recipe}
    made = {name: Recipe(name, data, library.folders[0] / f"{name}.yml") for name, data in own.items()}
    services = {name: one.service for name, one in proposal.services.items()}
    plan = plan_of(hosts, services, proposal.fabric, replace(library, recipes={**library.recipes, **made}))
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


def none_fits(hosts: Mapping[str, Host], library: Library) -> str:
    """Why `best` found none, with what to do."""
    counts = {count for recipe in library.recipes.values() for count in recipe.data["host_counts"]}
    if len(hosts) in counts:
        return f"no recipe that others have run fits on {', '.join(hosts)}; name a smaller model: -e model=ORG/NAME"
    fewer = max((count for count in counts if count < len(hosts)), default=1)
    return f"nobody has run a recipe of ours on {len(hosts)} hosts; try {fewer} of them"


def planned(service: Service, hosts: Mapping[str, Host], fabric: Fabric, library: Library) -> Plan:
    """The plan of this service alone. A model that no recipe has is not in it: the hub says what it is."""
    return plan_of(hosts, {NAME: {"port": _PORTS[0], **service, "hosts": [*hosts]}}, fabric, library)


def plan_of(hosts: Mapping[str, Host], services: Mapping[str, Service], fabric: Fabric, library: Library) -> Plan:
    """The plan of these services, with the memory that each host shows."""
    inventory = {
        name: {"address": host.address or name, "variables": variables(host, services, fabric, FOLDER)}
        for name, host in hosts.items()
    }
    return plan_fleet({"hosts": inventory, "folder": "."}, library)


def variables(host: Host, services: Mapping[str, Service], fabric: Fabric, inventory: str) -> dict[str, Any]:
    settings = settings_of(host.reading)
    return {
        "fleet_name": inventory,
        "fleet_services": services,
        **({"fleet_fabric": fabric} if fabric else {}),
        **({"fleet_host": settings} if settings else {}),
    }


def shortage(plan: Plan) -> str:
    """How much a model is too large by; empty where it fits, or where nothing is known."""
    for row in plan["summary"]:
        if row["fits"] == "no":
            free = row["free_bytes"] or 0
            return f"{size(-free)} short" if free < 0 else "too large"
    return ""


def spoken(plan: Plan) -> float | None:
    """The tokens a second that others report of one request; the largest, None where nobody does."""
    return max((speed for service in plan["services"].values() if (speed := reported_decode(service))), default=None)


def running_words(running: Iterable[Service], inventory: str) -> Iterator[str]:
    """What serves there already, a sentence each; as `port_for`."""
    for one in running:
        what = one.get("served_name") or one.get("recipe") or one.get("model") or "a rank"
        end = "it goes on"
        if inventory and one.get("inventory") == inventory:
            end = "the try before; this try takes its place"
        elif "inventory" in one:
            of = f"the inventory {one['inventory']}" if one["inventory"] else "another inventory"
            end = f"{one['service']} of {of}; it goes on, and keeps its memory"
        yield f"{', '.join(one['hosts'])} serves {what} on port {one['port']}: {end}"


def end_lines(folder: str, hosts: Sequence[str]) -> list[str]:
    """How to keep what was tried, and how to take it away."""
    names, first = ",".join(hosts), f"ansible-playbook -i {folder}"
    keep = f"ansible-playbook -i localhost, gb10.fleet.init -e host={names} -e tried={folder}"
    return [
        f"keep it:       {keep}",
        f"take it away:  {first} gb10.fleet.remove -e remove={names} -e images=true -e models=true -K",
    ]
