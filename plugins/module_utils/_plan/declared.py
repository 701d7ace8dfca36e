# SPDX-License-Identifier: GPL-3.0-or-later
"""What the owner declares: the shape of the ``fleet_*`` variables, and what is wrong with what was written.

``fleet_services``, ``fleet_fabric``, ``fleet_firewall``, ``fleet_drift``, ``fleet_tls`` and the variable of each fleet
subject (`_subjects.registry`) describe the fleet, ``fleet_host`` one host. Anything else that begins with ``fleet_`` is
a misspelling.
"""

import difflib
import functools
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .._base import worded
from .._base.declared_host import HostData
from .._base.findings import Finding, did_you_mean, warning
from .._base.forms import forms
from .._base.place import Place
from .._base.schema import Spec, check
from .._engines.declaration import ServiceData
from .._engines.placed import Host
from .._engines.recipes.shelf import VARIABLE as RECIPE_SOURCES
from .._engines.recipes.shelf import read_sources_of
from .._engines.recipes.spec import ENVIRONMENT, FLAGS
from .._subjects.firewall import plan as firewall
from .._subjects.fleet.subject import Declarations, DeclareContext, declare
from .._subjects.registry import FLEET_SUBJECTS, SUBJECTS
from .._subjects.tls.declared import NONE, TLS, authority
from .declared_services import read_services, service_names, taken_ports
from .drift import read_drift
from .keys import secret_file

_OF_THE_FLEET = (
    *("fleet_services", "fleet_fabric", "fleet_firewall", "fleet_drift", "fleet_tls"),
    *(subject.variable for subject in FLEET_SUBJECTS if subject.spec is not None),
)
_WRITTEN = ("fleet_name", "fleet_escrow", RECIPE_SOURCES, *_OF_THE_FLEET)
# Of the fleet, of a host, of a run (extra variables).
VARIABLES = (
    *(*_OF_THE_FLEET, "fleet_recipe_dirs", RECIPE_SOURCES),
    *("fleet_name", "fleet_host", "fleet_lock_file", "fleet_plan_format", "fleet_escrow"),
)
# How like ours the parts of a name are that is taken for a slip, by difflib.
_NEAR = 0.8
# What people write beside ansible_host, and nothing else reads.
_OF_HOST = "memory_kib"
# What our own playbooks register.
OURS = ("fleet_plan", "fleet_slice", "fleet_state", "fleet_bundle")
# The options of the role fleet_plan, which a run or an inventory may set.
_OPTIONS = tuple(
    f"fleet_plan_{name}"
    for name in ("bundle", "explain", "format", "partial", "relock", "retire", "scope", "service", "show")
)

ESCROW = forms("escrow")["escrow"]
NAME: Spec = {"type": "str", "pattern": "[A-Za-z0-9][A-Za-z0-9._-]{0,60}", "expected": "a name of letters, 0-9 and ._-"}

_HOST = forms("host", flags=FLAGS, environment=ENVIRONMENT)["host"]
_OF_SUBJECTS = {subject.name: subject.spec for subject in SUBJECTS if subject.spec is not None}
HOST: Spec = {**_HOST, "options": _HOST["options"] | _OF_SUBJECTS}


@dataclass(frozen=True)
class Declared:
    """The checked declaration. fabric is passed on as written: `_subjects.fabric.plan` checks it.

    name: the inventory's, which units on hosts bear. ca: the certificate of the local CA on the controller; None where
    no endpoint has one of it. fleet: what the fleet subjects declare.
    """

    name: str
    hosts: Mapping[str, Host]
    services: Mapping[str, ServiceData]
    fabric: Any
    firewall: Mapping[str, Any] = field(default_factory=dict)
    drift: Mapping[str, Any] = field(default_factory=dict)
    ca: str | None = None
    fleet: Declarations = field(default_factory=Declarations)


def read_declaration(inventory: Mapping[str, Any]) -> tuple[Declared, list[Finding]]:
    """inventory: {hosts: {name: {address, port, variables: {fleet_*: ...}}}, folder}; what is usable, and problems.

    Paths of files on the controller count from the inventory's folder and become absolute; the files must be there.
    A service with a problem is left out of what is returned, so that the others can still be looked at.
    """
    findings = [*_unknown_variables(inventory), *_no_services(inventory)]
    folder, hosts = Path(inventory["folder"]), _hosts(inventory, findings)
    written = {key: _of_the_fleet(key, inventory, findings) for key in _WRITTEN}
    closed, drift = _firewall(written["fleet_firewall"], findings), _drift(written["fleet_drift"], findings)
    name, problems = check(NAME, _written_or(written["fleet_name"], _folder_name(folder)), Place(variable="fleet_name"))
    tls, wrong = check(TLS, _written_or(written["fleet_tls"], NONE), Place(variable="fleet_tls"))
    services, unusable = read_services(_written_or(written["fleet_services"]), hosts, folder, None if wrong else tls)
    context = DeclareContext(folder, hosts, services, service_names(written["fleet_services"]))
    fleet, refused = declare(FLEET_SUBJECTS, written, context, taken_ports(hosts, services))
    encrypted = [*(service["tls"] for service in services.values()), *(claims.tls for claims in fleet.claims)]
    ca = authority(folder) if any(certificate and certificate["ca"] for certificate in encrypted) else None
    more = check(ESCROW, _written_or(written["fleet_escrow"], []), Place(variable="fleet_escrow"))[1]
    findings += [*problems, *wrong, *unusable, *refused, *read_sources_of(written[RECIPE_SOURCES])[1], *more]
    return Declared(name, hosts, services, written["fleet_fabric"], closed, drift, ca, fleet), findings


def _hosts(inventory: Mapping[str, Any], findings: list[Finding]) -> dict[str, Host]:
    hosts: dict[str, Host] = {}
    of_hosts: dict[Finding, list[str]] = {}
    for name, host in sorted(inventory["hosts"].items()):
        settings, problems = check(HOST, _written_or(host["variables"].get("fleet_host")), Place(variable="fleet_host"))
        problems = problems or [
            *_sources(settings, Place(variable="fleet_host", option="firewall")),
            *_overrides_of_no_service(settings, host["variables"].get("fleet_services")),
            *_passwords(settings, Path(inventory["folder"])),
        ]
        for problem in problems:
            of_hosts.setdefault(problem, []).append(name)
        hosts[name] = Host(name, host["address"], {} if problems else settings, host.get("port", 22))
    for problem, (first, *others) in of_hosts.items():
        findings.append(replace(problem, at=replace(problem.at, host=first, more=len(others))))
    findings += _same_addresses(hosts.values())
    return hosts


def _firewall(written: object, findings: list[Finding]) -> Mapping[str, Any]:
    closed, problems = check(firewall.FLEET, _written_or(written), Place(variable="fleet_firewall"))
    findings += problems or firewall.wrong_sources(closed["allow"], Place(variable="fleet_firewall"))
    settings: Mapping[str, Any] = check(firewall.FLEET, {}, "")[0] if problems else closed
    return settings


def _drift(written: object, findings: list[Finding]) -> Mapping[str, Any]:
    drift, problems = read_drift(written)
    findings += problems or _hook(drift["hook"])
    return drift


def _written_or(value: object, otherwise: object = MappingProxyType({})) -> Any:
    """What was written, and something else where nothing was: an empty list or text is a mistake."""
    return otherwise if value is None else value


def _folder_name(folder: Path) -> str:
    """The inventory's name where none is declared: its folder's, the same in every clone."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", folder.name).strip("._-")[:61] or "fleet"


def _overrides_of_no_service(settings: HostData, services: object) -> Iterator[Finding]:
    if not isinstance(services, Mapping | None):
        return  # named already
    declared = service_names(services)
    for name in sorted(settings["services"].keys() - declared):
        at = Place(variable="fleet_host").below("services", name)
        yield worded.error("input-unknown-service", at, remedy=did_you_mean(name, declared), name=name)


def _hook(words: list[str]) -> list[Finding]:
    """What nobody would notice before the first night that something is wrong."""
    if not words or shutil.which(words[0]):
        return []
    expected = "a program of this machine that can be run"
    remedy = "write its path, and make it executable"
    return [
        warning(
            "input-hook", Place(variable="fleet_drift", option="hook"), found=words[0], expected=expected, remedy=remedy
        )
    ]


def _passwords(settings: HostData, folder: Path) -> Iterator[Finding]:
    """The files of registries' passwords become absolute."""
    for registry in settings.get("container_engine", {}).get("registries", ()):
        path = folder / registry["password_file"]
        registry["password_file"] = str(path)
        place = Place(variable="fleet_host").below(
            "container_engine", "registries", *registry["name"].split("."), "password_file"
        )
        yield from secret_file(place, path, f"{registry['username']}'s password or token of {registry['name']}")


def _sources(settings: HostData, place: Place) -> Iterator[Finding]:
    return firewall.wrong_sources(settings.get("firewall", {}).get("allow", ()), place)


def _of_the_fleet(key: str, inventory: Mapping[str, Any], findings: list[Finding]) -> Any:
    """The value that all hosts share. Different ones would make the plan depend on which host is asked."""
    values = {name: host["variables"].get(key) for name, host in sorted(inventory["hosts"].items())}
    first, value = next(iter(values.items()), ("", None))
    for name, other in values.items():
        if other is not value and other != value:
            remedy = "write it once, in group_vars/all of the inventory"
            found = f"{first} and {name} have different values"
            findings.append(worded.error("input-fleet-differs", Place(variable=key), found=found, remedy=remedy))
            break
    return value


@functools.cache
def is_meant_for_us(name: str) -> bool:
    """Whether a variable is one of ours, maybe misspelt: ``fleet_x``, or nearly that, as ``flet_services``."""
    first, _, rest = name.partition("_")
    if first == "fleet" or name == _OF_HOST:
        return True
    known = [variable.removeprefix("fleet_") for variable in VARIABLES]
    near = difflib.SequenceMatcher(None, first.lower(), "fleet").ratio() >= _NEAR
    return near and bool(difflib.get_close_matches(rest, known, n=1, cutoff=_NEAR))


def _unknown_variables(inventory: Mapping[str, Any]) -> Iterator[Finding]:
    holders: dict[str, list[str]] = {}
    for host, entry in sorted(inventory["hosts"].items()):
        for name in entry["variables"]:
            if is_meant_for_us(name) and name not in (*VARIABLES, *OURS, *_OPTIONS):
                holders.setdefault(name, []).append(host)
    for name, hosts in sorted(holders.items()):
        expected = "one of " + ", ".join(VARIABLES)
        remedy = f"write fleet_host: {{{_OF_HOST}: ...}}" if name == _OF_HOST else did_you_mean(name, VARIABLES)
        at = Place(host=hosts[0], more=len(hosts) - 1, variable=name)
        yield worded.error("input-unknown-variable", at, expected=expected, remedy=remedy)


def _no_services(inventory: Mapping[str, Any]) -> Iterator[Finding]:
    """Services that nobody declares are removed, so that a missing declaration must not read as an empty one."""
    if inventory["hosts"] and not any(_is_written(host) for host in inventory["hosts"].values()):
        yield worded.error("input-no-services", Place(variable="fleet_services"), folder=inventory["folder"])


def _is_written(host: Mapping[str, Any]) -> bool:
    """A key with nothing below it declares as little as no key."""
    return host["variables"].get("fleet_services") is not None


def _same_addresses(hosts: Iterable[Host]) -> Iterator[Finding]:
    """Two names for one machine would give it two plans, and each run would undo what the other did."""
    by_address: dict[tuple[str, int], list[str]] = {}
    for host in hosts:
        by_address.setdefault((host.address, host.port), []).append(host.name)
    for (address, port), names in sorted(by_address.items()):
        if len(names) > 1:
            found = f"{address}, port {port}, is also the address of {names[0]}"
            yield worded.error("input-same-address", Place(host=names[1], variable="ansible_host"), found=found)
