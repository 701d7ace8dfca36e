# SPDX-License-Identifier: GPL-3.0-or-later
"""Services, clients and gateways on a host that the inventory does not have there: what a run may do with each.

Absence is no order. A service is removed when it was ordered by name, or when it is declared on other hosts of the run.
What another inventory wrote is left alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..._base import layout
from ..._base.reading import OurUnit
from ..._base.received import one_line

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


def undeclared(units: Iterable[OurUnit], host: str, run: Mapping[str, Any]) -> list[Undeclared]:
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
                one_line(one["inventory"]),
                tuple(hosts),
                fate,
            )
        )
    return found


def _of_another(unit: OurUnit, host: str, hosts: Sequence[str]) -> Fate:
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
