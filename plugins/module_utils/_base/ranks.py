# SPDX-License-Identifier: GPL-3.0-or-later
"""Where in a plan (`_plan.fleet.plan_fleet`) a rank of a service is."""

from collections.abc import Collection, Iterable

from .plan import GatewayPlan, Plan
from .slice import ServiceSlice


def rank_of(plan: Plan, service: str, host: str) -> ServiceSlice:
    """A service's entry in ``services`` of one of its hosts' slices."""
    return next(one for one in plan["hosts"][host]["services"] if one["name"] == service)


def head_of(plan: Plan, service: str) -> ServiceSlice:
    """The same on the host that its endpoint is on, the first of its hosts."""
    return rank_of(plan, service, plan["services"][service]["hosts"][0])


def with_groups(plan: Plan, hosts: Iterable[str]) -> str:
    """What follows -l: these hosts, and those with which they share services, since a rank alone can't be changed."""
    found, more = set[str](), {*hosts}
    while more - found:
        found |= more
        more = {
            host for service in plan["services"].values() if found & {*service["hosts"]} for host in service["hosts"]
        }
    return ",".join(sorted(found))


def elsewhere(plan: Plan, hosts: Collection[str]) -> dict[str, str]:
    """By model of the gateway the hosts that serve it, of those that none of these hosts serves."""
    rows = plan["gateway"]["models"] if plan["gateway"] else ()
    of = {row["model"]: {host for name in row["services"] for host in plan["services"][name]["hosts"]} for row in rows}
    return {model: ", ".join(sorted(serve)) for model, serve in of.items() if not serve & {*hosts}}


def front_of(plan: Plan, service: str) -> GatewayPlan | None:
    """The gateway that clients ask for a service, which lets in nobody else; None where they ask the service itself."""
    gateway = plan["gateway"]
    return gateway if gateway and any(service in row["services"] for row in gateway["models"]) else None
