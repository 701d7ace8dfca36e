# SPDX-License-Identifier: GPL-3.0-or-later
"""Which services and hosts a run is about, and whether its hosts are enough for that."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .._base import worded
from .._base.findings import Finding, did_you_mean, error
from .._base.place import Place
from .._base.plan import Plan
from .._base.ranks import with_groups

# fleet: every host of the run, whether it has a service or not. any: all services, groups: those on several hosts, both
# narrowed by a name. one: the service that has to be named.
Scope = Literal["fleet", "any", "groups", "one"]
# A finding as data, with the hosts that it is about.
Row = dict[str, Any]


def choose(plan: Plan, scope: Scope, service: str) -> tuple[list[str], list[Finding]]:
    """The services that a run is about, and why there are none."""
    known = plan["services"]
    if scope == "fleet":
        return [*known], []
    if service:
        problem = worded.error("service-unknown", "service", remedy=did_you_mean(service, known), service=service)
        return ([service], []) if service in known else ([], [problem])
    if scope == "one":
        known_ones = ", ".join(sorted(known)) or "none"
        remedy = f"write -e service=NAME; known are: {known_ones}"
        return [], [
            error("service-unnamed", "service", found="not given", expected="the name of a service", remedy=remedy)
        ]
    chosen = [name for name in known if scope == "any" or len(known[name]["hosts"]) > 1]
    if scope == "groups" and not chosen:
        found = "no service on several hosts"
        remedy = "name two hosts in a service, or run site.yml for services on one"
        return [], [worded.error("service-no-group", Place(variable="fleet_services"), found=found, remedy=remedy)]
    return chosen, []


def declared_and_retired(plan: Plan, retire: Sequence[str]) -> Iterator[Finding]:
    """Services that are declared and were ordered to be removed: one of the two is a mistake."""
    for name in sorted({*retire} & {*plan["services"]}):
        yield worded.error(
            "service-declared", f"-e retire={name}", name=name, hosts=", ".join(plan["services"][name]["hosts"])
        )


def retried(plan: Plan, retry: Sequence[str]) -> Iterator[Finding]:
    """Services that are to be tried again and that nobody declares."""
    for name in sorted({*retry} - {*plan["services"]}):
        remedy = did_you_mean(name, plan["services"])
        yield worded.error("service-unknown", f"-e retry={name}", remedy=remedy, service=name)


def split_by_limit(plan: Plan, services: Sequence[str], hosts: Sequence[str], named: str = "") -> Iterator[Finding]:
    """Services of which the run has some hosts and not the others, and the one that was named and has none.

    A rank alone can't be started, stopped or changed.
    """
    for name in services:
        wanted = plan["services"][name]["hosts"]
        missing = [host for host in wanted if host not in hosts]
        if missing and (len(missing) < len(wanted) or name == named):
            yield worded.error(
                "service-split",
                "--limit",
                missing=", ".join(missing),
                name=name,
                hosts=with_groups(plan, {*hosts, *missing}),
            )


@dataclass(frozen=True)
class RunVerdict:
    """shown: what a page has, with what a run with this limit would refuse. of_plan: errors of the plan itself.
    errors: why a run ends. warnings: of the plan."""

    shown: list[Row]
    of_plan: int
    errors: list[Row]
    warnings: list[Row]


def judge_run(
    findings: Sequence[Row], problems: Sequence[Finding], split: Sequence[Finding], partial: bool
) -> RunVerdict:
    """What becomes of a run. findings: of the plan. problems: of what the run was asked for.

    split: of `split_by_limit`, which end a run unless it is partial.
    """
    refused = {"severity": "warning", "hosts": [], "silenced": "", "reason": "site.yml with this limit refuses"}
    errors = [finding for finding in findings if finding["severity"] == "error"]
    # a service with an error is not in the plan, so that it would be called unknown as well
    asked = [finding.as_dict() for finding in (*problems, *(() if partial else split))]
    return RunVerdict(
        [*findings, *(one.as_dict() | refused for one in split)],
        len(errors),
        errors or asked,
        [finding for finding in findings if finding["severity"] == "warning"],
    )


def chosen_hosts(plan: Plan, services: Sequence[str], hosts: Sequence[str], scope: Scope, service: str) -> list[str]:
    """The hosts of the run that it is about: those of the services, and the gateway's where no service is named."""
    placed = {host for name in services for host in plan["services"][name]["hosts"]}
    if scope == "any" and not service and plan["gateway"]:
        placed |= {*plan["gateway"]["hosts"]}
    return [host for host in hosts if host in placed or scope == "fleet"]


def removal_of(plan: Plan, hosts: Sequence[str], retire: Sequence[str]) -> dict[str, Any]:
    """What the run is about, for `_subjects.services.undeclared.undeclared`."""
    return {
        "inventory": plan["inventory"],
        "placed": {name: service["hosts"] for name, service in plan["services"].items()},
        "clients": {client["client"]: [client["host"]] for client in plan["clients"]},
        "gateway": plan["gateway"]["hosts"] if plan["gateway"] else [],
        "hosts": list(hosts),
        "retire": list(retire),
    }
