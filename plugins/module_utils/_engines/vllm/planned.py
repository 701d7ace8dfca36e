# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that a service's vLLM starts with on one host, as the plan has decided them."""

from collections.abc import Iterable
from typing import Any

from ..._base import worded
from ..._base.findings import FleetError, did_you_mean, error
from ..._base.plan import Plan
from ..._base.ranks import rank_of
from .spec import SPEC


def vllm_flags(plan: Plan, service: str, host: str | None = None) -> dict[str, Any]:
    """Options by name, without dashes. host: the service's first host without it. FleetError for an unknown name."""
    planned = plan["services"]
    _require(service, planned, "service", "a service that the plan has; one with an error is not in it")
    hosts = planned[service]["hosts"]
    host = hosts[0] if host is None else host
    _require(host, hosts, f"{service} on host", "a host of this service")
    if planned[service]["engine"] != SPEC.name:
        raise FleetError(worded.error("vllm-flags", service, engine=planned[service]["engine"], host=host))
    return {**rank_of(plan, service, host)["flags"]}


def _require(name: str, known: Iterable[str], place: str, expected: str) -> None:
    if name not in known:
        raise FleetError(
            error("vllm-flags", f"{place} {name}", found="unknown", expected=expected, remedy=did_you_mean(name, known))
        )
