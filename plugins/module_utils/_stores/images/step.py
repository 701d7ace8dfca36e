# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides what one wanted image needs on a host: nothing, a name, or some of its layers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ..._base.findings import FleetError
from ..._base.sizes import size
from ..._base.staging import refusal
from ..transfer.peer import Peer
from .archive import ArchiveImage, Layer, read_archive
from .docker import Engine, LocalImage
from .identity import Identity, Reference, common_prefix, parse_reference
from .layers import LayerStore
from .layout import read_layout
from .offer import Offer
from .records import ImageRecords


@dataclass(frozen=True)
class Wanted:
    """One entry of ``image_store_plan``. digest: the pin, or none. path: of an archive, or of a bundle's layout, in
    which the image's manifest has the digest ``manifest``. peers: hosts to fetch it from,
    nearest first, the origin last. identity, locked_digest: what it is locked to, or none. renew: take what its source
    gives now. build: how this host builds it, of `_facts.builds.build.Build.order`; none where it doesn't."""

    reference: Reference
    digest: str | None
    source: Literal["registry", "archive", "host", "bundle", "build"]
    path: Path | None = None
    peers: tuple[Peer, ...] = ()
    identity: str | None = None
    locked_digest: str | None = None
    renew: bool = False
    manifest: str | None = None
    build: Mapping[str, Any] | None = None

    @property
    def pull_digest(self) -> str | None:
        """By what it is pulled: a tag may have moved since it was locked."""
        return self.digest or self.locked_digest

    @classmethod
    def from_plan(cls, entry: Mapping[str, Any], present_hosts: Sequence[str] = ()) -> "Wanted":
        """present_hosts: hosts of this run, see ``Peer``."""
        source = entry["source"]
        path = Path(source["path"]) if source.get("path") else None
        peers = tuple(Peer.from_plan(peer, present_hosts) for peer in entry.get("peers") or ())
        lock = entry.get("lock") or {}
        return cls(
            parse_reference(entry["reference"]),
            entry.get("digest"),
            source["kind"],
            path,
            peers,
            lock.get("identity"),
            lock.get("digest"),
            bool(entry.get("renew")),
            source.get("manifest"),
            entry.get("build"),
        )


@dataclass(frozen=True)
class LocalStore:
    """What Docker has on this host."""

    engine: Engine
    images: Sequence[LocalImage]

    @cached_property
    def store(self) -> LayerStore:
        return LayerStore(self.engine)

    def named(self, reference: Reference) -> LocalImage | None:
        return next((image for image in self.images if reference in map(parse_reference, image.tags)), None)


@dataclass(frozen=True)
class Parts:
    """What becomes of an image's layers. layers: all, lowest first, in the form that is loaded. left_out: digests of
    those that Docker finds by itself. missing: those that are not on this host."""

    layers: tuple[Layer, ...] = ()
    left_out: frozenset[str] = frozenset()
    missing: tuple[Layer, ...] = ()

    @property
    def size(self) -> int:
        return sum({layer.digest: layer.size for layer in self.missing}.values())

    def with_forms(self, received: Sequence[Layer]) -> "Parts":
        """The same with the forms in which the missing layers were received."""
        forms = {layer.diff_id: layer for layer in received}
        return replace(self, layers=tuple(forms.get(layer.diff_id, layer) for layer in self.layers))


@dataclass(frozen=True)
class ImageStep:
    """What one wanted image needs on this host.

    here: the image, where it is here.
    action: nothing, ``tag`` (it is here under another name), ``pull``, ``build``, ``load`` (content: the archive) or
    ``fetch`` (content: what hosts offer; none as long as they can't be asked). moved: bytes, of a fetch at most; None
    where only others know.
    """

    wanted: Wanted
    found: str
    action: Literal["nothing", "tag", "pull", "build", "load", "fetch"]
    here: LocalImage | None = None
    content: ArchiveImage | Offer | None = None
    parts: Parts = field(default_factory=Parts)
    moved: int | None = 0

    @property
    def changes(self) -> bool:
        return self.action != "nothing"

    def words(self) -> str:
        """The state to come, for a person."""
        match self.action:
            case "load":
                amount = "of the bundle" if self.moved is None else size(self.moved)
                return f"to be loaded from {self.wanted.path}, {amount}"
            case "fetch":
                amount = "size not known yet" if self.moved is None else f"at most {size(self.moved)}"
                return f"to be fetched from {self.wanted.peers[-1].host}, {amount}"
            case "pull":
                return f"to be pulled by {self.wanted.pull_digest or 'its tag'}, size not known before"
            case "build":
                return "to be built here, of the inputs that its tag stands for"
            case "tag":
                return f"to be named, it is here as {self.here.id if self.here else ''}"
        return self.found


Ask = Callable[[Wanted], Offer | None]


def decide(wanted: Wanted, here: LocalStore, records: ImageRecords, ask: Ask) -> ImageStep:
    """What ``wanted`` needs. ask: what its hosts offer, none if that isn't known yet. Raises FleetError.

    One host of the fleet pulls from a registry, and the others fetch it from there.
    """
    step = ImageStep(wanted, _found(here.named(wanted.reference), here), "nothing")
    if wanted.source == "bundle":
        present = _present(step, _good_enough(wanted, here, records), here)
        return present or _from_bundle(replace(step, action="load", moved=None), here)
    if wanted.source == "archive":
        return _compared(replace(step, action="load", content=_archive(wanted)), here)
    return _present(step, _good_enough(wanted, here, records), here) or _to_bring(step, here, ask)


def _found(image: LocalImage | None, here: LocalStore) -> str:
    if image is None:
        return "absent"
    if not here.store.is_complete(image):
        return "present, but its store lacks layers: it runs, but can be neither saved nor passed on"
    return f"present, {image.identity.digest}"


def _good_enough(wanted: Wanted, here: LocalStore, records: ImageRecords) -> list[LocalImage]:
    """Images on this host that will do, whatever other hosts have."""
    if wanted.identity:
        return [image for image in here.images if image.identity.digest == wanted.identity]
    if wanted.renew:
        return []
    if wanted.digest:
        return [image for image in here.images if records.is_pinned(image, wanted.reference, wanted.digest)]
    named = here.named(wanted.reference)
    if wanted.source == "build":
        return [named] if named and _is_of(wanted, named) else []
    # what it gives to others it has from nobody
    return [named] if named and (wanted.source == "registry" or not wanted.peers) else []


def _is_of(wanted: Wanted, image: LocalImage) -> bool:
    """Whether an image was built of the inputs that its tag stands for: anybody can give a tag to another one."""
    labels = json.loads(image.identity.config).get("Labels") or {}
    return wanted.build is None or wanted.build["labels"].items() <= labels.items()


def _to_bring(step: ImageStep, here: LocalStore, ask: Ask) -> ImageStep:
    wanted = step.wanted
    if wanted.source == "registry" and not wanted.peers:
        return replace(step, action="pull", moved=None)
    if wanted.source == "build" and not wanted.peers:
        _require_unlocked(wanted)
        return replace(step, action="build", moved=None)
    if not wanted.peers:
        raise refusal(
            "image-source-absent",
            str(wanted.reference),
            found="not on this host, which image.source names",
            expected="the image, on the host that gives it to the others",
            remedy="load or build it here, or name another host in image.source",
        )
    try:
        offer = ask(wanted)
    except FleetError:
        instead = _without_offer(step, here)
        if instead is None:
            raise
        return instead
    step = replace(step, action="fetch", content=offer, moved=None)
    return _compared(step, here) if offer else step


def _without_offer(step: ImageStep, here: LocalStore) -> ImageStep | None:
    """When nobody offers it: hosts of this run may be about to get it; if nobody is, who may pull does."""
    wanted, image = step.wanted, here.named(step.wanted.reference)
    if image and not (wanted.digest or wanted.identity):
        return replace(step, found=f"{step.found}; its hosts can't be asked whether theirs is newer", here=image)
    if any(peer.present for peer in wanted.peers):
        return replace(step, action="fetch", moved=None)
    return replace(step, action="pull", moved=None) if wanted.source == "registry" else None


def _from_bundle(step: ImageStep, here: LocalStore) -> ImageStep:
    """The step that loads it; without content as long as the bundle's files were not brought here."""
    wanted = step.wanted
    assert wanted.path
    assert wanted.manifest
    if not wanted.path.is_dir():
        return step
    image = read_layout(wanted.path, wanted.manifest, wanted.reference)
    require_locked(wanted, image.identity, f"{wanted.path}: {wanted.reference}")
    return _compared(replace(step, content=image), here)


def _archive(wanted: Wanted) -> ArchiveImage:
    assert wanted.path
    archive = read_archive(wanted.path, wanted.reference)
    if wanted.digest and wanted.digest not in archive.digests:
        raise refusal(
            "image-digest",
            f"{wanted.path}: {wanted.reference}",
            found=" and ".join(sorted(archive.digests)),
            expected=wanted.digest,
            remedy="name one of the archive's digests in the recipe, or bring the right archive",
            reason="docker save keeps the image's ID; from the overlay2 store it does not keep the registry's digest",
        )
    require_locked(wanted, archive.identity, f"{wanted.path}: {wanted.reference}")
    return archive


def require_locked(wanted: Wanted, found: Identity, place: str) -> None:
    """Refuse an image that is not what the fleet's lock says, wherever it comes from."""
    if wanted.identity not in (None, found.digest):
        raise refusal(
            "lock-differs",
            place,
            found=f"identity {found.digest}",
            expected=f"{wanted.identity}, as locked",
            remedy=f"bring that image; if the new image is wanted, on all hosts: -e relock={wanted.reference}",
        )


def _require_unlocked(wanted: Wanted) -> None:
    """Refuse to build what the fleet has already: two builds of the same inputs have other times in their files."""
    if wanted.identity:
        raise refusal(
            "build-locked",
            str(wanted.reference),
            found="not on this host, which builds it",
            expected=f"the build that the fleet has ({wanted.identity}, as locked)",
            remedy="have it from a host that has it: image.source {host: ...}; or build it again, for all hosts: "
            f"-e relock={wanted.reference}",
        )


def _compared(step: ImageStep, here: LocalStore) -> ImageStep:
    """The step that brings its content, or none if the content is here by identity."""
    assert step.content
    identity = step.content.identity
    same = [image for image in here.images if image.identity == identity]
    present = _present(step, same, here)
    if present:
        return present
    parts = parts_of(step.content.layers, here)
    return replace(step, parts=parts, moved=parts.size)


def _present(step: ImageStep, candidates: Sequence[LocalImage], here: LocalStore) -> ImageStep | None:
    """The step if one of these images, complete, is what is wanted: nothing, or to name it."""
    whole = [image for image in candidates if here.store.is_complete(image)]
    named = [image for image in whole if step.wanted.reference in map(parse_reference, image.tags)]
    if named:
        return replace(step, action="nothing", here=named[0], content=None)
    if whole:
        return replace(step, action="tag", here=whole[0])
    return None


def parts_of(layers: Sequence[Layer], here: LocalStore) -> Parts:
    """Compare an image's layers with what is here.

    A graph driver finds a layer by itself on top of the same layers only; elsewhere on the host it can be read. The
    containerd store finds any blob, but only by its digest: the load must name a layer in the form that is here, or the
    image would lack it in silence.
    """
    diff_ids = [layer.diff_id for layer in layers]
    below = 0
    if not here.engine.containerd_store:
        below = common_prefix(diff_ids, [image.identity.diff_ids for image in here.images])
    ours = {layer.diff_id: here.store.layer(layer.diff_id, here.images) for layer in layers[below:]}
    forms = tuple(ours.get(layer.diff_id) or layer for layer in layers)
    found = forms[:below] if not here.engine.containerd_store else [layer for layer in ours.values() if layer]
    return Parts(
        layers=forms,
        left_out=frozenset(layer.digest for layer in found),
        missing=tuple(layer for layer in layers[below:] if not ours[layer.diff_id]),
    )
