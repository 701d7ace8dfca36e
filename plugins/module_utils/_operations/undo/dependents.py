# SPDX-License-Identifier: GPL-3.0-or-later
"""Who needs a host that is to be removed, by the plan: what refuses the removal, and what an owner has to know."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, ordered, warning
from ..._base.place import Place
from ..._base.plan import Plan
from ..._base.ranks import with_groups


def removal(plan: Plan, leaving: Collection[str], named: str, check: bool) -> dict[str, list[str]]:
    """``errors`` and ``warnings``, as sentences.

    leaving: the hosts of the run. named: what the owner wrote as ``-e remove``. check: nothing is changed, so that
    nothing has to be named.
    """
    found = ordered([*dependents(plan, leaving), *([] if check else _unnamed(leaving, named))])
    return {
        f"{severity}s": [finding.sentence() for finding in found if finding.severity == severity]
        for severity in ("error", "warning")
    }


def _unnamed(leaving: Collection[str], named: str) -> Iterator[Finding]:
    names = {name.strip() for name in named.split(",") if name.strip()}
    if names != {*leaving}:
        hosts = ",".join(sorted(leaving))
        found = ", ".join(sorted(names)) or "nothing"
        yield worded.error("remove-unnamed", "-e remove", found=found, leaving=", ".join(sorted(leaving)), hosts=hosts)


def dependents(plan: Plan, leaving: Collection[str]) -> Iterator[Finding]:
    """What hosts that stay have of those that go."""
    staying = [host for host in plan["hosts"] if host not in leaving]
    if not staying:
        return
    for name, service in plan["services"].items():
        yield from _group(name, service["hosts"], leaving)
    for host in staying:
        for kind in ("images", "models"):
            for entry in plan["hosts"][host][kind]:
                source = entry["source"].get("host")  # one that has it, or builds it
                if source and source in leaving:
                    what = str(entry.get("reference") or entry.get("repository"))
                    yield _needed(source, f"{host} takes {what} from it", "write another source", host)
    gateway = plan["gateway"]
    if gateway:
        yield from _gateway(plan, gateway, leaving)
    monitoring = plan["monitoring"]
    watched = sorted({*monitoring["hosts"]} - {*leaving}) if monitoring and monitoring["host"] in leaving else []
    if monitoring and watched:
        remedy = "write another fleet_monitoring.host, or none"
        yield _needed(monitoring["host"], f"it watches {', '.join(watched)}", remedy, *watched)
    elif monitoring and monitoring["host"] not in leaving:
        for host in sorted({*monitoring["hosts"]} & {*leaving}):
            found = f"{monitoring['host']} collects from it and will say that it is silent"
            yield warning(
                "remove-watched", Place(host=host), found=found, remedy=_then(plan, monitoring["host"]), kind="host"
            )
    for host in staying:
        peers = {
            peer["host"] for interface in plan["hosts"][host]["fabric"]["interfaces"] for peer in interface["peers"]
        }
        for gone in sorted(peers & {*leaving}):
            found = f"{host} has a cable to it, whose other end will not answer"
            yield warning("remove-cable", Place(host=gone), found=found, remedy=_then(plan, host), kind="host")


def _group(name: str, hosts: Collection[str], leaving: Collection[str]) -> Iterator[Finding]:
    gone, left = [host for host in hosts if host in leaving], [host for host in hosts if host not in leaving]
    if gone and left:
        together = ",".join(hosts)
        apart = f"take {name} out of fleet_services and add -e retire={name} to site.yml"
        remedy = f"remove them together: -l {together}; or give {name} other hosts, or {apart}"
        yield _needed(gone[0], f"{name} has a rank there, and others on {', '.join(left)}", remedy, *left)


def _gateway(plan: Plan, gateway: Mapping[str, Any], leaving: Collection[str]) -> Iterator[Finding]:
    hosts = {name: service["hosts"] for name, service in plan["services"].items()}
    names = [name for model in gateway["models"] for name in model["services"]]
    stay = [name for name in names if not {*hosts.get(name, ())} & {*leaving}]
    left = [host for host in gateway["hosts"] if host not in leaving]
    for host in gateway["hosts"]:
        if host in leaving and not left and stay:
            found = f"its gateway is the only one, and leads to {', '.join(stay)}"
            yield _needed(host, found, "write other hosts in fleet_gateway, or take it out", *hosts[stay[0]])
    for model in gateway["models"] if left else ():
        gone = [name for name in model["services"] if {*hosts.get(name, ())} & {*leaving}]
        if gone and len(gone) == len({*model["services"]}):
            place = hosts[gone[0]][0]
            found = f"{model['model']}, which the gateway on {', '.join(left)} offers, is served nowhere else"
            yield _needed(place, found, f"give {gone[0]} other hosts, or take it out of fleet_services", *left)
        elif gone:
            place = hosts[gone[0]][0]
            found = f"the gateway on {', '.join(left)} loses {', '.join(gone)}; others serve {model['model']}"
            yield warning("remove-replica", Place(host=place), found=found, remedy=_then(plan, *left), kind="host")


def _needed(host: str, found: str, remedy: str, *others: str) -> Finding:
    return worded.error(
        "remove-needed", Place(host=host), kind="host", found=found, remedy=remedy, others=",".join(sorted({*others}))
    )


def _then(plan: Plan, *hosts: str) -> str:
    return f"take it out of the inventory afterwards, and run site.yml -l {with_groups(plan, hosts)}"
