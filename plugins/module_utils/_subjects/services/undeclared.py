# SPDX-License-Identifier: GPL-3.0-or-later
"""Services, clients and gateways on a host that the inventory does not have there: what a run may do with each.

Absence is no order. A service is removed when it was ordered by name, or when it is declared on other hosts of the run.
What another inventory wrote is left alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..._base import layout
from ..._base.findings import Finding, did_you_mean, error, warning
from ..._base.place import Place

# ordered: by name. moved: to other hosts of this run. away: to hosts that this run leaves out. waiting: to hosts that
# are out of reach. renamed: declared here, by a unit of an earlier release, which named them otherwise. gone: declared
# nowhere. foreign: of another inventory. joined: so, and a rank of a group. taken: so, and its name is declared here.
Fate = Literal["ordered", "moved", "away", "waiting", "renamed", "gone", "foreign", "joined", "taken"]
# The name by which a run is ordered to remove the gateway, which no service beside it has.
GATEWAY = "gateway"
REMOVED: tuple[Fate, ...] = ("ordered", "moved", "renamed")
FOREIGN: tuple[Fate, ...] = ("foreign", "joined")


@dataclass(frozen=True)
class Undeclared:
    """A unit of ours on a host. files, folders: all that was written for it. inventory: that wrote it; empty where not
    known. container: that it runs; empty for the gateway's.

    hosts: where its service is declared now.
    """

    service: str
    unit: str
    container: str
    files: tuple[str, ...]
    folders: tuple[str, ...]
    inventory: str
    hosts: tuple[str, ...]
    fate: Fate

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def undeclared(units: Iterable[Mapping[str, Any]], host: str, run: Mapping[str, Any]) -> list[Undeclared]:
    """units: ``{unit, inventory, ranks}`` of a reading (`_subjects.services.reading.read_units`).

    run: what the run is about, as `gb10.fleet.plan` returns it: ``inventory``, its name; ``placed``, the hosts of each
    service; ``clients``, those of each client; ``gateway``, the hosts of it; ``hosts`` of the run; ``retire``, what is
    to be removed. ``alive``: the hosts that go on, if known.
    """
    found = []
    for one in sorted(units, key=lambda unit: unit["unit"]):
        is_gateway, client = one["unit"] == layout.GATEWAY_UNIT, layout.client_of(one["unit"])
        name = GATEWAY if is_gateway else client or layout.service_of(one["unit"])
        if name is None:
            continue
        placed = run.get("clients", {}) if client else run["placed"]
        hosts = run.get("gateway", ()) if is_gateway else placed.get(name, ())
        is_foreign = bool(one["inventory"]) and one["inventory"] != run["inventory"]
        is_current = is_gateway or client or one["unit"] == layout.unit(name)
        if host in hosts and not is_foreign and is_current:
            continue
        fate = _of_another(one, host, hosts) if is_foreign else _fate(name, host, hosts, run)
        goes_on = fate == "renamed"
        files, folders = _of_it(name, is_gateway, client, goes_on)
        found.append(
            Undeclared(
                name,
                one["unit"],
                "" if is_gateway else one["unit"].removesuffix(".service"),
                (f"{layout.UNITS}/{one['unit']}", *files),
                () if goes_on else folders,
                one["inventory"],
                tuple(hosts),
                fate,
            )
        )
    return found


def _of_another(unit: Mapping[str, Any], host: str, hosts: Sequence[str]) -> Fate:
    if host in hosts:
        return "taken"
    return "joined" if unit["ranks"] > 1 else "foreign"


def _fate(name: str, host: str, hosts: Sequence[str], run: Mapping[str, Any]) -> Fate:
    if host in hosts:
        return "renamed"
    if hosts:
        if not {*hosts} <= {*run["hosts"]}:
            return "away"
        return "moved" if {*hosts} <= {*run.get("alive", run["hosts"])} else "waiting"
    return "ordered" if name in run["retire"] else "gone"


def _of_it(name: str, is_gateway: bool, client: str | None, goes_on: bool) -> tuple[list[str], tuple[str, ...]]:
    """Files beside its unit, and folders; what a client keeps for its people stays, as weights do."""
    if is_gateway:
        others = [unit for unit in layout.GATEWAY_UNITS if unit != layout.GATEWAY_UNIT]
        return [f"{layout.UNITS}/{unit}" for unit in others], (layout.GATEWAY,)
    if client:
        return [], (layout.client_folder(name),)
    return _files_of(name, goes_on=goes_on), (layout.compiled(name), layout.way_back(name))


def _files_of(name: str, *, goes_on: bool) -> list[str]:
    """Beside the unit. Releases that named units otherwise did so with the key's file."""
    former = f"{layout.SECRETS}/{name}.yaml"
    if goes_on:
        return [former]
    secrets = [layout.key_file(name), former, layout.certificate_key(name), layout.group_secret(name)]
    return [
        layout.rank_file(name),
        layout.supervisor_file(name),
        layout.taken_back(name),
        *secrets,
        layout.certificate_file(name),
        layout.trace_headers(name),
    ]


def findings(found: Iterable[Undeclared], run: Mapping[str, Any]) -> Iterator[Finding]:
    """What a run has to say of them before its first change: errors refuse it, on all its hosts."""
    for item in found:
        place = Place(service=item.service, thing=item.service)
        compiled = "" if layout.client_of(item.unit) else "what it has compiled, "
        container = f"its container {item.container}, {compiled}" if item.container else ""
        its = f"its unit, {container}its settings and secrets"
        elsewhere = ", ".join(item.hosts)
        if item.fate == "renamed":
            found_now = f"{item.unit} is replaced by {layout.unit(item.service)}, and the service starts anew"
            yield warning("service-renamed", place, found=found_now, kind="host")
        elif item.fate in REMOVED:
            why = f"it is declared on {elsewhere}" if item.hosts else f"-e retire={item.service}"
            yield warning("service-removed", place, found=f"will be removed: {its} ({why})", kind="host")
        elif item.fate == "gone":
            yield error(
                "service-undeclared",
                place,
                found=f"{item.unit} is on this host, and no service of that name is declared",
                expected="a declared service, or the order to remove it",
                remedy=f"declare {item.service} again, or remove {its}: -e retire={item.service}",
                kind="host",
            )
        elif item.fate == "away":
            missing = sorted({*item.hosts, *run["hosts"]})
            yield error(
                "service-undeclared",
                place,
                found=f"it is declared on {elsewhere} now, which this run leaves out",
                expected="its new hosts in the run that removes it here",
                remedy=f"add them: -l {','.join(missing)}",
                kind="host",
            )
        elif item.fate == "waiting":
            left = f"it is declared on {elsewhere} now, which can't be reached: it is left here until then"
            yield warning("service-undeclared", place, found=left, kind="host")
        else:
            yield _of_another_inventory(item, place, run["inventory"])


def not_there(states: Mapping[str, Any], run: Mapping[str, Any]) -> Iterator[Finding]:
    """Names that a run is to remove and that none of its hosts has: misspelt, or removed before."""
    there = {one.service for host, state in states.items() for one in undeclared(state["our_units"] or (), host, run)}
    for name in sorted({*run["retire"]} - there):
        yield warning(
            "service-not-there",
            f"-e retire={name}",
            found=f"no host of this run has {name}: nothing is removed",
            remedy=did_you_mean(name, there) if there else "leave it out",
        )


def _of_another_inventory(one: Undeclared, place: Place, inventory: str) -> Finding:
    found = f"{one.unit} was written by the inventory {one.inventory}"
    if one.fate == "foreign":
        remedy = (
            f"nothing, or change it from that inventory; it takes memory that this plan does not count ({inventory})"
        )
        return warning("service-foreign", place, found=f"{found} and is left alone", remedy=remedy, kind="host")
    if one.fate == "joined":
        return error(
            "service-foreign",
            place,
            found=f"{found} and is a rank of a group",
            expected=f"no group of another inventory than this one, {inventory}",
            remedy=f"take this host out of the run, or {one.service} out of that inventory and -e retire={one.service} "
            f"there; where both are the same inventory, write fleet_name: {one.inventory} in its group_vars/all",
            reason="firewall, cables and peers of a host follow from its groups, which one inventory alone can declare",
            kind="host",
        )
    return error(
        "service-foreign",
        place,
        found=found,
        expected=f"a service of this inventory, {inventory}",
        remedy="give the service another name; where both are the same inventory, write "
        f"fleet_name: {one.inventory} in its group_vars/all",
        kind="host",
    )
