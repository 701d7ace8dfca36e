# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host can give to others: images, models, and the bytes of their files, even while these are coming in."""

import base64
import bisect
import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from ..._base import own_files
from ..._base.own_files import replace_file
from ..._base.staging import LOCKS, Progress, held, is_held, require_space
from ..images.docker import Docker
from ..images.identity import parse_reference
from ..images.layers import FileReader, LayerStore, Reader, gunzipped, stream
from ..images.records import ImageRecords
from ..transfer.parts import Recipe, cut_evenly, cut_tar, recipe_of, unpack
from ..transfer.places import Places
from ..transfer.spool import Incoming, is_filling
from ..weights.hub import Hub
from ..weights.store import ModelStore, Wanted

# How long a request waits for bytes that are on their way to this host.
_PATIENCE_SECONDS = 5
_LOOK_SECONDS = 0.05
# How long a layer that was uncompressed for others stays: some runs' worth.
_UNPACKED_SECONDS = 24 * 3600
_FOREVER = 7 * 24 * 3600
# What a compressed layer may grow to (measured on CUDA images: 2 to 2.5).
_GROWTH = 4
# One that grows further may do so as long as there is room, which is looked at again after so many bytes.
_LOOK_BYTES = 1 << 30

Ranges = Sequence[tuple[int, int]]


class AbsentError(Exception):
    """This host does not have it, and is not getting it."""


class LateError(Exception):
    """This host is getting it, but these bytes are not here yet."""


class Contents:
    """What one process gives. Files stay open while it runs, so that nobody can take them away from under a reader."""

    def __init__(self, places: Places, docker: Docker) -> None:
        self._places = places
        self._docker = docker
        self._readers: dict[str, Reader] = {}
        self._starts: dict[str, tuple[Incoming, list[int]]] = {}

    def image(self, reference: str, digest: str | None) -> dict[str, Any]:
        """An image's config blob (base64) and layers, lowest first; the pinned one if a digest is given."""
        name = parse_reference(reference)
        image = self._docker.image(str(name))
        if image is None:
            raise _absent_or_late(f"it has no image {name}")
        if digest and not ImageRecords(self._places.image_records).is_pinned(image, name, digest):
            raise AbsentError(f"its {name} is {' or '.join(sorted(image.digests))}, not known to be {digest}")
        stored = LayerStore(self._docker.engine()).image(image)
        layers = [dataclasses.asdict(layer) for layer in stored.layers]
        return {"config": base64.b64encode(stored.config).decode(), "layers": layers}

    def model(self, repository: str, revision: str | None) -> dict[str, Any]:
        """A model revision's manifest and seal. What a user of this host downloaded is taken into the store first."""
        hub = Hub("hf", self._places.downloads)
        store = ModelStore(self._places, hub, Progress())
        wanted = Wanted(repository, revision, "hub")
        [step] = store.examine([wanted])
        if step.action == "download":
            raise _absent_or_late(f"its {repository}, revision {revision or 'of main'}, is {step.found}")
        if step.changes:
            with held(LOCKS / "models.lock", "taking in a model for others", patience=_FOREVER):
                [step] = store.examine([wanted])
                manifest = store.apply(step)
        else:
            manifest = store.apply(step)
        return {"manifest": dataclasses.asdict(manifest), "seal": manifest.seal}

    def recipe(self, sha256: str, packed: str | None) -> bytes:
        """How a file is made (``Recipe.pack``). It is read for that if nobody asked before; LateError, AbsentError.

        packed: of an uncompressed layer, the digest by which this host may keep it compressed.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            for incoming in self._incoming(sha256):
                if packed_recipe := incoming.packed_recipe():
                    return packed_recipe
            try:
                return self._noted(sha256, packed)
            except LateError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_SECONDS)

    def _noted(self, sha256: str, packed: str | None) -> bytes:
        note = self._places.recipes / f"{sha256}.recipe"
        with held(self._places.recipes / "lock", f"reading {sha256}", patience=_FOREVER):
            known, _why = own_files.look(note, unpack)
            if known is None or known.sha256 != sha256:
                known = self._cut(sha256, packed)
                replace_file(note, known.pack())
        return known.pack()

    def read(self, sha256: str, ranges: Ranges) -> bytes:
        """The bytes of these (offset, length). Waits a little for what is on its way; LateError, AbsentError."""
        reader = self._readers.get(sha256) or self._coming(sha256, ranges) or self._complete(sha256)
        if reader is None:
            raise _absent_or_late("it does not have it")
        content = b"".join(reader.read(offset, length) for offset, length in ranges)
        if len(content) != sum(length for _, length in ranges):
            raise AbsentError("its file is cut off")
        return content

    def is_getting(self) -> bool:
        """Whether this host is itself still getting files from others."""
        return any(map(is_filling, (self._places.files_in, self._places.layers_in)))

    def _complete(self, sha256: str) -> Reader | None:
        reader = self._blob(sha256) or self._layer(sha256)
        if reader:
            self._readers[sha256] = reader
        return reader

    def _coming(self, sha256: str, ranges: Ranges) -> Reader | None:
        """A file on its way to this host, once these bytes have come; none if they do not come."""
        if sha256 not in self._starts:
            recipes = ((incoming, incoming.recipe()) for incoming in self._incoming(sha256))
            found = next(((incoming, recipe) for incoming, recipe in recipes if recipe), None)
            if found is None:
                return None
            self._starts[sha256] = found[0], [part.offset for part in found[1].parts]
        incoming, starts = self._starts[sha256]
        try:
            return (
                FileReader(incoming.data, incoming.folder) if _wait_for(incoming, _parts_in(starts, ranges)) else None
            )
        except FileNotFoundError:
            return None  # it is complete by now, and where it belongs

    def _blob(self, sha256: str) -> Reader | None:
        """A model's file in the store. What lies in a user's cache is given once `model` has taken it in."""
        found = (self._places.models / "hub").glob(f"models--*/blobs/{sha256}")
        return next((FileReader(path, self._places.models) for path in found), None)

    def _layer(self, sha256: str) -> Reader | None:
        unpacked = self._places.unpacked / sha256
        if unpacked.exists():
            return FileReader(unpacked, self._places.unpacked)
        return self._layers.find(f"sha256:{sha256}") if self._layers else None

    @cached_property
    def _layers(self) -> LayerStore | None:
        """None on a host that only has models."""
        return LayerStore(self._docker.engine()) if self._docker.is_there() else None

    def _incoming(self, sha256: str) -> list[Incoming]:
        return [Incoming(folder, sha256) for folder in (self._places.files_in, self._places.layers_in)]

    def _cut(self, sha256: str, packed: str | None) -> Recipe:
        if blob := self._blob(sha256):
            return recipe_of(cut_evenly(stream(blob).read))
        if layer := self._layer(sha256):
            return recipe_of(cut_tar(stream(layer).read))
        if packed and (compressed := self._layer(packed.removeprefix("sha256:"))):
            return self._unpack(sha256, compressed)
        raise _absent_or_late("it does not have it")

    def _unpack(self, sha256: str, compressed: Reader) -> Recipe:
        """Keep a compressed layer uncompressed for a while, so that it can be read from any offset."""
        folder = self._places.unpacked
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if time.time() - old.stat().st_mtime > _UNPACKED_SECONDS:
                old.unlink()
        require_space(folder, compressed.size * _GROWTH, "an uncompressed layer")
        source, partial, left = gunzipped(compressed), folder / f"{sha256}.partial", 0
        with partial.open("wb") as target:

            def read(length: int) -> bytes:
                nonlocal left
                if left < length:
                    left += _LOOK_BYTES
                    require_space(folder, _LOOK_BYTES, "an uncompressed layer")
                content = source.read(length)
                left -= target.write(content)
                return content

            recipe = recipe_of(cut_tar(read))
        if recipe.sha256 != sha256:
            partial.unlink()
            raise AbsentError("its compressed layer is another layer")
        partial.rename(folder / sha256)
        return recipe


def _absent_or_late(why: str) -> Exception:
    """While this host is staging, what it does not have may be what it is getting."""
    return LateError() if any(map(is_held, LOCKS.glob("*.lock"))) else AbsentError(why)


def _wait_for(incoming: Incoming, parts: Iterable[int]) -> bool:
    """Whether the parts are here, after a while if need be. LateError: they will be. FileNotFoundError: all are."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    awaited = list(parts)
    while True:
        marks = incoming.marks()
        awaited = [part for part in awaited if not marks[part]]
        if not awaited:
            return True
        if not is_filling(incoming.folder):
            return False
        if time.monotonic() > deadline:
            raise LateError
        time.sleep(_LOOK_SECONDS)


def _parts_in(starts: Sequence[int], ranges: Ranges) -> Iterator[int]:
    """The parts, by where they start, that the ranges touch."""
    for offset, length in ranges:
        yield from range(max(0, bisect.bisect_right(starts, offset) - 1), bisect.bisect_left(starts, offset + length))
