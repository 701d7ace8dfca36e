# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings a host's images to what its plan says: examine all of them first, then move what is missing."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from ..._base.findings import Finding, FleetError
from ..._base.own_files import Note
from ..._base.received import words_of
from ..._base.staging import Progress, refusal, require_space
from ..transfer.offer import Sources
from ..transfer.places import Places
from .archive import ArchiveImage, Layer, load_stream
from .build import build_image, build_obstacles
from .docker import Docker, Engine, LocalImage
from .identity import parse_reference
from .layers import Reader, gunzipped, stream
from .offer import Fetch, Offer, may_resemble
from .pull import Tally
from .records import ImageRecords
from .step import ImageStep, LocalStore, Parts, Wanted, decide, require_locked

# How many copies of a layer are on the disk until it is loaded: as received, Docker's own copy of that, and unpacked.
_COPIES = {"load": 2, "fetch": 3}


class ImageStore:
    """The images of one host. streams: how many at once from other hosts. note: see `_base.own_files.read`."""

    def __init__(
        self, docker: Docker, places: Places, progress: Progress, streams: int = 4, note: Note | None = None
    ) -> None:
        self._docker = docker
        self._places = places
        self._records = ImageRecords(places.image_records, note)
        self._progress = progress
        self._streams = streams

    def examine(self, wanted: Iterable[Wanted], virgin: bool = False) -> list[ImageStep]:
        """What each image needs. Changes nothing; raises one FleetError that names every obstacle.

        virgin: Docker may still have to be installed; a host without it is one without images.
        """
        wanted = list(wanted)
        if not wanted:
            return []
        here = self._here(virgin)
        steps: list[ImageStep] = []
        obstacles: list[Finding] = []
        for each in wanted:
            try:
                steps.append(decide(each, here, self._records, self._look))
            except FleetError as error:
                obstacles += error.findings
        try:
            _require_room(here, steps)
        except FleetError as error:
            obstacles += error.findings
        if not virgin or self._docker.is_there():
            builds = [step.wanted.build for step in steps if step.action == "build" and step.wanted.build]
            obstacles += [finding for order in builds for finding in build_obstacles(order, here.engine.root)]
        if obstacles:
            raise FleetError(*obstacles)
        return steps

    def apply(self, step: ImageStep) -> LocalImage:
        """Do one step and prove it."""
        wanted = step.wanted
        match step.action:
            case "load":
                self._load(step)
            case "fetch" if step.content is None:
                return self.apply(self._known(step))
            case "fetch":
                self._fetch(step)
            case "pull":
                self._pull(wanted)
            case "build":
                self._build(wanted)
            case "tag":
                assert step.here
                self._docker.tag(step.here.id, wanted.reference)
        return self._proved(step)

    def _known(self, step: ImageStep) -> ImageStep:
        """The same step once it is known what the hosts have; to pull after all if they have nothing."""
        wanted = step.wanted
        self._progress.start(f"image {wanted.reference}", 0)
        try:
            offer = self._sources(wanted).wait(*_question(wanted), self._progress.report)
        except FleetError:
            if wanted.source != "registry":
                raise
            return replace(step, action="pull")
        here = self._here()
        step = decide(wanted, here, self._records, lambda _: offer)
        _require_room(here, [step])
        return step

    def _proved(self, step: ImageStep) -> LocalImage:
        reference = step.wanted.reference
        identity = step.content.identity if step.content else None
        image = self._docker.image(str(reference))
        if image is None or identity not in (None, image.identity) or not self._here().store.is_complete(image):
            raise refusal(
                "image-differs",
                str(reference),
                found=f"Docker ends with {image.identity.digest if image else 'no such image'}",
                expected=f"{identity.digest if identity else 'the image'}, complete",
                remedy="remove the image on that host and run again",
            )
        require_locked(step.wanted, image.identity, str(reference))
        self._records.write(reference, step.wanted.digest, image)
        return image

    def _here(self, virgin: bool = False) -> LocalStore:
        if virgin and not self._docker.is_there():
            return LocalStore(Engine(Path("/var/lib/docker"), "overlay2", False), [])
        return LocalStore(self._docker.engine(), self._docker.images())

    def _sources(self, wanted: Wanted) -> Sources:
        return Sources(wanted.peers, self._streams)

    def _look(self, wanted: Wanted) -> Offer | None:
        return self._sources(wanted).look(*_question(wanted))

    def _load(self, step: ImageStep) -> None:
        if not isinstance(step.content, ArchiveImage):
            raise refusal(
                "image-layout",
                str(step.wanted.path),
                found="there is no such folder",
                expected=f"image {step.wanted.reference} of the bundle",
                remedy="run the whole site.yml with -e bundle=, which brings it there",
            )
        self._progress.start(f"image {step.wanted.reference} from {step.wanted.path}", step.parts.size)
        self._feed(step, step.parts, step.content.chunks)

    def _fetch(self, step: ImageStep) -> None:
        what = f"image {step.wanted.reference}"
        fetch = Fetch(what, self._sources(step.wanted), self._places.layers_in, self._progress)
        received = fetch.layers(step.parts.missing, self._resembling(step, self._here()))
        parts = step.parts.with_forms(received)
        self._progress.start(f"{what}, loading", sum(layer.size for layer in received))
        self._feed(step, parts, fetch.chunks)

    def _feed(self, step: ImageStep, parts: Parts, missing: Callable[[Layer], Iterator[bytes]]) -> None:
        """Have Docker load the image. missing: the bytes of layers that were not here; others are read from Docker."""
        assert step.content
        store = self._here().store
        not_here = {layer.diff_id for layer in parts.missing}

        def chunks(layer: Layer) -> Iterator[bytes]:
            return missing(layer) if layer.diff_id in not_here else _blocks(store.find(layer.digest))

        tar = load_stream(step.wanted.reference, step.content.config, parts.layers, chunks, parts.left_out)
        self._docker.load(self._progress.counted(tar))

    def _resembling(self, step: ImageStep, here: LocalStore) -> list[Callable[[], IO[bytes]]]:
        """Uncompressed tars of layers that the wanted image does not have, of images that it seems to come after."""
        assert step.content
        new = set(step.content.identity.diff_ids)
        repository = step.wanted.reference.repository
        old: dict[str, None] = {}
        for image in here.images:
            related = any(parse_reference(tag).repository == repository for tag in image.tags)
            if related or new.intersection(image.identity.diff_ids):
                old |= dict.fromkeys(diff_id for diff_id in image.identity.diff_ids if diff_id not in new)
        layers = [layer for layer in (here.store.layer(diff_id, here.images) for diff_id in old) if layer]
        return [_tar(here, layer) for layer in sorted(layers, key=lambda layer: -layer.size) if may_resemble(layer)]

    def _pull(self, wanted: Wanted) -> None:
        digest = wanted.pull_digest
        name = wanted.reference.at(digest) if digest else str(wanted.reference)
        self._progress.start(f"image {wanted.reference} from its registry", 0)
        tally = Tally()
        for event in self._docker.pull(name):
            was_received = tally.all_received
            tally.take(event)
            if tally.all_received and not was_received:
                self._progress.start(f"image {wanted.reference}, unpacking", tally.total)
            if words_of(event.get("status", "")).startswith("Retrying in"):
                self._progress.report("the connection broke, Docker tries again")
            else:
                self._progress.reach(tally.done, tally.total)
        if digest:
            self._docker.tag(name, wanted.reference)

    def _build(self, wanted: Wanted) -> None:
        assert wanted.build
        build_image(wanted.build, wanted.reference, self._places.folder, self._progress, anew=wanted.renew)


def _require_room(here: LocalStore, steps: Iterable[ImageStep]) -> None:
    needed = sum((step.moved or 0) * _COPIES.get(step.action, 0) for step in steps)
    require_space(here.engine.root, needed, "the images (a layer lies there more than once while it is loaded)")


def _question(wanted: Wanted) -> tuple[str, dict[str, Any], Callable[[bytes], Offer]]:
    request = {"image": str(wanted.reference), "digest": wanted.digest}
    return f"image {wanted.reference}", request, partial(_offered, wanted)


def _offered(wanted: Wanted, answer: bytes) -> Offer:
    """What a host offers. ValueError if it is not what the lock says: whoever sends it, it is passed over."""
    offer = Offer.from_answer(answer)
    if wanted.identity not in (None, offer.identity.digest):
        raise ValueError(f"an image of identity {offer.identity.digest}; expected {wanted.identity}, as locked")
    return offer


def _tar(here: LocalStore, layer: Layer) -> Callable[[], IO[bytes]]:
    def tar() -> IO[bytes]:
        reader = here.store.find(layer.digest)
        assert reader
        return gunzipped(reader) if layer.compression else stream(reader)

    return tar


def _blocks(reader: Reader | None) -> Iterator[bytes]:
    assert reader
    tar = stream(reader)
    while block := tar.read(1 << 20):
        yield block
