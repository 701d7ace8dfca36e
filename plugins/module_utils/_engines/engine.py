# SPDX-License-Identifier: GPL-3.0-or-later
"""What each engine answers. By default it drafts nothing, takes no adapters, proposes nothing, is not tuned, needs no
file or variable of its own, and listens only at its service's port."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from .._base.findings import Finding, error
from .._base.gb10 import data_file
from .._base.layers import Layer, Value
from .._base.place import Place
from .._facts.models.checkpoint import Checkpoint
from .._on_host.rank.probes import Probes, Request
from . import openai
from .interface import Choice, EngineSpec, Example, Facts, Launch, Proposal, ServiceSizing
from .memory.boots import BootLog
from .memory.budget import Share
from .observed import Observed
from .options import Judged, first_of, judge
from .placed import Host, Overlays, Placed


@cache
def _rows() -> Mapping[str, Mapping[str, Any]]:
    rows: dict[str, Mapping[str, Any]] = data_file("reports")
    return rows


def request_of(facts: Facts) -> dict[str, Any]:
    """What `judge` of an engine is asked. host: what a host alone knows, of which nothing is judged yet."""
    placed = facts.placed
    return {
        "engine": placed.recipe["engine"],
        "flags": {name: decided.value for name, decided in placed.flags.items()},
        "variables": sorted({**placed.recipe["env"], **placed.settings["env"]}),
        "host": {},
        "hosts": len(placed.hosts),
        "image": placed.image["reference"],
        "model": f"{placed.model['repository']} {placed.model['quantization'] or ''}".strip(),
        "sees": None if placed.config is None else "vision_config" in placed.config,
        "release": placed.image["release"],
        "silence": [*placed.silence],
    }


def reported(request: Mapping[str, Any], place: Place) -> Iterator[Finding]:
    """The rows that hold for a request. place: the service's."""
    for rule, row in _rows().items():
        when = row["when"]
        if row["engine"] != request["engine"] or rule in request["silence"] or not _holds(when, request):
            continue
        value = next((request["flags"].get(name) for name in when.get("flags", ())), None)
        yield Finding(
            row.get("severity", "warning"),
            rule,
            place.below(*row.get("at", ())),
            **{text: row[text] for text in ("expected", "remedy", "reason", "source") if text in row},
            found=row["found"].format(**{**request, "value": value}),
            kind="combination",
        )


def _holds(when: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    texts = {key: str(request[key] or "") for key in ("model", "image", "release")}
    return (
        request["hosts"] >= when.get("hosts", 1)
        and not ("sees" in when and request["sees"] is False)
        and when.get("unset") not in request["variables"]
        and all(re.search(when[key], text, re.IGNORECASE) for key, text in texts.items() if key in when)
        and all(_written(pattern, request["flags"].get(name)) for name, pattern in when.get("flags", {}).items())
    )


def _written(pattern: str | None, value: object) -> bool:
    return not value if pattern is None else value is not None and re.search(pattern, str(value)) is not None


def divided(placed: Placed, rule: str, tensor: Sequence[str], pipeline: Sequence[str]) -> Iterator[Finding]:
    """One GPU a host: the parts of the model are as many as the hosts. tensor, pipeline: the names of the options."""
    decided = {name: value.value for name, value in placed.flags.items()}
    parts, stages = first_of(decided, tensor) or 1, first_of(decided, pipeline) or 1
    if parts * stages != len(placed.hosts):
        yield error(
            rule,
            placed.place.below("flags"),
            found=f"{tensor[0]} {parts} and {pipeline[0]} {stages} on {len(placed.hosts)} hosts",
            expected=f"a product of {len(placed.hosts)}: one GPU a host",
            remedy="remove both, or write the option that causes it",
        )


class Engine(ABC):
    """Decisions only: plain data in, plain data out. What most engines answer alike stands here."""

    spec: EngineSpec
    judged_by: Judged
    at_once: Callable[[Mapping[str, object]], int]  # as `sequences`, by the options' values
    warm_words: Sequence[int] = (256,)  # of the prompts before clients come; 0: more than it reads at once

    @abstractmethod
    def default_layers(self) -> tuple[Layer, Layer]:
        """The lowest layers of flags and of variables: what is good on GB10."""

    def image_facts(self, reference: str) -> dict[str, str | None]:
        """What an image's name is known for: ``reference``, and where known ``family`` and ``release``."""
        for pattern, family, release in self.spec.images:
            if found := re.fullmatch(str(pattern), reference):
                named = release or found.groupdict().get("release")
                return {"reference": reference, "family": family, "release": named}
        return {"reference": reference}

    def propose(
        self, checkpoint: Checkpoint, names_image: bool, names_template: bool
    ) -> tuple[Proposal | None, list[Finding]]:
        """How a model without a recipe would be served, by its checkpoint (`_facts.models.checkpoint`), and what stands
        against it; None where the engine can't tell. names_image, names_template: the service brings its own."""
        return None, []

    def draft(self, flags: Mapping[str, object]) -> str | None:
        """The hub's id of the draft model that the flags ask for."""
        return None

    def adapters(self, flags: Mapping[str, object]) -> Sequence[str]:
        """Folders of the host and hub ids of adapters that the flags ask for, by their paths or ids."""
        return ()

    @abstractmethod
    def problems(self, placed: Placed) -> Iterable[Finding]:
        """What can't be, before flags are decided."""

    def overlays(self, placed: Placed) -> Overlays:
        """Files of the engine's own that its container needs."""
        return Overlays()

    @abstractmethod
    def flags(self, placed: Placed, written: Sequence[Layer]) -> dict[str, Value]:
        """The options: what is written, and what follows from the placement."""

    @abstractmethod
    def group_problems(self, placed: Placed) -> Iterable[Finding]:
        """Why it can't be on these hosts together; placed has its flags."""

    @abstractmethod
    def group_layers(self, placed: Placed, host: Host) -> list[Layer]:
        """A rank's variables from its place in a group, lowest first."""

    def variables(self, placed: Placed, written: Mapping[str, Value]) -> Layer:
        """Variables that follow from the placement."""
        return Layer("computed", {})

    @abstractmethod
    def served_name(self, placed: Placed, flags: Mapping[str, Value]) -> str:
        """The model's name for clients."""

    def sequences(self, flags: Mapping[str, Value]) -> int:
        """How many requests it works on at once; more wait in it."""
        return self.at_once({name: value.value for name, value in flags.items()})

    @abstractmethod
    def launch(self, placed: Placed, flags: Mapping[str, Value], rank: int) -> Launch:
        """How the container of one rank begins."""

    def judged_launch(self, placed: Placed, flags: Mapping[str, Value]) -> Launch:
        """The head's launch as it is judged."""
        return self.launch(placed, flags, 0)

    def listens(self, placed: Placed) -> Iterable[tuple[int, str]]:
        """(port, for whom) of what the head opens in its group besides `ranks_port`."""
        return ()

    @abstractmethod
    def probes(self, placed: Placed, flags: Mapping[str, Value]) -> Probes:
        """How its supervisor sees that it loads, serves and lives; `Joined.command`: as in the container."""

    def warm_up(self, placed: Placed, flags: Mapping[str, Value]) -> list[Request]:
        """Requests after the first proof, by what the service is declared for."""
        decided = {name: value.value for name, value in flags.items()}
        name, sees = self.served_name(placed, flags), openai.sees(decided, placed.config)
        return openai.warm_up(placed.recipe["kind"], name, decided, self.warm_words, sees)

    def example(self, kind: str, model: str) -> Example:
        """What `verify` asks. kind: the recipe's. model: its name for clients."""
        return openai.example(kind, model)

    @abstractmethod
    def boot(self, log: str) -> BootLog:
        """What those lines of a start's log say."""

    def cold_bytes(self, config: Mapping[str, object] | None, flags: Mapping[str, object]) -> int:
        """By so much the KV pool of a start with cold caches may be smaller, where the pool is what is left."""
        return 0

    def same_release(self, planned: str, shown: str) -> bool:
        """Whether both name one release; also where one of them names none that can be compared."""
        return planned == shown

    def ranks_of(self, fingerprint: str) -> int | None:
        """How many ranks computed an answer, by its ``system_fingerprint``; None where that does not say."""
        return None

    @abstractmethod
    def size(self, placed: Placed, observed: Observed) -> tuple[ServiceSizing, list[Finding]]:
        """What one rank takes."""

    @abstractmethod
    def memory_flags(self, placed: Placed, shares: Sequence[Share]) -> Layer:
        """Options that the memory plan adds. shares: each rank's part of its host."""

    def request(self, facts: Facts) -> dict[str, Any] | None:
        """What `judge` is asked; None where launches of this engine aren't judged."""
        return request_of(facts)

    def judge(self, request: Mapping[str, Any], place: Place) -> Sequence[Finding]:
        """Findings about a launch. place: the service's."""
        found = [*judge(self.judged_by, request["release"], request["flags"], place), *reported(request, place)]
        return [finding for finding in found if finding.rule not in request["silence"]]

    def choices(self, flags: Mapping[str, object], release: str | None, users: int, shared: bool) -> Sequence[Choice]:
        """What a search for faster settings may change; nothing where images bring no load generator. flags: as they
        are decided now. release: the engine's. users: requests that come at a time. shared: whether their prompts begin
        alike."""
        return ()

    def for_host(self, request: Mapping[str, object]) -> dict[str, Any]:
        """The part of a request that is judged again with what only the host knows."""
        return dict(request)
