# SPDX-License-Identifier: GPL-3.0-or-later
"""Where in a plan (`_plan.fleet.plan_fleet`) a rank of a service is."""

from __future__ import annotations

from typing import Any

from .plan import Plan


def rank_of(plan: Plan, service: str, host: str) -> dict[str, Any]:
    """A service's entry in ``services`` of one of its hosts' slices."""
    found: dict[str, Any] = next(one for one in plan["hosts"][host]["services"] if one["name"] == service)
    return found


def head_of(plan: Plan, service: str) -> dict[str, Any]:
    """The same on the host that its endpoint is on, the first of its hosts."""
    return rank_of(plan, service, plan["services"][service]["hosts"][0])
