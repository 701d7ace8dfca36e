# SPDX-License-Identifier: GPL-3.0-or-later
"""``fleet_services``: the shape of a service, and what is wrong with what was written."""

import copy
import difflib
import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._base import worded
from .._base.addresses import EVERYWHERE, is_loopback, wrong_listen
from .._base.findings import Finding, unknown_host
from .._base.forms import forms
from .._base.gb10 import facts
from .._base.place import Place, shown
from .._base.schema import check
from .._base.secret_files import drops
from .._base.sizes import quantity
from .._engines.declaration import ServiceData
from .._engines.placed import Host
from .._engines.ports import ports_on_head
from .._engines.recipes.spec import CONTAINER, ENVIRONMENT, FLAGS
from .._engines.tracing.declared import TRACING
from .._engines.tracing.declared import decide as decide_tracing
from .._facts.models.gguf_files import NAMED, named_model
from .._facts.models.purpose import PURPOSE
from .._subjects.tls.declared import TLS
from .._subjects.tls.declared import decide as decide_tls
from .keys import key_file
from .trust import TRUST

_MOST_REPLICAS = 500
_FORMS = forms(
    "service",
    **PURPOSE,
    replicas={"type": "int", "min": 1, "max": _MOST_REPLICAS, "default": 1},
    flags=FLAGS,
    environment=ENVIRONMENT,
    container=CONTAINER,
    tls=TLS,
    tracing=TRACING,
    trust={"type": "str", "choices": [*TRUST]},
    named={"type": "str", "pattern": NAMED, "expected": "organisation/name"},
)
SERVICE, SERVICES = _FORMS["service"], _FORMS["services"]


def service_names(written: object) -> set[str]:
    """Of ``fleet_services`` as written, those of replicas included."""
    services = written if isinstance(written, Mapping) else {}
    return {*services, *_names_of_replicas(services)}


def _names_of_replicas(services: Mapping[str, object]) -> Iterator[str]:
    """Of services as written."""
    for name, service in services.items():
        count = service.get("replicas") if isinstance(service, Mapping) else None
        if isinstance(count, int) and 1 < count <= _MOST_REPLICAS:
            yield from (f"{name}-{at + 1}" for at in range(count))


def read_services(
    written: object, hosts: Mapping[str, Host], folder: Path, tls: object
) -> tuple[dict[str, ServiceData], list[Finding]]:
    named, findings = check(SERVICES, written, Place(variable="fleet_services"))
    if findings:
        return {}, findings
    usable: dict[str, ServiceData] = {}
    for name in sorted(named):
        place = Place(service=name)
        service, problems = check(SERVICE, named[name], place)
        if not problems:
            service["model"] = named_model(service["model"])
        if problems:
            findings += [_as_meant(problem, named[name], hosts) for problem in problems]
            continue
        problems = [*_what(place, service), *_placement(place, service["hosts"], hosts), *_divided(place, service)]
        for replica, own in _replicas(name, service).items():
            of_one = [
                *problems,
                *([_taken(place, replica)] if replica != name and replica in named else []),
                *key_file(name, own, folder),
                *decide_tracing(name, own, folder),
                *_declared_twice(place, own),
                *wrong_listen(place, own["listen"]),
                *_ports_of_the_host(place, own, hosts),
                *_tls(replica, own, hosts, folder, tls),
            ]
            findings += [problem for problem in of_one if problem not in findings]
            if not any(map(drops, of_one)):
                usable[replica] = own
    return usable, [*findings, *_port_clashes(usable)]


def _as_meant(problem: Finding, written: object, hosts: Iterable[str]) -> Finding:
    """With a remedy that works as typed, for what people write by habits from other tools."""
    key = problem.at.option
    value = written.get(key) if isinstance(written, Mapping) else None
    remedy, size, flag = "", key.replace("-", "_"), key.replace("_", "-")
    if size in SERVICE["options"]["workload"]["options"]:
        remedy = f"write workload: {{{size}: {shown(value)}}}"
    elif (
        problem.rule == "schema-unknown-key" and "-" in flag and not difflib.get_close_matches(size, SERVICE["options"])
    ):
        remedy = f"write flags: {{{flag}: {shown(value)}}} if the engine calls it so; {problem.remedy}"
    elif key == "hosts" and isinstance(value, str) and (alike := _all_like(re.split(r"[\s,]+", value), hosts)):
        remedy = f"write hosts: [{', '.join(alike)}]"
    elif key == "image" and isinstance(value, str):
        remedy = f"write image: {{reference: {shown(value)}}}"
    elif key == "served_name" and isinstance(value, list) and value and isinstance(value[0], str):
        remedy = f"write served_name: {shown(value[0])}; aliases give it further names"
    elif key == "model" and isinstance(value, str):
        of_hub = re.fullmatch(r"(?:https?://)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+(:[\w.-]+)?)([/?#].*)?", value)
        remedy = f"write model: {of_hub[1]}" if of_hub else ""
        if "/" not in value:
            remedy = "write model: ORGANISATION/NAME, or recipe: NAME of a recipe in docs/reference/models.md"
        if value.startswith("/"):
            remedy = f"write model: {{repository: ORGANISATION/NAME, source: {{path: {shown(value)}}}}}"
    return replace(problem, remedy=remedy) if remedy else problem


def _replicas(name: str, service: ServiceData) -> dict[str, ServiceData]:
    """The services of a declaration: itself, or NAME-1 to NAME-N, each on its part of the hosts, in their order."""
    count = service["replicas"]
    if count == 1 or len(service["hosts"]) % count:
        return {name: service.copy()}
    each = len(service["hosts"]) // count
    return {
        f"{name}-{at + 1}": {**copy.deepcopy(service), "hosts": service["hosts"][at * each : (at + 1) * each]}
        for at in range(count)
    }


def _divided(place: Place, service: ServiceData) -> Iterator[Finding]:
    """Hosts that replicas don't share out evenly: one of them would be another service than the others."""
    hosts, count = len(service["hosts"]), service["replicas"]
    if hosts % count:
        fitting = [str(number) for number in range(2, hosts + 1) if hosts % number == 0]
        at, numbers, more = place.below("replicas"), ", ".join(fitting or ["1"]), -(-hosts // count) * count
        yield worded.error("input-replicas/divided", at, count=count, hosts=hosts, numbers=numbers, more=more)


def _taken(place: Place, replica: str) -> Finding:
    return worded.error("input-replicas/taken", place.below("replicas"), replica=replica)


def _what(place: Place, service: ServiceData) -> Iterator[Finding]:
    if service["recipe"] is None and not isinstance(service["model"].get("repository"), str):
        yield worded.error("input-no-model", place)


def _placement(place: Place, chosen: list[str], hosts: Mapping[str, Host]) -> Iterator[Finding]:
    for host in sorted(set(chosen)):
        if host not in hosts and (alike := _all_like([host], hosts)):
            remedy = f"write them: hosts: [{', '.join(alike)}]"
            yield replace(unknown_host(place.below("hosts"), host, hosts), remedy=remedy)
        elif host not in hosts:
            yield unknown_host(place.below("hosts"), host, hosts)
        elif chosen.count(host) > 1:
            yield worded.error("input-host-twice/placement", place.below("hosts"), host=host)


def _all_like(patterns: Iterable[str], hosts: Iterable[str]) -> list[str]:
    """The hosts that somebody meant who writes patterns or Ansible's own word for each host."""
    wanted = ["*" if pattern == "all" else pattern for pattern in patterns]
    return [host for host in sorted(hosts) if any(fnmatch.fnmatchcase(host, pattern) for pattern in wanted)]


def _tls(
    name: str, service: ServiceData, hosts: Mapping[str, Host], folder: Path, of_fleet: object
) -> Iterator[Finding]:
    """Encryption of the endpoint. of_fleet: the checked ``fleet_tls``."""
    place = Place(service=name).below("tls") if "tls" in service else Place(variable="fleet_tls")
    head = hosts.get(service["hosts"][0])
    address = [head.name, head.address] if head else []
    listen = [] if service["listen"] in EVERYWHERE else [service["listen"]]
    written: Any = service.get("tls", of_fleet)
    service["tls"] = yield from decide_tls(name, place, written, [*listen, *address], folder)


def _declared_twice(place: Place, service: ServiceData) -> Iterator[Finding]:
    """A size in the workload and again, otherwise, among the flags: either could be what was meant."""
    for size, flag in (
        ("max_model_len", "max-model-len"),
        ("max_num_seqs", "max-num-seqs"),
        ("pool", "kv-cache-memory-bytes"),
    ):
        asked, written = service["workload"].get(size), service["flags"].get(flag)
        if asked is not None and written is not None and (quantity(asked) or asked) != (quantity(written) or written):
            yield worded.error(
                "input-declared-twice", place.below("flags", flag), written=written, asked=asked, size=size
            )


def _ports_of_the_host(place: Place, service: ServiceData, hosts: Mapping[str, Host]) -> Iterator[Finding]:
    """Ports of the head at which its system listens already: what we reach it by, and what every GB10 has."""
    head = hosts.get(service["hosts"][0])
    taken = _listening(head)
    local = service["listen"] in EVERYWHERE or is_loopback(service["listen"])
    for port in ports_on_head(service["port"], service["hosts"]):
        who, everywhere = taken.get(port, ("", False))
        if who and (everywhere or local):
            yield worded.error(
                "input-port-of-the-host", place.below("port"), port=port, first_host=service["hosts"][0], who=who
            )


def _listening(host: Host | None) -> dict[int, tuple[str, bool]]:
    """``{port: (whose, whether at every address)}``."""
    taken = {entry["value"]["port"]: (name, entry["value"]["everywhere"]) for name, entry in facts()["listens"].items()}
    return taken | ({host.port: ("sshd, by which Ansible comes", True)} if host else {})


def taken_ports(hosts: Mapping[str, Host], services: Mapping[str, ServiceData]) -> dict[tuple[str, int], str]:
    """Who has which port of a host: its system, and services."""
    system = {(name, port): who for name, host in hosts.items() for port, (who, _) in _listening(host).items()}
    heads = {name: (one["hosts"][0], ports_on_head(one["port"], one["hosts"])) for name, one in services.items()}
    return system | {(head, port): f"fleet_services.{name}" for name, (head, ports) in heads.items() for port in ports}


def _port_clashes(services: Mapping[str, ServiceData]) -> Iterator[Finding]:
    """Two services that would listen on the same port of the same host: only the head of a group listens. Its further
    ports follow from the first, so that one error says all."""
    taken: dict[tuple[str, int], str] = {}
    for name, service in services.items():
        head = service["hosts"][0]
        ports = ports_on_head(service["port"], service["hosts"])
        holders = {port: taken.setdefault((head, port), name) for port in ports}
        clashes = [(port, other) for port, other in holders.items() if other != name]
        for port, other in clashes[:1]:
            yield worded.error(
                "input-port-twice/port-clashes", Place(service=name).below("port"), port=port, head=head, other=other
            )
