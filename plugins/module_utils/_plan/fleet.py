# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The plan: from what the owner declares to every decision for the fleet. The only place that decides.

Same declaration in, same plan out, byte for byte: no clock, no random, no order of a map.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils import _layout
from ansible_collections.gb10.fleet.plugins.module_utils._fabric.environment import Member, Slices, group_environment
from ansible_collections.gb10.fleet.plugins.module_utils._fabric.plan import plan_fabric
from ansible_collections.gb10.fleet.plugins.module_utils._findings import Finding, ordered
from ansible_collections.gb10.fleet.plugins.module_utils._gb10 import default_layer, fact
from ansible_collections.gb10.fleet.plugins.module_utils._layers import Value
from ansible_collections.gb10.fleet.plugins.module_utils._memory.budget import Budget, plan_host, requested_bytes
from ansible_collections.gb10.fleet.plugins.module_utils._plan import slices
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared import Declared, Host, read_declaration
from ansible_collections.gb10.fleet.plugins.module_utils._plan.lint import head_request, lint, on_host
from ansible_collections.gb10.fleet.plugins.module_utils._plan.listens import listens
from ansible_collections.gb10.fleet.plugins.module_utils._plan.observed import Observed
from ansible_collections.gb10.fleet.plugins.module_utils._plan.parallel import problems as parallel_problems
from ansible_collections.gb10.fleet.plugins.module_utils._plan.ranks import (
    Ranked,
    group_layers,
    linted_command,
    plan_ranks,
)
from ansible_collections.gb10.fleet.plugins.module_utils._plan.service import (
    Placed,
    decide_environment,
    decide_flags,
    explain,
    explain_environments,
    place,
    served_name,
)
from ansible_collections.gb10.fleet.plugins.module_utils._plan.sizing import Sizing, memory_flags, size_service
from ansible_collections.gb10.fleet.plugins.module_utils._plan.slices import Decided
from ansible_collections.gb10.fleet.plugins.module_utils._recipes.recipe import Library
from ansible_collections.gb10.fleet.plugins.module_utils._transfer.plan import with_sources


class _Findings:
    """Findings with the hosts that they concern; none means the whole fleet."""

    def __init__(self) -> None:
        self._hosts: dict[Finding, set[str]] = {}

    def add(self, findings: Iterable[Finding], hosts: Iterable[str] = ()) -> None:
        for finding in findings:
            self._hosts.setdefault(finding, set()).update(hosts)

    def rows(self) -> list[dict[str, Any]]:
        return [{**finding.as_dict(), "hosts": sorted(self._hosts[finding])} for finding in ordered(self._hosts)]


_NOTHING_OBSERVED = Observed()


def plan_fleet(
    inventory: Mapping[str, Any],
    library: Library,
    of_recipes: Sequence[Finding] = (),
    observed: Observed = _NOTHING_OBSERVED,
) -> dict[str, Any]:
    """Every decision, as a plain map of JSON values (docs/architecture.md, "The plan").

    inventory: ``{hosts: {name: {address, port, variables}}}``. library, of_recipes: what `_recipes.recipe.load_all`
    returned; only the recipes that services name are spoken of. observed: what hosts have shown; figures and findings
    come from it, no decision. Errors are findings; a service with one is left out.
    """
    findings = _Findings()
    findings.add(observed.findings)
    declared, problems = read_declaration(inventory)
    findings.add(problems)
    fabric, problems = plan_fabric(declared.fabric, declared.hosts)
    findings.add(problems)
    placed = [*_placed(declared, library, of_recipes, findings)]
    members = _members(placed, fabric, findings)
    placed = [service for service in placed if service.name in members]
    sized = {service.name: _size(service, library, observed, findings) for service in placed}
    here = _by_host(declared, placed)
    budgets = {name: _budget(host, here[name], sized, observed, findings) for name, host in declared.hosts.items()}
    ranked = [_rank(service, budgets, members[service.name], fabric) for service in placed]
    services = {
        ranks.placed.name: Decided(ranks.placed, _decide(ranks, sized[ranks.placed.name], budgets, findings))
        for ranks in ranked
    }
    decided = {name: [services[service.name] for service in here[name]] for name in declared.hosts}
    hosts = {
        name: _slice(host, decided[name], budgets[name])
        | {"fabric": fabric[name]}
        | {"firewall": slices.firewall(host, declared.firewall, decided[name], fabric[name])}
        for name, host in declared.hosts.items()
    }
    for ranks in ranked:
        name, head = ranks.placed.name, ranks.placed.head.name
        command, config = linted_command(ranks), sized[name].config
        request = head_request(command, services[name], hosts[head], budgets[head], config, observed)
        findings.add(lint(request), ranks.placed.settings["hosts"])
        for host in ranks.placed.hosts:
            launch = {"container": _layout.container(name), "request": on_host(request)}
            hosts[host.name]["needs"]["launches"].append(launch)
    hosts, problems = with_sources(hosts, {name: (host.address, host.port) for name, host in declared.hosts.items()})
    findings.add(problems)
    return {
        "hosts": hosts,
        "services": {name: service.plan for name, service in services.items()},
        "drift": slices.drift(declared.drift),
        "findings": findings.rows(),
    }


def _placed(
    declared: Declared, library: Library, of_recipes: Sequence[Finding], findings: _Findings
) -> Iterator[Placed]:
    """The services that can be planned."""
    for name, settings in declared.services.items():
        wanted = settings["recipe"]
        recipe, problems = library.find(wanted, f"fleet_services.{name}.recipe")
        problems += [finding for finding in of_recipes if f"/{wanted}.y" in finding.place]
        findings.add(problems, settings["hosts"])
        if recipe is not None:
            hosts = [declared.hosts[host] for host in settings["hosts"]]
            placed, problems = place(name, settings, recipe.data, hosts, library)
            findings.add(problems, settings["hosts"])
            if not any(problem.severity == "error" for problem in problems):
                yield placed


def _members(placed: Iterable[Placed], fabric: Slices, findings: _Findings) -> dict[str, Mapping[str, Member]]:
    """By service the part of each of its hosts in the fabric; without the groups that can't be."""
    members: dict[str, Mapping[str, Member]] = {}
    for service in placed:
        hosts = service.settings["hosts"]
        of_hosts, problems = group_environment(fabric, hosts, f"{service.place}.hosts")
        if service.is_group:
            flags = decide_flags(service, default_layer("flags"))
            port, version = service.settings["port"], service.image["vllm"]
            problems += parallel_problems(service.place, port, len(hosts), flags, version)
        findings.add(problems, hosts)
        if not problems:
            members[service.name] = of_hosts
    return members


def _by_host(declared: Declared, placed: Iterable[Placed]) -> dict[str, list[Placed]]:
    """The services that have a rank on each host."""
    here: dict[str, list[Placed]] = {name: [] for name in declared.hosts}
    for service in placed:
        for host in service.hosts:
            here[host.name].append(service)
    return here


def _size(placed: Placed, library: Library, observed: Observed, findings: _Findings) -> Sizing:
    flags = decide_flags(placed, default_layer("flags"))
    environment = decide_environment(placed, placed.head, default_layer("env"))
    sizing, problems = size_service(placed, flags, environment, library, observed)
    findings.add(problems, placed.settings["hosts"])
    return sizing


def _budget(
    host: Host, here: Iterable[Placed], sized: Mapping[str, Sizing], observed: Observed, findings: _Findings
) -> Budget:
    """The memory of one host, over all services that have a rank on it."""
    demands = [sized[service.name].demand_on(host.name, observed) for service in here]
    budget = plan_host(host.name, _memory_total(host), demands)
    findings.add(budget.findings, [host.name])
    return budget


def _memory_total(host: Host) -> int:
    return int(host.settings.get("memory_kib", fact("hardware", "memory_total_kib"))) * 1024


def _rank(placed: Placed, budgets: Mapping[str, Budget], members: Mapping[str, Member], fabric: Slices) -> Ranked:
    """What the service's ranks are made from."""
    shares = [budgets[host.name].shares[placed.name] for host in placed.hosts]
    written = decide_flags(placed, default_layer("flags"))
    flags = decide_flags(placed, default_layer("flags"), memory_flags(shares, written))
    of_group = {host.name: group_layers(members[host.name], flags) if placed.is_group else [] for host in placed.hosts}
    environments = {
        host.name: decide_environment(placed, host, default_layer("env"), *of_group[host.name]) for host in placed.hosts
    }
    return Ranked(placed, flags, environments, members, fabric)


def _decide(ranked: Ranked, sizing: Sizing, budgets: Mapping[str, Budget], findings: _Findings) -> dict[str, Any]:
    """``services.<name>`` of the plan."""
    placed = ranked.placed
    shares = [budgets[host.name].shares[placed.name] for host in placed.hosts]
    pool, problems = sizing.pool(placed, shares)
    findings.add(problems, placed.settings["hosts"])
    requested = _requested(ranked.flags, budgets[placed.head.name], sizing)
    return {
        "recipe": placed.recipe["name"],
        "status": placed.recipe["status"]["state"],
        "hosts": [host.name for host in placed.hosts],
        "endpoint": f"http://{placed.head.url_host}:{placed.settings['port']}/v1",
        "model": served_name(placed, ranked.flags),
        "image": {key: placed.image[key] for key in ("reference", "digest", "vllm")},
        "kv": pool,
        "boot": {"key": sizing.key, "requested_bytes": requested},
        "ranks": plan_ranks(ranked, shares),
        "explain": _reasoned(explain(ranked.flags, "flag") + explain_environments(ranked.environments), placed),
    }


def _reasoned(rows: Iterable[Mapping[str, Any]], placed: Placed) -> list[dict[str, Any]]:
    """The rows; where nobody wrote why, the reason says who wants it so."""
    sources = placed.recipe["sources"]
    wanted = {
        "recipe": f"as in {sources[0]}" if sources else "",
        "service": "as declared",
        "host": "as declared for the host",
    }
    return [{**row, "reason": row["reason"] or wanted.get(row["origin"], "")} for row in rows]


def _requested(flags: Mapping[str, Value], budget: Budget, sizing: Sizing) -> int:
    """The bytes that the command's utilization stands for on the head."""
    return requested_bytes(budget.total, flags["gpu-memory-utilization"].value, sizing.demand.release)


def _slice(host: Host, here: Sequence[Decided], budget: Budget) -> dict[str, Any]:
    """``hosts.<name>`` of the plan: one slice a role."""
    return {
        "host_tuning": slices.host_tuning(host),
        "container_engine": slices.container_engine(host),
        "images": slices.images(here),
        "models": slices.models(here),
        "retention": slices.retention(host, here),
        "vllm": slices.vllm(here, host.name),
        "verify": slices.verify(here, host.name),
        "unread_images": slices.unread_images(here),
        "ranks": slices.ranks(here, host.name),
        "needs": slices.needs(here, host.name, budget.total),
        "listens": listens(here, host.name),
        "versions": slices.versions(host),
        "memory": {service.placed.name: budget.lines(service.placed.name) for service in here},
    }
