# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as a type, so that a misspelt key is an error of mypy.

docs/architecture.md, "The plan", says what each part means. `_plan.fleet.plan_fleet` makes it, and a test holds the
keys here equal to those of real plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict


class _Found(TypedDict):
    severity: Literal["error", "warning", "hint"]
    rule: str
    kind: str
    place: str
    host: str
    more: int
    service: str
    recipe: str
    variable: str
    thing: str
    part: str
    option: str
    found: str
    expected: str
    remedy: str
    reason: str
    source: str
    hosts: list[str]


class FindingRow(_Found, total=False):
    """A finding as a map: `_base.findings.Finding.as_dict`. hosts: those that it concerns; none for the whole fleet.
    silenced: of the linter, the owner's reason."""

    silenced: str


class SummaryRow(TypedDict):
    """What an owner wants to know first of a service: `_plan.summary.summary`."""

    service: str
    hosts: list[str]
    fits: str
    requests: float | None
    context: int | None
    free_bytes: int | None
    download_bytes: int | None
    first_start_s: float | None
    start_limit_s: int | None
    errors: int
    warnings: int
    remedy: str


class ServicePlan(TypedDict):
    """What is decided of a service as a whole."""

    recipe: str
    engine: str
    status: str
    reported: dict[str, Any]
    measured: list[dict[str, Any]]
    costs: dict[str, Any]
    hosts: list[str]
    endpoint: str
    served_name: str
    image: dict[str, Any]
    kv: dict[str, Any]
    boot: dict[str, Any]
    flags: dict[str, Any]
    explain: list[dict[str, Any]]


class ServiceSlice(TypedDict):
    """A service in one host's slice: `_plan.service_slice.service_slice`. supervisor: what its rank file says."""

    name: str
    engine: str
    unit: str
    rank: int
    ranks: int
    hosts: list[str]
    definition: str
    container: Mapping[str, Any]
    exec: Sequence[str] | None
    flags: dict[str, Any]
    files: dict[str, dict[str, str | None]]
    merged: list[dict[str, Any]]
    models: list[str]
    folders: dict[str, str | None]
    key: dict[str, Any] | None
    tls: dict[str, Any] | None
    trace_headers: dict[str, str] | None
    secret: dict[str, str] | None
    rank_file: str
    supervisor: Mapping[str, Any]
    status_file: str
    memory_bytes: int
    memory_floor_bytes: int
    proof: dict[str, Any] | None


class Plan(TypedDict):
    """Every decision for a fleet. hosts: by name the slice that each role takes its own part of."""

    inventory: str
    gateway: dict[str, Any] | None
    clients: list[dict[str, Any]]
    monitoring: dict[str, Any] | None
    phoenix: dict[str, Any] | None
    hosts: dict[str, dict[str, Any]]
    services: dict[str, ServicePlan]
    drift: dict[str, Any]
    findings: list[FindingRow]
    summary: list[SummaryRow]
