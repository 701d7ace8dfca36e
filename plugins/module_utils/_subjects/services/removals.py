# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run has to say of undeclared services before its first change: errors refuse it, on all its hosts."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..._base import layout, worded
from ..._base.findings import Finding, did_you_mean, warning
from ..._base.place import Place
from .undeclared import REMOVED, Undeclared, undeclared


def findings(found: Iterable[Undeclared], run: Mapping[str, Any]) -> Iterator[Finding]:
    """run: as of `undeclared`."""
    for item in found:
        place = Place(service=item.service, thing=item.service)
        compiled = "" if layout.client_of(item.unit) else "what it has compiled, "
        container = f"its container {item.container}, {compiled}" if item.container else ""
        its = f"its unit, {container}its settings and secrets"
        on = ", ".join(item.hosts)
        if item.fate == "renamed":
            yield worded.host_warning("service-renamed", place, unit=item.unit, planned=layout.unit(item.service))
        elif item.fate in REMOVED:
            why = f"it is declared on {on}" if item.hosts else f"-e retire={item.service}"
            yield worded.host_warning("service-removed", place, its=its, why=why)
        elif item.fate == "gone":
            yield worded.host_error("service-undeclared/gone", place, unit=item.unit, service=item.service, its=its)
        elif item.fate == "away":
            missing = ",".join(sorted({*item.hosts, *run["hosts"]}))
            yield worded.host_error("service-undeclared/away", place, on=on, missing=missing)
        elif item.fate == "waiting":
            yield worded.host_warning("service-undeclared/waiting", place, on=on)
        elif item.fate != "foreign" or not run.get("shown"):
            yield _of_another_inventory(item, place, run["inventory"])


def _of_another_inventory(one: Undeclared, place: Place, own: str) -> Finding:
    found = f"{one.unit} was written by the inventory {one.inventory}"
    if one.fate == "foreign":
        return worded.host_warning("service-foreign/alone", place, its_found=found, own=own)
    if one.fate == "joined":
        name, other = one.service, one.inventory
        return worded.host_error("service-foreign/joined", place, its_found=found, own=own, name=name, other=other)
    return worded.host_error("service-foreign/taken", place, found=found, own=own, other=one.inventory)


def not_there(states: Mapping[str, Any], run: Mapping[str, Any]) -> Iterator[Finding]:
    """Names that a run is to remove and that none of its hosts has: misspelt, or removed before."""
    there = {one.service for host, state in states.items() for one in undeclared(state["our_units"] or (), host, run)}
    for name in sorted({*run["retire"]} - there):
        found = f"no host of this run has {name}: nothing is removed"
        remedy = did_you_mean(name, there) if there else "leave it out"
        yield warning("service-not-there", f"-e retire={name}", found=found, remedy=remedy)
