# SPDX-License-Identifier: GPL-3.0-or-later
"""Where in a plan (`_plan.fleet.plan_fleet`) a rank of a service is."""

from .plan import GatewayPlan, Plan
from .slice import ServiceSlice


def rank_of(plan: Plan, service: str, host: str) -> ServiceSlice:
    """A service's entry in ``services`` of one of its hosts' slices."""
    return next(one for one in plan["hosts"][host]["services"] if one["name"] == service)


def head_of(plan: Plan, service: str) -> ServiceSlice:
    """The same on the host that its endpoint is on, the first of its hosts."""
    return rank_of(plan, service, plan["services"][service]["hosts"][0])


def front_of(plan: Plan, service: str) -> GatewayPlan | None:
    """The gateway that clients ask for a service, which lets in nobody else; None where they ask the service itself."""
    gateway = plan["gateway"]
    return gateway if gateway and any(service in row["services"] for row in gateway["models"]) else None
