# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads an image's layers where Docker keeps them, from any offset, so that nothing is copied to be sent.

``docker save`` would write the whole image to a temporary folder first (overlay2), to send one layer of it. What is
read here is checked against its DiffID or digest by who receives it. Known are the overlay2 graph driver, with Docker's
``layerdb`` (moby, ``layer/filestore.go``) and the tar-split files in it (vbatts/tar-split, ``tar/storage``), and the
content store of containerd (``docs/content-flow.md``).
"""

import base64
import bisect
import contextlib
import gzip
import io
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, cast

from ..._base.findings import FleetError
from ..._base.received import DIGEST
from ..._base.staging import refusal
from ..transfer.places import open_below
from .archive import Layer, compression_of
from .docker import Engine, LocalImage
from .identity import chain_id

_BLOCK = 1 << 20
_CONTENT = "io.containerd.content.v1.content/blobs/sha256"


class Reader(Protocol):
    """Random access to bytes that never change."""

    @property
    def size(self) -> int: ...

    def read(self, offset: int, length: int) -> bytes:
        """Exactly these bytes; fewer only at the end."""


class FileReader:
    """A file below ``root``, which threads may read at once: there is no position that they share."""

    def __init__(self, path: Path, root: Path) -> None:
        self._stream = open_below(path, root.resolve())
        self.size = os.fstat(self._stream.fileno()).st_size

    def read(self, offset: int, length: int) -> bytes:
        return _read_at(self._stream.fileno(), offset, length)


def _read_at(descriptor: int, offset: int, length: int) -> bytes:
    content = os.pread(descriptor, length, offset)
    while len(content) < length and (more := os.pread(descriptor, length - len(content), offset + len(content))):
        content += more
    return content


class SplitLayer:
    """A layer's tar, put together from its recorded headers and the unpacked files, byte for byte as it was pulled.

    split: the layer's ``tar-split.json.gz``. files: the folder it was unpacked to.
    """

    def __init__(self, split: Path, files: Path) -> None:
        self._files = files.resolve()
        self._starts: list[int] = []
        self._pieces: list[bytes | Path] = []
        offset = 0
        with gzip.open(split) as lines:
            for line in lines:
                piece, length = self._piece(json.loads(line))
                if length:
                    self._starts.append(offset)
                    self._pieces.append(piece)
                    offset += length
        self.size = offset

    def _piece(self, entry: dict[str, Any]) -> tuple[bytes | Path, int]:
        """Of type 2 are recorded bytes (base64), of type 1 files with their size."""
        if entry["type"] == 2:
            content = base64.b64decode(entry["payload"])
            return content, len(content)
        name = (
            base64.b64decode(entry["name_raw"]).decode(errors="surrogateescape")
            if "name_raw" in entry
            else entry["name"]
        )
        return self._files / name.lstrip("/"), entry.get("size", 0)

    def read(self, offset: int, length: int) -> bytes:
        parts: list[bytes] = []
        index = bisect.bisect_right(self._starts, offset) - 1
        while length and offset < self.size:
            end = self._starts[index + 1] if index + 1 < len(self._starts) else self.size
            wanted = min(length, end - offset)
            parts.append(self._from(self._pieces[index], offset - self._starts[index], wanted))
            offset, length, index = offset + wanted, length - wanted, index + 1
        return b"".join(parts)

    def _from(self, piece: bytes | Path, offset: int, length: int) -> bytes:
        if isinstance(piece, bytes):
            return piece[offset : offset + length]
        # A layer may hold a link where a folder of its was before, to anywhere on this host.
        with open_below(piece, self._files) as stream:
            return _read_at(stream.fileno(), offset, length)


@dataclass(frozen=True)
class StoredImage:
    """One image as its store keeps it. config: the config blob. layers: lowest first."""

    config: bytes
    layers: tuple[Layer, ...]


class LayerStore:
    """The layers of a host's images."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        if not engine.containerd_store and engine.driver != "overlay2":
            raise refusal(
                "image-store-driver",
                "docker info",
                found=f"the storage driver {engine.driver}",
                expected="overlay2, or the containerd image store",
                remedy="let this host pull the image, or load it from an archive",
            )

    def image(self, image: LocalImage) -> StoredImage:
        """An image's config and layers; FleetError when its store does not have all of it."""
        return self._from_containerd(image) if self._engine.containerd_store else self._from_overlay2(image)

    def layer(self, diff_id: str, images: Iterable[LocalImage]) -> Layer | None:
        """That layer as this host keeps it, wherever in an image it lies."""
        if not self._engine.containerd_store:
            reader = self.find(diff_id)
            return Layer(diff_id, diff_id, reader.size) if reader else None
        for image in images:
            with contextlib.suppress(FleetError):
                for layer in self.image(image).layers:
                    if layer.diff_id == diff_id:
                        return layer
        return None

    def is_complete(self, image: LocalImage) -> bool:
        """Whether the store has all of an image: containerd may run one that it could not save or pass on.

        It is so when layers were left out of a load that the host has in another form: compressed, from a registry.
        """
        if not self._engine.containerd_store:
            return True
        try:
            self.image(image)
        except FleetError:
            return False
        return True

    def find(self, digest: str) -> Reader | None:
        """The bytes of that digest, if they are a layer's here. A graph driver has uncompressed layers only."""
        if self._engine.containerd_store:
            path = self._find(digest)
            return FileReader(path, path.parent) if path else None
        names = self._layers.glob("*/diff")
        return next((self._split_layer(name.parent) for name in names if name.read_text() == digest), None)

    # overlay2

    def _from_overlay2(self, image: LocalImage) -> StoredImage:
        configs = self._engine.root / "image" / "overlay2" / "imagedb" / "content" / "sha256"
        diff_ids = image.identity.diff_ids
        folders = [self._layers / chain_id(diff_ids[: index + 1]) for index in range(len(diff_ids))]
        sizes = [self._split_layer(folder).size for folder in folders]
        layers = tuple(Layer(diff_id, diff_id, size) for diff_id, size in zip(diff_ids, sizes, strict=True))
        return StoredImage((configs / image.id.removeprefix("sha256:")).read_bytes(), layers)

    @property
    def _layers(self) -> Path:
        return self._engine.root / "image" / "overlay2" / "layerdb" / "sha256"

    def _split_layer(self, folder: Path) -> SplitLayer:
        unpacked = (folder / "cache-id").read_text().strip()
        return SplitLayer(folder / "tar-split.json.gz", self._engine.root / "overlay2" / unpacked / "diff")

    # containerd

    def _from_containerd(self, image: LocalImage) -> StoredImage:
        for manifest in self._manifests(image.id):
            config = self._content(manifest["config"]["digest"])
            diff_ids = json.loads(config)["rootfs"]["diff_ids"] if config else ()
            if config and tuple(diff_ids) == image.identity.diff_ids:
                descriptors = zip(diff_ids, manifest["layers"], strict=True)
                return StoredImage(config, tuple(self._described(diff_id, layer) for diff_id, layer in descriptors))
        raise self._incomplete(image.id)

    def _manifests(self, digest: str) -> Iterator[dict[str, Any]]:
        """The manifests behind a digest: itself, or those of the platforms that an index lists."""
        value = json.loads(self._content(digest) or b"{}")
        if "manifests" in value:
            for descriptor in value["manifests"]:
                yield from self._manifests(descriptor["digest"])
        elif "layers" in value:
            yield value

    def _described(self, diff_id: str, descriptor: dict[str, Any]) -> Layer:
        path = self._blob(descriptor["digest"])
        with path.open("rb") as stream:
            return Layer(diff_id, descriptor["digest"], descriptor["size"], compression_of(stream.read(4)))

    def _content(self, digest: str) -> bytes | None:
        path = self._find(digest)
        return path.read_bytes() if path else None

    def _blob(self, digest: str) -> Path:
        path = self._find(digest)
        if path is None:
            raise self._incomplete(digest)
        return path

    def _find(self, digest: str) -> Path | None:
        """Docker's own containerd keeps its content below Docker's root, the system's below its own."""
        roots = (self._engine.root / "containerd" / "daemon", Path("/var/lib/containerd"))
        if not re.fullmatch(DIGEST["pattern"], digest):
            return None
        paths = (root / _CONTENT / digest.removeprefix("sha256:") for root in roots)
        return next((path for path in paths if path.is_file()), None)

    @staticmethod
    def _incomplete(digest: str) -> Exception:
        return refusal(
            "image-incomplete",
            digest,
            found="containerd's content store does not hold it",
            expected="every blob of the image",
            remedy="pull the image again on that host",
            reason="containers of such an image run, but it can be neither saved nor passed on",
        )


def stream(reader: Reader) -> IO[bytes]:
    """A reader's bytes from the first one on."""
    return io.BufferedReader(_Sequential(reader), _BLOCK)


def gunzipped(reader: Reader) -> IO[bytes]:
    """The same, of a gzip-compressed file, uncompressed."""
    return cast(IO[bytes], gzip.GzipFile(fileobj=stream(reader), mode="rb"))


class _Sequential(io.RawIOBase):
    """A reader as a stream."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._offset = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._reader.read(self._offset, len(buffer))
        buffer[: len(content)] = content
        self._offset += len(content)
        return len(content)
