# SPDX-License-Identifier: GPL-3.0-or-later
"""A service as all exports take it from the plan, and what each makes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._base import worded
from ..._base.addresses import EVERYWHERE
from ..._base.findings import Finding
from ..._base.place import Place
from ..._base.plan import Plan
from ..._base.ranks import rank_of
from ..._base.slice import ContainerEntry, ServiceSlice
from ..._on_host.rank.service import Service as RankFile
from ..._on_host.rank.service import from_plan

Document = dict[str, Any]
KEEP = "or leave it with gb10.fleet"  # the end of a remedy


@dataclass(frozen=True)
class Secret:
    """What a person makes before the pods start. name: of the Secret. files: by its keys the controller's file, and the
    form that it gets (`_engines.interface.KeyFile`; empty: as it is)."""

    name: str
    files: Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Carried:
    """One service: its objects, the Secrets that they refer to, and what is to be said of it. With an error among the
    findings there are no objects."""

    documents: Sequence[Document]
    secrets: Sequence[Secret]
    findings: Sequence[Finding]


@dataclass(frozen=True)
class Rank:
    """A rank as the plan has it. slice: of its host's ``services``. supervisor: the file of its supervisor. listen: the
    address that the head answers clients at."""

    host: str
    slice: ServiceSlice
    supervisor: RankFile
    listen: str

    @property
    def container(self) -> ContainerEntry:
        return self.slice["container"]


def ranks_of(plan: Plan, name: str) -> list[Rank]:
    """Head first."""
    ranks = []
    for host in plan["services"][name]["hosts"]:
        rank = rank_of(plan, name, host)
        listen = next((row["address"] for row in plan["hosts"][host]["listens"] if row["service"] == name), "")
        ranks.append(Rank(host, rank, from_plan(rank["supervisor"]), listen))
    return ranks


def image_of(plan: Plan, name: str) -> tuple[str, bool]:
    """As others ask for it, by its digest where it has one; and whether they can have it of a registry."""
    planned = plan["services"][name]
    reference, digest = planned["image"]["reference"], planned["image"]["digest"]
    pulled = _source(plan, planned["hosts"][0], reference) == "registry"
    return f"{reference}@{digest}" if pulled and digest else reference, pulled


def _source(plan: Plan, host: str, reference: str) -> str:
    """Where the head has its image from."""
    kinds = (image["source"]["kind"] for image in plan["hosts"][host]["images"] if image["reference"] == reference)
    return str(next(kinds))


def listens_at(head: Rank) -> str:
    """The one address of the host that it answers at; empty for all of them."""
    return "" if head.listen in EVERYWHERE else head.listen


def image_moves(name: str, image: str) -> Finding:
    """It comes from a registry, and is not pinned."""
    return worded.warning("export-image-moves", Place(service=name).below("image"), image=image)
