# SPDX-License-Identifier: GPL-3.0-or-later
"""The end table for programs: what ansible-runner and AWX keep of a run as its artifacts.

A result's ``ansible_stats`` is what ``set_stats`` returns; ansible-core merges those of a run's tasks, and
ansible-runner puts them into its last event, ``playbook_on_stats``, as ``artifact_data``. What stopped hosts stands in
its events ``runner_on_failed`` and ``runner_on_unreachable``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ..._base.plan import Plan
from ..._base.ranks import front_of

KEY = "gb10_fleet"


def of_plan(plan: Plan, services: Iterable[str]) -> dict[str, Any]:
    """What the run is about: ``{service: {endpoint, model, context, pool_bytes, hosts}}``; None where not known."""
    return _stats({name: _declared(plan, name) for name in services})


def _declared(plan: Plan, name: str) -> dict[str, Any]:
    service, front = plan["services"][name], front_of(plan, name)
    return {
        "endpoint": front["url"] if front else service["endpoint"],
        "model": service["served_name"],
        "context": service["kv"]["context"],
        "pool_bytes": service["kv"]["bytes"],
        "hosts": [*service["hosts"]],
    }


def of_proof(service: str, state: str, answer: str) -> dict[str, Any]:
    """What one real request has shown."""
    return _stats({service: {"state": state, "answer": answer}})


def of_ranks(ranks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """How the ranks of a host do: each one's health, by its number, and what is wrong with it."""
    services: dict[str, Any] = {}
    for rank in ranks:
        seen = {"health": rank["health"], "problems": rank["problems"]}
        services.setdefault(rank["service"], {"ranks": {}})["ranks"][str(rank["rank"])] = seen
    return _stats(services)


def _stats(services: dict[str, object]) -> dict[str, Any]:
    return {"ansible_stats": {"data": {KEY: {"services": services}}, "aggregate": True, "per_host": False}}
