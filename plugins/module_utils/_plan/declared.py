# SPDX-License-Identifier: GPL-3.0-or-later
"""What the owner declares: the shape of the ``fleet_*`` variables, and what is wrong with what was written.

``fleet_services``, ``fleet_fabric``, ``fleet_firewall``, ``fleet_gateway``, ``fleet_monitoring``, ``fleet_phoenix`` and
``fleet_drift`` describe the fleet,
``fleet_host`` one host. Anything else that begins with ``fleet_`` is a misspelling.
"""

from __future__ import annotations

import copy
import difflib
import functools
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .._base.findings import Finding, did_you_mean, error, first_of, unknown_host, warning
from .._base.gb10 import facts
from .._base.schema import Spec, check
from .._base.sizes import quantity
from .._base.yaml_text import written_twice
from .._engines.placed import Host
from .._engines.ports import ports_on_head
from .._engines.recipes.spec import CONTAINER, ENVIRONMENT, FLAGS
from .._engines.tracing.declared import TRACING
from .._engines.tracing.declared import decide as decide_tracing
from .._facts.models.purpose import PURPOSE
from .._subjects.clients.declared import CLIENTS, NO_GATEWAY
from .._subjects.clients.declared import decide as decide_clients
from .._subjects.firewall import plan as firewall
from .._subjects.gateway.declared import GATEWAY
from .._subjects.gateway.declared import decide as decide_gateway
from .._subjects.monitoring.declared import MONITORING
from .._subjects.monitoring.declared import decide as decide_monitoring
from .._subjects.phoenix.declared import PHOENIX
from .._subjects.phoenix.declared import decide as decide_phoenix
from .._subjects.registry import SUBJECTS
from .._subjects.tls.declared import NONE, TLS, authority
from .._subjects.tls.declared import decide as decide_tls
from .drift import read_drift
from .keys import key_file, secret_file
from .trust import TRUST

_OF_THE_FLEET = (
    *("fleet_services", "fleet_fabric", "fleet_firewall", "fleet_drift", "fleet_tls", "fleet_gateway"),
    *("fleet_clients", "fleet_monitoring", "fleet_phoenix"),
)
# Of the fleet, of a host, of a run (extra variables).
VARIABLES = (
    *_OF_THE_FLEET,
    "fleet_recipe_dirs",
    "fleet_name",
    "fleet_host",
    "fleet_lock_file",
    "fleet_plan_format",
)
# How like ours the parts of a name are that is taken for a slip, by difflib.
_NEAR = 0.8
# What our own playbooks register.
OURS = ("fleet_plan", "fleet_slice", "fleet_state", "fleet_bundle")
# The options of the role fleet_plan, which a run or an inventory may set.
_OPTIONS = tuple(
    f"fleet_plan_{name}" for name in ("bundle", "format", "partial", "relock", "retire", "scope", "service", "show")
)

_MOST_REPLICAS = 500

_FREE_MAP: Spec = {"type": "map", "default": {}}

# How large the KV pool is: docs/memory.md.
_POOL_WORDS = "least, rest, a number of tokens as 800k, or of bytes as 20GiB"
_POOL: Spec = {
    "expected": _POOL_WORDS,
    "any_of": [
        {"type": "count", "min": 1},
        {"type": "bytes", "min": 1},
        {"type": "str", "choices": ["least", "rest"], "expected": _POOL_WORDS},
    ],
}

SERVICE: Spec = {
    "type": "map",
    "options": {
        "recipe": {"type": "str", "nullable": True, "default": None},
        "hosts": {"type": "list", "required": True, "min": 1, "elements": {"type": "str"}},
        "port": {"type": "int", "required": True, "min": 1, "max": 65535},
        "listen": {
            "type": "str",
            "default": "0.0.0.0",
            "pattern": "[0-9a-fA-F.:]+",
            "expected": "the host's IP address to listen on",
        },
        "served_name": {"type": "str", "min": 1},
        "replicas": {"type": "int", "min": 1, "max": _MOST_REPLICAS, "default": 1},
        "workload": {
            "type": "map",
            "default": {},
            "options": {
                "max_model_len": {"type": "count", "min": 1},
                "max_num_seqs": {"type": "count", "min": 1},
                "pool": _POOL,
                "pool_weight": {"type": "int", "min": 1, "max": 1000},
                **PURPOSE,
            },
        },
        "flags": FLAGS,
        "env": ENVIRONMENT,
        "container": CONTAINER,
        "image": _FREE_MAP,
        "model": {
            "default": {},
            "expected": "the hub's id, organisation/name; or a map of what is otherwise than in the recipe",
            "any_of": [_FREE_MAP, {"type": "str", "pattern": r"[\w.-]+/[\w.-]+", "expected": "organisation/name"}],
        },
        "api_key_file": {"type": "str", "min": 1, "expected": "a file on the controller that holds the key"},
        "open": {"type": "bool", "default": False},
        # how long answers under way may go on once it is to stop; 0: they are cut off
        "drain_s": {"type": "int", "min": 0, "max": 86_400},
        "on_creep": {"type": "str", "choices": ["report", "restart"], "default": "report"},
        "tls": TLS,
        "tracing": TRACING,
        "trust": {"type": "list", "default": [], "elements": {"type": "str", "choices": [*TRUST]}},
        "silence": {"type": "map", "default": {}, "values": {"type": "str", "min": 1, "expected": "the reason"}},
    },
}

NAME: Spec = {"type": "str", "pattern": "[A-Za-z0-9][A-Za-z0-9._-]{0,60}", "expected": "a name of letters, 0-9 and ._-"}

SERVICES: Spec = {
    "type": "map",
    "keys": {"type": "str", "pattern": "[a-z0-9][a-z0-9-]{0,40}", "expected": "a name of a-z, 0-9 and -"},
}

HOST: Spec = {
    "type": "map",
    "options": {
        "memory_kib": {"type": "int", "min": 1 << 20},
        "retention": {
            "type": "map",
            "default": {},
            "options": {"images": {"type": "int", "min": 0}, "models": {"type": "int", "min": 0}},
        },
        "services": {
            "type": "map",
            "default": {},
            "values": {"type": "map", "options": {"flags": FLAGS, "env": ENVIRONMENT}},
        },
        **{subject.name: subject.spec for subject in SUBJECTS if subject.spec is not None},
    },
}


@dataclass(frozen=True)
class Declared:
    """The checked declaration. fabric is passed on as written: `_subjects.fabric.plan` checks it.

    name: the inventory's, which units on hosts bear. ca: the certificate of the local CA on the controller; None where
    neither a service nor the gateway has one of it. gateway: as `_subjects.gateway.declared.decide` completes it; None
    without.
    clients: as `_subjects.clients.declared.decide` completes them, those that can be.
    monitoring, phoenix: likewise, by each one's `declared.decide`; None without.
    """

    name: str
    hosts: Mapping[str, Host]
    services: Mapping[str, Mapping[str, Any]]
    fabric: Any
    firewall: Mapping[str, Any] = field(default_factory=dict)
    drift: Mapping[str, Any] = field(default_factory=dict)
    ca: str | None = None
    gateway: Mapping[str, Any] | None = None
    clients: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    monitoring: Mapping[str, Any] | None = None
    phoenix: Mapping[str, Any] | None = None


def read_declaration(inventory: Mapping[str, Any]) -> tuple[Declared, list[Finding]]:
    """inventory: {hosts: {name: {address, port, variables: {fleet_*: ...}}}, folder}; what is usable, and problems.

    Paths of files on the controller count from the inventory's folder and become absolute; the files must be there.
    A service with a problem is left out of what is returned, so that the others can still be looked at.
    """
    findings = [*_unknown_variables(inventory), *_no_services(inventory)]
    hosts: dict[str, Host] = {}
    of_hosts: dict[Finding, list[str]] = {}
    for name, host in sorted(inventory["hosts"].items()):
        settings, problems = check(HOST, _written_or(host["variables"].get("fleet_host")), "fleet_host")
        problems = problems or [
            *_sources(settings, "fleet_host.firewall"),
            *_overrides_of_no_service(settings, host["variables"].get("fleet_services")),
            *_passwords(settings, Path(inventory["folder"])),
        ]
        for problem in problems:
            of_hosts.setdefault(problem, []).append(name)
        hosts[name] = Host(name, host["address"], {} if problems else settings, host.get("port", 22))
    findings += [replace(problem, place=f"{first_of(names)}: {problem.place}") for problem, names in of_hosts.items()]
    findings += _same_addresses(hosts)
    written = {key: _of_the_fleet(key, inventory, findings) for key in ("fleet_name", *_OF_THE_FLEET)}
    closed, problems = check(firewall.FLEET, _written_or(written["fleet_firewall"]), "fleet_firewall")
    findings += problems or [*firewall.wrong_sources(closed["allow"], "fleet_firewall")]
    if problems:  # nothing of it can be read
        closed = check(firewall.FLEET, {}, "")[0]
    drift, problems = read_drift(written["fleet_drift"])
    findings += problems or _hook(drift["hook"])
    name, problems = check(NAME, _written_or(written["fleet_name"], _folder_name(inventory["folder"])), "fleet_name")
    findings += problems
    folder = Path(inventory["folder"])
    tls, problems = check(TLS, _written_or(written["fleet_tls"], NONE), "fleet_tls")
    findings += problems
    services, problems = _services(_written_or(written["fleet_services"]), hosts, folder, None if problems else tls)
    taken = {name: {*_listening(host), *_ports_of_services(name, services)} for name, host in hosts.items()}
    addressed = {name: (host.address, taken[name]) for name, host in hosts.items()}
    gateway, wrong = _gateway(written["fleet_gateway"], addressed, services, folder)
    encrypted = [one["tls"] for one in (*services.values(), *([gateway] if gateway else [])) if one["tls"]]
    ca = authority(folder) if any(tls["ca"] for tls in encrypted) else None
    if gateway:
        its_own = {gateway["port"], gateway["redirect_port"]} - {None}
        taken = {name: ports | its_own if name in gateway["hosts"] else ports for name, ports in taken.items()}
    clients, unusable = _clients(
        written["fleet_clients"], taken, _service_names(written["fleet_services"]), gateway, folder
    )
    if gateway is None and written["fleet_gateway"] is not None:
        # it is refused itself, and its clients do not lack one
        unusable = [one for one in unusable if one.rule != NO_GATEWAY]
    for client in clients.values():
        taken[client["host"]] = taken[client["host"]] | {client["port"]}
    monitoring, amiss = _monitoring(written["fleet_monitoring"], hosts, taken, folder)
    if monitoring:
        taken[monitoring["host"]] = taken[monitoring["host"]] | {monitoring["port"]}
    phoenix, faults = _phoenix(written["fleet_phoenix"], taken, folder)
    found = [*findings, *problems, *wrong, *unusable, *amiss, *faults]
    fabric = written["fleet_fabric"]
    return Declared(name, hosts, services, fabric, closed, drift, ca, gateway, clients, monitoring, phoenix), found


def _gateway(
    written: Any, hosts: Mapping[str, tuple[str, set[int]]], services: Mapping[str, Mapping[str, Any]], folder: Path
) -> tuple[Mapping[str, Any] | None, list[Finding]]:
    """The checked ``fleet_gateway``; None where there is none, or one that can't be. hosts: address and taken ports."""
    if written is None:
        return None, []
    gateway, problems = check(GATEWAY, written, "fleet_gateway")
    if problems:
        return None, problems
    problems = [*decide_gateway(gateway, hosts, services, folder)]
    return (None if any(problem.severity == "error" for problem in problems) else gateway), problems


def _clients(
    written: Any,
    taken: Mapping[str, set[int]],
    services: Collection[str],
    gateway: Mapping[str, Any] | None,
    folder: Path,
) -> tuple[Mapping[str, Mapping[str, Any]], list[Finding]]:
    """The checked ``fleet_clients``; none where one of them can't be. taken: ports of each host. services: the names of
    all that are declared, also of those that are refused."""
    clients, problems = check(CLIENTS, _written_or(written), "fleet_clients")
    if problems:
        return {}, problems
    problems = [*decide_clients(clients, taken, services, gateway, folder)]
    return ({} if any(problem.severity == "error" for problem in problems) else clients), problems


def _monitoring(
    written: Any, hosts: Mapping[str, Host], taken: Mapping[str, set[int]], folder: Path
) -> tuple[Mapping[str, Any] | None, list[Finding]]:
    """The checked ``fleet_monitoring``; None where there is none, or one that can't be. taken: ports of each host."""
    if written is None:
        return None, []
    monitoring, problems = check(MONITORING, written, "fleet_monitoring")
    if problems:
        return None, problems
    problems = [*decide_monitoring(monitoring, {name: (hosts[name].address, taken[name]) for name in hosts}, folder)]
    return (None if any(problem.severity == "error" for problem in problems) else monitoring), problems


def _phoenix(
    written: Any, taken: Mapping[str, set[int]], folder: Path
) -> tuple[Mapping[str, Any] | None, list[Finding]]:
    """The checked ``fleet_phoenix``; None where there is none, or one that can't be. taken: ports of each host."""
    if written is None:
        return None, []
    phoenix, problems = check(PHOENIX, written, "fleet_phoenix")
    if problems:
        return None, problems
    problems = [*decide_phoenix(phoenix, taken, folder)]
    return (None if any(problem.severity == "error" for problem in problems) else phoenix), problems


def _ports_of_services(host: str, services: Mapping[str, Mapping[str, Any]]) -> Iterator[int]:
    for service in services.values():
        if service["hosts"][0] == host:
            yield from ports_on_head(service["port"], service["hosts"])


def _written_or(value: Any, otherwise: Any = MappingProxyType({})) -> Any:
    """What was written, and something else where nothing was: an empty list or text is a mistake."""
    return otherwise if value is None else value


def _folder_name(folder: str) -> str:
    """The inventory's name where none is declared: its folder's, the same in every clone."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", Path(folder).name).strip("._-")[:61] or "fleet"


def _overrides_of_no_service(settings: Mapping[str, Any], services: Any) -> Iterator[Finding]:
    if not isinstance(services, Mapping | None):
        return  # named already
    declared = _service_names(services)
    for name in sorted(settings["services"].keys() - declared):
        yield error(
            "input-unknown-service",
            f"fleet_host.services.{name}",
            found=f'no service "{name}"',
            expected="a service of fleet_services",
            remedy=did_you_mean(name, declared),
        )


def _service_names(written: Any) -> set[str]:
    """Of ``fleet_services`` as written, those of replicas included."""
    services = written if isinstance(written, Mapping) else {}
    return {*services, *_names_of_replicas(services)}


def _names_of_replicas(services: Mapping[Any, Any]) -> Iterator[str]:
    """Of services as written."""
    for name, service in services.items():
        count = service.get("replicas") if isinstance(service, Mapping) else None
        if isinstance(count, int) and 1 < count <= _MOST_REPLICAS:
            yield from (f"{name}-{at + 1}" for at in range(count))


def _hook(words: Sequence[str]) -> list[Finding]:
    """What nobody would notice before the first night that something is wrong."""
    if not words or shutil.which(words[0]):
        return []
    expected = "a program of this machine that can be run"
    remedy = "write its path, and make it executable"
    return [warning("input-hook", "fleet_drift.hook", found=words[0], expected=expected, remedy=remedy)]


def _passwords(settings: Mapping[str, Any], folder: Path) -> Iterator[Finding]:
    """The files of registries' passwords become absolute."""
    for registry in settings.get("container_engine", {}).get("registries", ()):
        path = folder / registry["password_file"]
        registry["password_file"] = str(path)
        place = f"fleet_host.container_engine.registries.{registry['name']}.password_file"
        yield from secret_file(place, path, f"{registry['username']}'s password or token of {registry['name']}")


def _sources(settings: Mapping[str, Any], place: str) -> Iterator[Finding]:
    return firewall.wrong_sources(settings.get("firewall", {}).get("allow", ()), place)


def _of_the_fleet(key: str, inventory: Mapping[str, Any], findings: list[Finding]) -> Any:
    """The value that all hosts share. Different ones would make the plan depend on which host is asked."""
    values = {name: host["variables"].get(key) for name, host in sorted(inventory["hosts"].items())}
    first, value = next(iter(values.items()), ("", None))
    for name, other in values.items():
        if other is not value and other != value:
            remedy = "write it once, in group_vars/all of the inventory"
            found = f"{first} and {name} have different values"
            findings.append(
                error("input-fleet-differs", key, found=found, expected="one value for the fleet", remedy=remedy)
            )
            break
    return value


def _services(
    written: Any, hosts: Mapping[str, Host], folder: Path, tls: Any
) -> tuple[dict[str, Mapping[str, Any]], list[Finding]]:
    named, findings = check(SERVICES, written, "fleet_services")
    if findings:
        return {}, findings
    usable: dict[str, Mapping[str, Any]] = {}
    for name in sorted(named):
        place = f"fleet_services.{name}"
        service, problems = check(SERVICE, named[name], place)
        if not problems and isinstance(service["model"], str):
            service["model"] = {"repository": service["model"]}
        if problems:
            findings += problems
            continue
        problems = [*_what(place, service), *_placement(place, service["hosts"], hosts), *_divided(place, service)]
        for replica, own in _replicas(name, service).items():
            of_one = [
                *problems,
                *([_taken(place, replica)] if replica != name and replica in named else []),
                *key_file(name, own, folder),
                *decide_tracing(name, own, folder),
                *_declared_twice(place, own),
                *_ports_of_the_host(place, own, hosts),
                *_tls(replica, own, hosts, folder, tls),
            ]
            findings += [problem for problem in of_one if problem not in findings]
            if not any(problem.severity == "error" for problem in of_one):
                usable[replica] = own
    return usable, [*findings, *_port_clashes(usable)]


def _replicas(name: str, service: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The services of a declaration: itself, or NAME-1 to NAME-N, each on its part of the hosts, in their order."""
    count = service["replicas"]
    if count == 1 or len(service["hosts"]) % count:
        return {name: {**service}}
    each = len(service["hosts"]) // count
    return {
        f"{name}-{at + 1}": {**copy.deepcopy({**service}), "hosts": service["hosts"][at * each : (at + 1) * each]}
        for at in range(count)
    }


def _divided(place: str, service: Mapping[str, Any]) -> Iterator[Finding]:
    """Hosts that replicas don't share out evenly: one of them would be another service than the others."""
    hosts, count = len(service["hosts"]), service["replicas"]
    if hosts % count:
        fitting = [str(number) for number in range(2, hosts + 1) if hosts % number == 0]
        yield error(
            "input-replicas",
            f"{place}.replicas",
            found=f"{count} replicas on {hosts} hosts",
            expected=f"a number that divides {hosts} hosts: " + ", ".join(fitting or ["1"]),
            remedy=f"name {-(-hosts // count) * count} hosts, or another number of replicas",
        )


def _taken(place: str, replica: str) -> Finding:
    return error(
        "input-replicas",
        f"{place}.replicas",
        found=f"a service {replica} is declared too",
        expected="names NAME-1 to NAME-N for the replicas alone",
        remedy=f"give fleet_services.{replica} another name",
    )


def _what(place: str, service: Mapping[str, Any]) -> Iterator[Finding]:
    if service["recipe"] is None and not isinstance(service["model"].get("repository"), str):
        yield error(
            "input-no-model",
            place,
            found="neither recipe nor model",
            expected="what is to be served",
            remedy="write recipe: NAME (recipes/ has them), or model: ORGANISATION/NAME, the hub's id",
        )


def _placement(place: str, chosen: list[str], hosts: Mapping[str, Host]) -> Iterator[Finding]:
    for host in sorted(set(chosen)):
        if host not in hosts:
            yield unknown_host(f"{place}.hosts", host, hosts)
        elif chosen.count(host) > 1:
            yield error(
                "input-host-twice",
                f"{place}.hosts",
                found=f'"{host}" stands there twice',
                expected="each host once",
                remedy="a GB10 has one GPU, so one rank a host: remove one",
            )


def _tls(
    name: str, service: dict[str, Any], hosts: Mapping[str, Host], folder: Path, of_fleet: Any
) -> Iterator[Finding]:
    """Encryption of the endpoint. of_fleet: the checked ``fleet_tls``."""
    place = f"fleet_services.{name}.tls" if "tls" in service else "fleet_tls"
    head = hosts.get(service["hosts"][0])
    address = [head.name, head.address] if head else []
    listen = [] if service["listen"] in ("0.0.0.0", "::") else [service["listen"]]
    yield from decide_tls(name, service, place, service.get("tls", of_fleet), [*listen, *address], folder)


def _declared_twice(place: str, service: Mapping[str, Any]) -> Iterator[Finding]:
    """A size in the workload and again, otherwise, among the flags: either could be what was meant."""
    for size, flag in (
        ("max_model_len", "max-model-len"),
        ("max_num_seqs", "max-num-seqs"),
        ("pool", "kv-cache-memory-bytes"),
    ):
        asked, written = service["workload"].get(size), service["flags"].get(flag)
        if asked is not None and written is not None and (quantity(asked) or asked) != (quantity(written) or written):
            yield error(
                "input-declared-twice",
                f"{place}.flags.{flag}",
                found=f"{written}, and {asked} as workload.{size}",
                expected="one of the two",
                remedy=f"remove one; the memory plan reads workload.{size}",
            )


@functools.cache
def is_meant_for_us(name: str) -> bool:
    """Whether a variable is one of ours, maybe misspelt: ``fleet_x``, or nearly that, as ``flet_services``."""
    first, _, rest = name.partition("_")
    if first == "fleet":
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
        yield error(
            "input-unknown-variable",
            f"{first_of(hosts)}: {name}",
            found="unknown variable",
            expected=expected,
            remedy=did_you_mean(name, VARIABLES),
        )


def _no_services(inventory: Mapping[str, Any]) -> Iterator[Finding]:
    """Services that nobody declares are removed, so that a missing declaration must not read as an empty one."""
    if inventory["hosts"] and not any("fleet_services" in host["variables"] for host in inventory["hosts"].values()):
        yield error(
            "input-no-services",
            "fleet_services",
            found="no host of the inventory has it",
            expected=f"a map of services, in group_vars/all of {inventory['folder']}",
            remedy="write it there, or `fleet_services: {}` if no service is to run: what runs would then be removed",
        )


def declared_twice(texts: Mapping[str, str]) -> Iterator[Finding]:
    """Keys that a file of the inventory has twice: YAML keeps the last one, and what the first declared is lost.

    texts: of the files, by their names.
    """
    for file, text in sorted(texts.items()):
        for key, line, before in written_twice(text):
            yield error(
                "input-key-twice",
                f"{file}, line {line}",
                found=f'"{key}" is written twice, first in line {before}',
                expected="each key once",
                remedy="give one of them another name, or remove it: the first would count for nothing",
            )


# Folders of an owner's site that hold no inventory. Ansible reads them as one where it is given the site's folder.
_NO_INVENTORY = frozenset({"drift", "observed", "recipes", "secrets"})


def not_inventories(sources: Mapping[str, str | None], given: Iterable[str]) -> list[Finding]:
    """A finding where hosts come from files that are no inventories.

    sources: {host: the file that Ansible took it from}. given: what followed ``-i``; Ansible reads the files below a
    folder, and a file that is named itself is what its owner means. Hosts' names are not repeated: the line of a key
    file becomes one.
    """
    files = {file: folder for file in sources.values() if file and (folder := _no_inventory(Path(file), given))}
    if not files:
        return []
    return [
        error(
            "input-not-an-inventory",
            "the inventory",
            found=f"Ansible took lines of {len(files)} files in {', '.join(sorted({*files.values()}))} for hosts",
            expected="hosts of the hosts' file alone",
            remedy="name the file instead of its folder: -i inventories/mine/hosts.yml; a key that was read this way "
            "has been printed by Ansible: make a new one",
        )
    ]


def _no_inventory(file: Path, given: Iterable[str]) -> str | None:
    """The folder without inventories that a file lies in, below a folder that was given as inventory."""
    for source in map(Path, given):
        if file != source and file.is_relative_to(source):
            return next((part for part in file.relative_to(source).parts[:-1] if part in _NO_INVENTORY), None)
    return None


def _same_addresses(hosts: Mapping[str, Host]) -> Iterator[Finding]:
    """Two names for one machine would give it two plans, and each run would undo what the other did."""
    by_address: dict[tuple[str, int], list[str]] = {}
    for host in hosts.values():
        by_address.setdefault((host.address, host.port), []).append(host.name)
    for (address, port), names in sorted(by_address.items()):
        if len(names) > 1:
            yield error(
                "input-same-address",
                f"{names[1]}: ansible_host",
                found=f"{address}, port {port}, is also the address of {names[0]}",
                expected="one name for each machine",
                remedy="write its own address, or remove one of the names",
            )


def _ports_of_the_host(place: str, service: Mapping[str, Any], hosts: Mapping[str, Host]) -> Iterator[Finding]:
    """Ports of the head at which its system listens already: what we reach it by, and what every GB10 has."""
    head = hosts.get(service["hosts"][0])
    taken = _listening(head)
    local = service["listen"] in ("0.0.0.0", "::") or service["listen"].startswith("127.")
    for port in ports_on_head(service["port"], service["hosts"]):
        who, everywhere = taken.get(port, ("", False))
        if who and (everywhere or local):
            yield error(
                "input-port-of-the-host",
                f"{place}.port",
                found=f"port {port} of {service['hosts'][0]} is that of {who}",
                expected="a port at which nothing else listens",
                remedy="write another port, as 8000",
            )


def _listening(host: Host | None) -> dict[int, tuple[str, bool]]:
    """``{port: (whose, whether at every address)}``."""
    taken = {entry["value"]["port"]: (name, entry["value"]["everywhere"]) for name, entry in facts()["listens"].items()}
    return taken | ({host.port: ("sshd, by which Ansible comes", True)} if host else {})


def _port_clashes(services: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """Two services that would listen on the same port of the same host: only the head of a group listens."""
    taken: dict[tuple[str, int], str] = {}
    findings = []
    for name, service in services.items():
        head = service["hosts"][0]
        for port in ports_on_head(service["port"], service["hosts"]):
            other = taken.setdefault((head, port), name)
            if other != name:
                findings.append(
                    error(
                        "input-port-twice",
                        f"fleet_services.{name}.port",
                        found=f"port {port} of {head} is already that of fleet_services.{other}",
                        expected="a port of its own",
                        remedy="write another port",
                    )
                )
    return findings
