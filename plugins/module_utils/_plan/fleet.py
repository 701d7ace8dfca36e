# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan: from what the owner declares to every decision for the fleet. The only place that decides.

Same declaration in, same plan out, byte for byte: no clock, no random, no order of a map.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from .._base.findings import Finding, ordered
from .._base.gb10 import fact
from .._base.layers import Value, merge
from .._base.place import Place
from .._base.plan import Plan, ServicePlan
from .._base.sizes import gib
from .._base.slice import Slice, TuningSlice
from .._engines.decided import Decided
from .._engines.declaration import ServiceData
from .._engines.engine import Engine
from .._engines.environment import Slices
from .._engines.interface import Facts, ServiceSizing
from .._engines.memory.budget import Budget, plan_hosts
from .._engines.observed import Observed
from .._engines.placed import Host, Placed
from .._engines.recipes.recipe import Library
from .._engines.registry import ENGINES
from .._engines.speed.served import drafts_that_cost, speed_of
from .._stores.lock.lock import EMPTY, KINDS, Lock, anchored, unknown_name
from .._stores.transfer.plan import with_sources
from .._subjects.fabric.plan import plan_fabric
from .._subjects.fleet.subject import FleetPart, PlanContext
from .._subjects.host_tuning.subject import host_tuning, impossible, named_paths
from .._subjects.registry import FLEET_SUBJECTS, SUBJECTS
from . import slices
from .builds import built_on, with_one_builder
from .container import docker_options
from .declared import Declared, read_declaration
from .drift import unmeasured
from .fold import folded
from .listens import listens
from .models import chosen_recipe
from .ranks import Configured, judged_container, plan_ranks, port_clashes
from .service import place
from .service_slice import service_slice
from .summary import costs, summary
from .trust import trust_problems


class _Findings:
    """Findings with the hosts that they concern; none means the whole fleet."""

    def __init__(self) -> None:
        self._hosts: dict[Finding, set[str]] = {}

    def add(self, findings: Iterable[Finding], hosts: Iterable[str] = ()) -> None:
        for finding in findings:
            self._hosts.setdefault(finding, set()).update(hosts)

    def rows(
        self, computed: Mapping[str, Iterable[str]], workloads: Mapping[str, Iterable[str]]
    ) -> list[dict[str, Any]]:
        """computed, workloads: as of `_plan.fold.folded`."""
        found = [(finding, tuple(sorted(self._hosts[finding]))) for finding in ordered(self._hosts)]
        return [{**finding.as_dict(), "hosts": [*hosts]} for finding, hosts in folded(found, computed, workloads)]


_NOTHING_OBSERVED = Observed()


def plan_fleet(
    inventory: Mapping[str, object],
    library: Library,
    of_recipes: Sequence[Finding] = (),
    observed: Observed = _NOTHING_OBSERVED,
    engines: Mapping[str, Engine] = ENGINES,
    lock: Lock = EMPTY,
    relock: str = "",
) -> Plan:
    """Every decision, as a plain map of JSON values (docs/explanation/architecture.md, "The plan").

    inventory: ``{hosts: {name: {address, port, variables}}, folder}``. library, of_recipes: what
    `_engines.recipes.recipe.load_all` returned; only folders, and the recipes that services name, are spoken of.
    observed: what hosts have shown; figures and findings come from it, no decision. engines: by the names that recipes
    write. lock: what images and models are known by. relock: the name of one whose place in the lock doesn't count any
    more. Errors are findings; a service with one is left out.
    """
    findings = _Findings()
    findings.add(observed.findings)
    findings.add(recipe for recipe in of_recipes if recipe.rule in ("recipe-folder", "recipe-source"))
    declared, problems = read_declaration(inventory)
    findings.add(problems)
    fabric, problems = plan_fabric(declared.fabric, declared.hosts)
    findings.add(problems)
    placed = _together([*_placed(declared, library, of_recipes, fabric, engines, findings)], lock, relock, findings)
    served = _serve(declared.hosts, placed, fabric, observed, findings)
    drift = slices.drift(declared.drift)
    findings.add(unmeasured(drift, declared.services, served.engines, _MEASURED))
    parts = _parts(declared, served, drift, findings)
    sources = _sources(declared.hosts, served, parts, fabric, findings)
    _lock(sources, lock, relock, findings)
    hosts = {
        name: _host_slice(host, declared, served, parts, {"fabric": fabric[name], **sources[name]})
        for name, host in declared.hosts.items()
    }
    workloads = {service.name: [*service.settings["workload"]] for service in placed}
    plan = cast(
        Plan,
        {
            "inventory": declared.name,
            **{subject.name: parts[subject.name].shown() for subject in FLEET_SUBJECTS if subject.spec is not None},
            "hosts": hosts,
            "services": {name: dict(service.plan) for name, service in served.services.items()},
            "drift": drift,
            "findings": findings.rows(served.computed, workloads),
        },
    )
    plan["summary"] = summary(plan, declared.services)
    return plan


# Engines whose images bring a load generator.
_MEASURED = [name for name, engine in ENGINES.items() if engine.spec.load]


@dataclass(frozen=True)
class _Served:
    """What is decided of all services, by their names, and of the hosts' memory and settings.

    requests: what is judged again with what only a host knows. computed: the options that memory adds.
    """

    placed: Sequence[Placed]
    services: Mapping[str, Decided]
    requests: Mapping[str, Mapping[str, Any]]
    computed: Mapping[str, set[str]]
    budgets: Mapping[str, Budget]
    tuning: Mapping[str, TuningSlice]

    @property
    def engines(self) -> dict[str, str]:
        return {name: service.placed.engine.spec.name for name, service in self.services.items()}

    def on(self, host: str) -> list[Decided]:
        """The services that have a rank on a host."""
        return [service for service in self.services.values() if host in service.placed.settings["hosts"]]


def _serve(
    hosts: Mapping[str, Host], placed: Sequence[Placed], fabric: Slices, observed: Observed, findings: _Findings
) -> _Served:
    tuning = {name: host_tuning(host.settings) for name, host in hosts.items()}
    for name, settings in tuning.items():
        findings.add(impossible(settings), [name])
    sized = {service.name: _size(service, observed, findings) for service in placed}
    here = {name: [service for service in placed if name in service.settings["hosts"]] for name in hosts}
    budgets = _budgets(hosts, here, sized, observed, findings)
    services: dict[str, Decided] = {}
    requests: dict[str, Mapping[str, Any]] = {}
    computed: dict[str, set[str]] = {}
    for service in placed:
        name, head = service.name, service.head.name
        configured, services[name] = _decide(service, sized[name], budgets, fabric, observed, findings)
        computed[name] = {*configured.flags} - {*service.flags}
        facts = _facts(configured, services[name], tuning[head], budgets[head], sized[name], observed)
        request = service.engine.request(facts)
        if request is not None:
            findings.add(service.engine.judge(request, service.place), service.settings["hosts"])
            requests[name] = service.engine.for_host(request)
    return _Served(placed, services, requests, computed, budgets, tuning)


def _parts(
    declared: Declared, served: _Served, drift: Mapping[str, object], findings: _Findings
) -> dict[str, FleetPart]:
    """What is decided of each fleet subject, by its name."""
    left = {name: budget.planned_left for name, budget in served.budgets.items()}
    parts: dict[str, FleetPart] = {}
    for subject in FLEET_SUBJECTS:
        built_on = {name: parts[name] for name in subject.after}
        context = PlanContext(declared.name, declared.hosts, served.services, left, drift, built_on)
        parts[subject.name], problems = subject.plan(declared.fleet.declared.get(subject.name), context)
        findings.add(problems)
        for name, host in declared.hosts.items():
            findings.add(parts[subject.name].judge(host), [name])
    return parts


def _sources(
    hosts: Mapping[str, Host], served: _Served, parts: Mapping[str, FleetPart], fabric: Slices, findings: _Findings
) -> dict[str, dict[str, Any]]:
    """By host what it gets from where: images, models, and who reads from it."""
    others = {name: [image for part in parts.values() for image in part.images(name)] for name in hosts}
    sources, problems = with_sources(
        {name: slices.images(served.on(name), [*built_on(name, served.placed), *others[name]]) for name in hosts},
        {name: slices.models(served.on(name), name) for name in hosts},
        fabric,
        {name: (host.address, host.port) for name, host in hosts.items()},
    )
    findings.add(problems)
    return sources


def _host_slice(
    host: Host, declared: Declared, served: _Served, parts: Mapping[str, FleetPart], decided: Mapping[str, object]
) -> Slice:
    """``hosts.<name>``. decided: its part of the fabric and what it stores."""
    name, services, budget = host.name, served.on(host.name), served.budgets[host.name]
    callers = next((part.callers for part in parts.values() if part.callers), "")
    slice_: dict[str, Any] = {
        **decided,
        "retention": slices.retention(host, services),
        "services": [service_slice(service, name, declared.name) for service in services],
        "unread_images": slices.unread_images(name, services),
        "listens": [*listens(services, name, callers), *(row for part in parts.values() for row in part.listens(name))],
        "memory": {service.placed.name: budget.lines(service.placed.name) for service in services},
    }
    for key, part in parts.items():
        slice_[key] = part.slice(host, cast(Slice, slice_))
    # each from what the others say by then
    of_fleet = {"firewall": declared.firewall, "name": declared.name, "ca": declared.ca}
    for subject in SUBJECTS:
        if subject.slice is not None:
            slice_[subject.name] = subject.slice(
                slices.here(host, of_fleet, services, parts.values(), cast(Slice, {**slice_}))
            )
    named = [path for _, path in named_paths(served.tuning[name])]
    needs = slices.needs(services, name, budget.total, served.requests, named, cast(Slice, slice_))
    return cast(Slice, {**slice_, "needs": needs})


def _placed(
    declared: Declared,
    library: Library,
    of_recipes: Sequence[Finding],
    fabric: Slices,
    engines: Mapping[str, Engine],
    findings: _Findings,
) -> Iterator[Placed]:
    """The services that can be planned."""
    asked = any(claim.readiness for claim in declared.fleet.claims)
    for name, written in declared.services.items():
        settings: ServiceData = {**written, "readiness": asked}
        recipe, problems = chosen_recipe(settings, Place(service=name), library)
        wanted = settings["recipe"] or (recipe["name"] if recipe else "")
        its_own = [finding for finding in of_recipes if wanted and finding.recipe == wanted]
        # a recipe that can't be read is there, and what is wrong with it is the finding
        unreadable = recipe is None and any(finding.severity == "error" for finding in its_own)
        problems = its_own if unreadable else [*problems, *its_own]
        findings.add(problems, settings["hosts"])
        if recipe is not None:
            hosts = [declared.hosts[host] for host in settings["hosts"]]
            placed, problems = place(name, settings, recipe, hosts, library, fabric, engines)
            if placed is not None and (aliases := _aliases(placed, declared)):
                again: ServiceData = {**settings, "aliases": aliases}
                placed, problems = place(name, again, recipe, hosts, library, fabric, engines)
            findings.add(problems, settings["hosts"])
            if placed is not None:
                yield placed


def _aliases(placed: Placed, declared: Declared) -> list[str]:
    """Further names of its model, whose sender can't change a request's body: its engine has to know them."""
    wanted = {alias: model for claim in declared.fleet.claims for alias, model in claim.aliases.items()}
    model = placed.engine.served_name(placed, placed.flags) if wanted else ""
    return sorted(alias for alias, its in wanted.items() if its == model)


def _size(placed: Placed, observed: Observed, findings: _Findings) -> ServiceSizing:
    sizing, problems = placed.engine.size(placed, observed)
    findings.add(problems, placed.settings["hosts"])
    return sizing


def _budgets(
    hosts: Mapping[str, Host],
    here: Mapping[str, Sequence[Placed]],
    sized: Mapping[str, ServiceSizing],
    observed: Observed,
    findings: _Findings,
) -> dict[str, Budget]:
    """The memory of each host, over all services that have a rank on it."""
    demands = {
        name: [
            replace(sized[rank.name].demand_on(name, observed), head=rank.is_group and rank.head.name == name)
            for rank in here[name]
        ]
        for name in hosts
    }
    desktops = {name for name, host in hosts.items() if _keeps_a_desktop(host)}
    kept = {name: _kept_free(host) for name, host in hosts.items()}
    budgets = plan_hosts({name: host.memory_bytes for name, host in hosts.items()}, demands, desktops, kept)
    for name, budget in budgets.items():
        findings.add(budget.findings, [name])
    return budgets


def _kept_free(host: Host) -> int:
    """What the host's kernel keeps for itself, so that nobody has it available."""
    written = str(host.settings.get("host_tuning", {}).get("sysctl", {}).get("vm.min_free_kbytes") or 0)
    return int(written) * 1024 if written.isascii() and written.isdecimal() else 0


def _keeps_a_desktop(host: Host) -> bool:
    headless = fact("host_tuning", "default_target")
    return bool(host.settings.get("host_tuning", {}).get("default_target", headless) != headless)


def _together(placed: Sequence[Placed], lock: Lock, relock: str, findings: _Findings) -> list[Placed]:
    """The services, each image that is built with one builder, and what is wrong with them beside each other."""
    services, problems = with_one_builder(placed)
    findings.add(problems)
    for service in services:
        findings.add(trust_problems(service, lock, relock), service.settings["hosts"])
    findings.add(port_clashes(services))
    return services


def _decide(
    placed: Placed,
    sizing: ServiceSizing,
    budgets: Mapping[str, Budget],
    fabric: Slices,
    observed: Observed,
    findings: _Findings,
) -> tuple[Configured, Decided]:
    """What follows from the memory that a service has on its hosts: its flags, its ranks, ``services.<name>``."""
    shares = [budgets[host.name].shares[placed.name] for host in placed.hosts]
    flags = dict(sorted({**placed.flags, **merge([placed.engine.memory_flags(placed, shares)])}.items()))
    limits = {host.name: _memory_limit(budgets[host.name], placed.name) for host in placed.hosts}
    configured = Configured(placed, flags, fabric, limits)
    pool, problems = sizing.pool(placed, shares)
    findings.add(problems, placed.settings["hosts"])
    values = {name: value.value for name, value in flags.items()}
    record = observed.speeds.get(placed.head.name, {}).get(sizing.key)
    requested = sizing.requested_bytes(flags, budgets[placed.head.name].total)
    start = observed.boots.get(placed.head.name, {}).get(sizing.key)
    kernels = start["log"]["kernels"] if start else None
    speed = speed_of(placed, values, placed.engine.sequences(flags), requested, record, kernels)
    findings.add(drafts_that_cost(placed.name, speed), placed.settings["hosts"])
    plan = {
        "recipe": placed.recipe["name"],
        "engine": placed.engine.spec.name,
        "status": placed.recipe["status"]["state"],
        "reported": _reported(placed),
        "measured": placed.recipe["measured"],
        "costs": costs(
            placed, values, sizing.key, observed, placed.recipe["startup_limit_s"] or fact("limits", "startup_limit_s")
        ),
        "hosts": [host.name for host in placed.hosts],
        "endpoint": placed.client_url,
        "served_name": configured.served_name,
        "image": {key: placed.image[key] for key in ("reference", "digest", "release")},
        "flags": values,
        "kv": pool,
        "speed": speed,
        "boot": {
            "key": sizing.key,
            "memory_total_bytes": budgets[placed.head.name].total,
            "requested_bytes": requested,
        },
        "explain": _reasoned(
            placed,
            [
                *_explained(flags, "flag"),
                *_explained_environments(placed.environments),
                *_explained(placed.isolation, "container"),
            ],
        ),
    }
    slots = placed.engine.sequences(configured.flags)
    return configured, Decided(placed, plan_ranks(configured, shares), cast(ServicePlan, plan), slots)


def _reported(placed: Placed) -> dict[str, Any]:
    """Who says that the recipe works: {by, when, hardware, note, image: the one that he used}; None where not known."""
    status, of_recipe = placed.recipe["status"], placed.recipe["image"]
    image = of_recipe.get("reference") or placed.image["reference"]
    return {key: status.get(key) for key in ("by", "when", "hardware", "note")} | {"image": image}


def _memory_limit(budget: Budget, service: str) -> int:
    """What a service's container may have in memory on a host, in bytes: what the service is planned to take at most
    and what compilers take besides at a first start, but never what the host needs itself.

    Nothing of other services is in it, since one more on the host would else start this one anew; and nothing that
    boots have shown. Files that it reads count too, but the kernel drops them before the limit ends anything.
    """
    most = budget.shares[service].footprint.high + gib(fact("limits", "compilers_gib"))
    return int(min(most, budget.total - gib(fact("memory", "floor_gib"))))


def _facts(
    configured: Configured,
    service: Decided,
    tuning: TuningSlice,
    budget: Budget,
    sizing: ServiceSizing,
    observed: Observed,
) -> Facts:
    """What a launch is judged by. tuning, budget: the head's."""
    container = judged_container(configured)
    return Facts(
        placed=service.placed,
        container=container,
        options=[*docker_options(container)],
        tuning=tuning,
        fabric=configured.fabric[service.placed.head.name],
        budget=budget,
        sizing=sizing,
        kv=service.plan["kv"],
        startup_limit_s=service.ranks[0].supervisor.limits.startup_limit_s,
        observed=observed,
    )


def _lock(sources: Mapping[str, dict[str, Any]], lock: Lock, relock: str, findings: _Findings) -> None:
    """Put what each image and model is known by into the hosts' slices."""
    for host, slice_ in sources.items():
        for kind in KINDS:
            entries = [anchored(kind, entry, lock, relock) for entry in slice_[kind]]
            slice_[kind] = [entry for entry, _ in entries]
            for _, problems in entries:
                findings.add(problems, [host])
    wanted = {kind: {host: slice_[kind] for host, slice_ in sources.items()} for kind in KINDS}
    findings.add(unknown_name(relock, wanted))


# Values with their origin and reason ------------------------------------------------------------------------------


def _explained(decided: Mapping[str, Value], kind: str) -> Iterator[dict[str, Any]]:
    for key, value in decided.items():
        yield {"kind": kind, "name": key, "value": value.value, "origin": value.origin, "reason": value.reason}


def _explained_environments(environments: Mapping[str, Mapping[str, Value]]) -> Iterator[dict[str, Any]]:
    """The variables of all hosts: one row where all have the same value, else one a host."""
    for name in sorted({name for variables in environments.values() for name in variables}):
        found = {host: variables[name] for host, variables in environments.items() if name in variables}
        if len(found) == len(environments) and len({value.value for value in found.values()}) == 1:
            yield from _explained({name: next(iter(found.values()))}, "env")
        else:
            yield from _explained({f"{name} ({host})": value for host, value in found.items()}, "env")


def _reasoned(placed: Placed, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows; where nobody wrote why, the reason says who wants it so."""
    sources = placed.recipe["sources"]
    wanted = {
        "recipe": f"as in {sources[0]}" if sources else "",
        "service": "as declared",
        "host": "as declared for the host",
    }
    return [{**row, "reason": row["reason"] or wanted.get(row["origin"], "")} for row in rows]
