# SPDX-License-Identifier: GPL-3.0-or-later
"""What a fleet subject is: from the owner's words to its part of the plan.

Each package has its own, in ``fleet.py``; `_subjects.registry` lists them once. What one is built on stands before it
there. On its hosts it is a `_base.subject.Subject` of the same name, like any other.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..._base import worded
from ..._base.findings import Finding
from ..._base.place import Place
from ..._base.schema import Spec, check
from ..._base.secret_files import drops
from ..._base.slice import Api, ListenRow, Slice
from ..._engines.decided import Decided
from ..._engines.declaration import ServiceData
from ..._engines.placed import Host


@dataclass(frozen=True)
class DeclareContext:
    """What the words of a fleet subject are completed and judged by.

    folder: the inventory's, on the controller. services: those that can be. service_names: of all that are declared,
    also of those that are refused. fleet: what the fleet subjects that this one builds on declare, by name; None for
    one that is not declared, or refused. refused: the names of the latter.
    """

    folder: Path
    hosts: Mapping[str, Host]
    services: Mapping[str, ServiceData]
    service_names: Collection[str]
    fleet: Mapping[str, Any] = field(default_factory=dict)
    refused: Collection[str] = ()


@dataclass(frozen=True)
class Port:
    """A port of a host that a declaration takes. place: where it is written, or who takes it."""

    host: str
    port: int
    place: Place
    remedy: str = "write another port"


@dataclass(frozen=True)
class Claims:
    """What a declaration takes, and what it asks of others.

    tls: of its endpoint, as `_subjects.tls.declared.decide` leaves it. aliases: further names of models, ``{alias:
    model}``, which engines have to know. readiness: it asks the services whether they serve.
    """

    ports: Sequence[Port] = ()
    tls: Mapping[str, Any] | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    readiness: bool = False


@dataclass(frozen=True)
class PlanContext:
    """What a fleet subject's part is decided from, beside its declaration.

    inventory: its name. left: bytes that the plan leaves of each host's memory. drift: ``drift`` of the plan. fleet:
    the parts of the fleet subjects that this one builds on, by name.
    """

    inventory: str
    hosts: Mapping[str, Host]
    services: Mapping[str, Decided]
    left: Mapping[str, int]
    drift: Mapping[str, Any]
    fleet: "Mapping[str, FleetPart]" = field(default_factory=dict)


class FleetPart:
    """What is decided of a fleet subject; of one that is not declared nothing is anywhere."""

    @property
    def sources(self) -> Sequence[str]:
        """The addresses by which it comes to the services' ports."""
        return ()

    @property
    def callers(self) -> str:
        """In words, who alone sends requests to the services; empty where everybody may."""
        return ""

    def shown(self) -> Any:
        """Its part of the plan as a whole."""
        return None

    def slice(self, host: Host, _slices: Slice) -> Any:
        """Its part of a host's slice. slices: what else was decided of the host by then."""
        raise NotImplementedError

    def judge(self, _host: Host) -> Iterable[Finding]:
        """What is wrong with it on a host."""
        return ()

    def apis(self, _host: str) -> Iterable[Api]:
        """Its ports on a host, as `_base.subject.SliceContext.apis` has them."""
        return ()

    def listens(self, _host: str) -> Iterable[ListenRow]:
        """Where it listens on a host and for whom, as `_plan.listens` has them."""
        return ()

    def images(self, _host: str) -> Iterable[dict[str, Any]]:
        """The images that it needs on a host, as `_plan.slices.images` has them."""
        return ()


Planned = tuple[FleetPart, Sequence[Finding]]


def _as_written(_declared: object, _context: DeclareContext) -> Iterator[Finding]:
    yield from ()


def _claims_nothing(_declared: object, _hosts: Mapping[str, Host]) -> Claims:
    return Claims()


def _needs_nothing(_part: object) -> str:
    return ""


@dataclass(frozen=True)
class FleetSubject:
    """name: ``fleet_NAME`` declares it; the key of its part in the plan and in each host's slice.

    plan: what is decided of a declaration, None without one; and what is wrong with that.
    spec: of ``fleet_NAME``; None for what each host declares in its ``fleet_host``, which the plan shows by host alone.
    after: the names of those that it builds on.
    decide: completes a checked declaration in place, and says what is wrong with it. claims: what that takes.
    nothing: what the plan shows where none is declared. controller: why a host with such a part of its slice can't be
    converged without the controller; empty where it can.
    """

    name: str
    plan: Callable[[Any, PlanContext], Planned]
    spec: Spec | None = None
    after: Sequence[str] = ()
    decide: Callable[[Any, DeclareContext], Iterator[Finding]] = _as_written
    claims: Callable[[Any, Mapping[str, Host]], Claims] = _claims_nothing
    nothing: Any = None
    controller: Callable[[Any], str] = _needs_nothing

    @property
    def variable(self) -> str:
        return f"fleet_{self.name}"


Taken = Mapping[tuple[str, int], str]


@dataclass(frozen=True)
class Declarations:
    """What the fleet subjects declare and claim, by name; those that can be."""

    declared: Mapping[str, Any] = field(default_factory=dict)
    claims: Sequence[Claims] = ()


def declare(
    subjects: Iterable[FleetSubject], written: Mapping[str, object], context: DeclareContext, taken: Taken
) -> tuple[Declarations, list[Finding]]:
    """written: the variables of the fleet, None for one that nobody wrote. taken: who has which port of a host."""
    declared: dict[str, Any] = {}
    claimed: list[Claims] = []
    findings: list[Finding] = []
    for subject in subjects:
        if subject.spec is None or written[subject.variable] is None:
            continue
        settings, problems = check(subject.spec, written[subject.variable], subject.variable)
        if not problems:
            built_on = {name: declared.get(name) for name in subject.after}
            problems = [*subject.decide(settings, replace(context, fleet=built_on))]
            claims = subject.claims(settings, context.hosts)
            problems += _taken_twice(claims.ports, taken)
            if not any(map(drops, problems)):
                declared[subject.name] = settings
                claimed.append(claims)
                taken = {**taken, **{(port.host, port.port): port.place.text for port in claims.ports}}
        if subject.name not in declared:
            context = replace(context, refused=[*context.refused, subject.name])
        findings += problems
    return Declarations(declared, claimed), findings


def _taken_twice(ports: Iterable[Port], taken: Taken) -> Iterator[Finding]:
    """One finding a place, whatever the number of its hosts."""
    holders = {**taken}
    hosts: dict[tuple[Place, int, str, str], list[str]] = {}
    for one in ports:
        holder = holders.setdefault((one.host, one.port), one.place.text)
        if holder != one.place.text:
            hosts.setdefault((one.place, one.port, holder, one.remedy), []).append(one.host)
    for (place, port, holder, remedy), on in hosts.items():
        yield worded.error(
            "input-port-twice/taken-twice", place, remedy=remedy, port=port, on=", ".join(on), holder=holder
        )
