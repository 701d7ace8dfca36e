# SPDX-License-Identifier: GPL-3.0-or-later
"""An image in an OCI layout (image-spec 1.1, image-layout.md): a folder of blobs, each named by its sum."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..._base.received import DIGEST, checked, one_line, parsed
from ..._base.schema import Spec
from ..._base.staging import refusal
from .archive import MOST_DOCUMENT, MOST_LAYERS, ArchiveImage, Layer, compression_of, digest_of, layers_of
from .identity import Reference

_BLOCK = 1 << 20
_LAYERS: Spec = {"type": "list", "max": MOST_LAYERS, "elements": DIGEST}


@dataclass(frozen=True)
class LayoutImage(ArchiveImage):
    """One image of a layout. archive: its folder."""

    def chunks(self, layer: Layer) -> Iterator[bytes]:
        with _blob(self.archive, layer.digest).open("rb") as stream:
            while block := stream.read(_BLOCK):
                yield block


def read_layout(folder: Path, digest: str, reference: Reference) -> LayoutImage:
    """The image whose manifest has this digest. Reads documents and sizes; who brought the layers has read them.

    Raises FleetError for a blob that is missing, and for documents that are not what their names say.
    """
    try:
        manifest = parsed(_document(folder, digest), MOST_DOCUMENT, "its manifest")
        named: str = checked(DIGEST, manifest["config"]["digest"], "its config")
        config = _document(folder, named)
        diff_ids = layers_of(config, "its config")
        digests = checked(_LAYERS, [layer["digest"] for layer in manifest["layers"]], "its layers")
        layers = tuple(_layer(folder, *pair) for pair in zip(diff_ids, digests, strict=True))
    except (OSError, ValueError, LookupError, TypeError) as problem:
        raise refusal(
            "image-layout",
            f"{folder}: {reference}",
            found=one_line(str(problem)),
            expected="an OCI layout that holds the image",
            remedy="bring the bundle again, and run again",
        ) from None
    known = frozenset({digest, named})
    return LayoutImage(folder, (str(reference),), config, known, layers, ())


def _document(folder: Path, digest: str) -> bytes:
    with _blob(folder, digest).open("rb") as stream:
        content = stream.read(MOST_DOCUMENT + 1)
    if digest_of(content) != digest:
        raise ValueError(f"{digest} is not what its name says")
    return content


def _layer(folder: Path, diff_id: str, digest: str) -> Layer:
    path = _blob(folder, digest)
    with path.open("rb") as stream:
        compression = compression_of(stream.read(4))
    return Layer(diff_id, digest, path.stat().st_size, compression)


def _blob(folder: Path, digest: str) -> Path:
    return folder / "blobs" / str(checked(DIGEST, digest, "a digest")).replace(":", "/")
