# SPDX-License-Identifier: GPL-3.0-or-later
"""What a gateway offers by name, and which heads it sends requests to."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..._base import worded
from ..._base.findings import Finding, did_you_mean
from ..._base.place import Place
from ..._base.slice import ExampleRequest

# One word of HAProxy's maps.
_WORD = re.compile(r"[^\s#\"'\\\\%]{1,200}")


@dataclass(frozen=True)
class Endpoint:
    """The head of a service, as a gateway reaches it.

    model: its name for clients. slots: requests that it works on at once; more would only wait where nobody sees them.
    readiness: the port at which its supervisor says whether it serves. key: the file on the controller; empty for an
    open service. tls_name: what its certificate names; empty without encryption. context: tokens of a request; None
    where that isn't known. example: a request whose answer shows that the model computes (`_engines.interface.Example`
    as a map).
    """

    service: str
    model: str
    host: str
    address: str
    port: int
    slots: int
    readiness: int
    key: str = ""
    tls_name: str = ""
    context: int | None = None
    example: ExampleRequest | None = None


@dataclass(frozen=True)
class Backend:
    """One model and the heads that serve it: those of all services that give it the same name share its requests.

    name: of its first service, by which HAProxy calls it. aliases: further names for clients.
    """

    name: str
    model: str
    aliases: tuple[str, ...]
    servers: tuple[Endpoint, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.model, *self.aliases)

    @property
    def key(self) -> str:
        return self.servers[0].key

    @property
    def slots(self) -> int:
        return sum(server.slots for server in self.servers)

    @property
    def context(self) -> int | None:
        """What each of them takes."""
        known = [server.context for server in self.servers if server.context is not None]
        return min(known) if known else None


def aliases_of(model: str, aliases: Mapping[str, str]) -> list[str]:
    """Further names of a model. aliases: ``{alias: model}``."""
    return sorted(alias for alias, wanted in aliases.items() if wanted == model)


def backends(endpoints: Iterable[Endpoint], aliases: Mapping[str, str]) -> tuple[list[Backend], list[Finding]]:
    """One for each model, in the order of the services' names, and what is in the way of that."""
    by_model: dict[str, list[Endpoint]] = {}
    for endpoint in sorted(endpoints, key=lambda item: item.service):
        by_model.setdefault(endpoint.model, []).append(endpoint)
    found = [
        Backend(group[0].service, model, tuple(aliases_of(model, aliases)), tuple(group))
        for model, group in by_model.items()
    ]
    problems = [problem for backend in found for problem in (*_unlike(backend), *_no_word(backend))]
    return found, [*problems, *_wrong_aliases(aliases, list(by_model))]


def _unlike(backend: Backend) -> Iterator[Finding]:
    """Requests carry one key, whichever server they end at."""
    first, *others = backend.servers
    for other in others:
        if other.key != first.key:
            at = Place(service=other.service).below("api_key_file")
            model = backend.model
            yield worded.error("input-gateway-key", at, service=first.service, model=model, other_service=other.service)


def _no_word(backend: Backend) -> Iterator[Finding]:
    if not _WORD.fullmatch(backend.model):
        yield worded.error("input-gateway-model", Place(service=backend.name).below("served_name"), model=backend.model)


def _wrong_aliases(aliases: Mapping[str, str], models: Sequence[str]) -> Iterator[Finding]:
    for alias, model in sorted(aliases.items()):
        place = Place(variable="fleet_gateway").below("aliases", alias)
        if alias in models:
            yield worded.error("input-gateway-alias/wrong-aliases", place)
        elif model not in models:
            yield worded.error(
                "input-gateway-alias/wrong-aliases-clients", place, remedy=did_you_mean(model, models), model=model
            )
