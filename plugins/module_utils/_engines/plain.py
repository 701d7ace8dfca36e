# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine answers that drafts nothing, takes no adapters, proposes nothing, is not tuned, needs no file or
variable of its own, and listens at its service's port alone."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .._base.findings import Finding, error
from .._base.layers import Layer, Value
from .._facts.models.checkpoint import Checkpoint
from . import openai
from .interface import Choice, EngineSpec, Example, Facts, Launch, Proposal
from .options import first_of
from .placed import Overlays, Placed
from .reports import request_of


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
            remedy="take both out, or write the one that makes it so",
        )


class Plain(ABC):
    """The answers of `_engines.interface.Engine` that are the same for such engines."""

    def propose(
        self, checkpoint: Checkpoint, names_image: bool, names_template: bool
    ) -> tuple[Proposal | None, list[Finding]]:
        return None, []

    spec: EngineSpec

    def image_facts(self, reference: str) -> dict[str, str | None]:
        """family and release of an image, as far as its name says them."""
        for pattern, family, release in self.spec.images:
            if found := re.fullmatch(str(pattern), reference):
                return {
                    "reference": reference,
                    "family": family,
                    "release": release or found.groupdict().get("release"),
                }
        return {"reference": reference}

    def draft(self, flags: Mapping[str, object]) -> str | None:
        return None

    def adapters(self, flags: Mapping[str, object]) -> Sequence[str]:
        return ()

    def overlays(self, placed: Placed) -> Overlays:
        return Overlays()

    def request(self, facts: Facts) -> dict[str, Any] | None:
        return request_of(facts)

    def variables(self, placed: Placed, written: Mapping[str, Value]) -> Layer:
        return Layer("computed", {})

    @abstractmethod
    def launch(self, placed: Placed, flags: Mapping[str, Value], rank: int) -> Launch: ...

    def judged_launch(self, placed: Placed, flags: Mapping[str, Value]) -> Launch:
        return self.launch(placed, flags, 0)

    def listens(self, placed: Placed) -> Iterable[tuple[int, str]]:
        return ()

    def example(self, kind: str, model: str) -> Example:
        return openai.example(kind, model)

    def cold_bytes(self, config: Mapping[str, object] | None, flags: Mapping[str, object]) -> int:
        return 0

    def same_release(self, planned: str, shown: str) -> bool:
        return planned == shown

    def ranks_of(self, fingerprint: str) -> int | None:
        return None

    def for_host(self, request: Mapping[str, object]) -> dict[str, Any]:
        return dict(request)

    def choices(self, flags: Mapping[str, object], release: str | None, users: int, shared: bool) -> Sequence[Choice]:
        """None: their images bring no load generator to tell them apart by."""
        return ()
