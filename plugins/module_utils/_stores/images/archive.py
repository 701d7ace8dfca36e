# SPDX-License-Identifier: GPL-3.0-or-later
"""Images as tar streams: reads what ``docker save`` writes, writes what ``docker load`` takes.

A stream may leave out layers that the target has: ``docker load`` opens a layer's file only when it needs it
(moby/moby pull request 18727; run with Docker 26.1 on the overlay2 and the containerd store).
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ..._base.received import DIGEST, Unread, checked, is_map, one_line, parsed
from ..._base.schema import Spec
from ..._base.staging import refusal
from .identity import Identity, Reference, identity_from_config, parse_reference

_BLOCK = 1 << 20
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
# Of an archive that somebody else wrote, all of its headers and documents together; a large image's have some 300 kB.
_MOST_BYTES = 16 << 20
MOST_DOCUMENT = 8 << 20
# Docker itself stacks no more than 127.
MOST_LAYERS = 1024
_PATH: Spec = {"type": "str", "required": True, "min": 1, "max": 512}
_TAG: Spec = {"type": "str", "pattern": "[\\x21-\\x7e]{1,512}", "expected": "an image's name"}
_ENTRY: Spec = {
    "type": "map",
    "options": {
        "Config": _PATH,
        "RepoTags": {"type": "list", "nullable": True, "max": MOST_LAYERS, "elements": _TAG},
        "Layers": {"type": "list", "required": True, "max": MOST_LAYERS, "elements": _PATH},
    },
}
_DESCRIPTOR: Spec = {"type": "map", "options": {"digest": DIGEST}}
_NAME: Spec = {"type": "str", "required": True, "pattern": "[A-Za-z0-9_.-]{1,64}"}
# What `identity_from_config` reads of the config blob.
_KNOWN: Spec = {
    "type": "map",
    "options": {
        "os": _NAME,
        "architecture": _NAME,
        "config": {"type": "map", "nullable": True},
        "rootfs": {"type": "map", "required": True},
    },
}


@dataclass(frozen=True)
class Layer:
    """One layer as some store or archive keeps it.

    diff_id: digest of the uncompressed tar. digest, size: of the bytes that ``chunks`` yields.
    compression: of those bytes, ``gzip``, ``zstd`` or none.
    """

    diff_id: str
    digest: str
    size: int
    compression: str = ""

    @property
    def media_type(self) -> str:
        return f"{_LAYER}+{self.compression}" if self.compression else _LAYER


@dataclass(frozen=True)
class ArchiveImage:
    """One image in an archive.

    digests: what an owner may pin it by: the config's digest and those of the manifests that the archive keeps.
    positions: where in the archive each layer's bytes begin.
    """

    archive: Path
    tags: tuple[str, ...]
    config: bytes
    digests: frozenset[str]
    layers: tuple[Layer, ...]
    positions: tuple[int, ...]

    @property
    def identity(self) -> Identity:
        return identity_from_config(json.loads(self.config))

    def chunks(self, layer: Layer) -> Iterator[bytes]:
        """The layer's bytes as the archive keeps them."""
        with self.archive.open("rb") as stream:
            stream.seek(self.positions[self.layers.index(layer)])
            yield from _blocks(stream, layer.size)


class _Documents(io.FileIO):
    """An archive's file for tarfile, which takes into memory whatever a header says."""

    _left = _MOST_BYTES

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= self._left:
            raise ValueError(f"its headers and documents have more than {_MOST_BYTES} bytes")
        self._left -= size
        return super().read(size) or b""


def layers_of(config: bytes, what: str) -> list[str]:
    """The DiffIDs of an image's config, lowest first. ValueError for what is none, with ``what`` it was meant to be."""
    root = _of_form(_KNOWN, parsed(config, MOST_DOCUMENT, what), what)["rootfs"]
    diff_ids: list[str] = checked(
        {"type": "list", "max": MOST_LAYERS, "elements": DIGEST}, root.get("diff_ids") or [], f"{what}'s layers"
    )
    return diff_ids


def _of_form(spec: Spec, value: Unread, what: str) -> Any:
    """What we read of a map, which may have more."""
    if not is_map(value):
        return checked(spec, value, what)
    return checked(spec, {key: value[key] for key in spec["options"] if key in value}, what)


def _blocks(stream: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        block = stream.read(min(_BLOCK, size))
        if not block:
            raise EOFError(f"{size} bytes are missing")
        size -= len(block)
        yield block


def read_archive(path: Path, reference: Reference) -> ArchiveImage:
    """The image named ``reference`` in an archive, or its only one if that has no name. Reads headers, not layers.

    Raises FleetError when the file is not there, is no such archive, is cut off, or holds another image.
    """
    try:
        with _Documents(path) as stream, tarfile.open(fileobj=stream, mode="r:") as tar:
            return _read(path, tar, reference)
    except FileNotFoundError:
        raise _bad(
            path,
            found="there is no such file",
            expected="an image archive",
            remedy=f"docker save -o {path.name} {reference}, and copy it there",
        ) from None
    except (tarfile.TarError, KeyError, ValueError, EOFError) as error:
        raise _bad(
            path,
            found=_what_it_is(path, error),
            expected="an uncompressed, whole archive",
            remedy="write it with docker save",
        ) from None
    except OSError as error:
        raise _bad(
            path,
            found=f"can't be read ({error.strerror})",
            expected="a readable image archive",
            remedy="see its path and rights",
        ) from None


def _bad(path: Path, *, found: str, expected: str, remedy: str) -> Exception:
    return refusal("image-archive", str(path), found=found, expected=expected, remedy=remedy)


def _what_it_is(path: Path, error: Exception) -> str:
    with path.open("rb") as stream:
        compression = compression_of(stream.read(4))
    return f"compressed with {compression}" if compression else f"not a whole image archive ({one_line(str(error))})"


def compression_of(start: bytes) -> str:
    """How a file is compressed, by its first four bytes: ``gzip``, ``zstd`` or not at all."""
    return next((name for magic, name in _COMPRESSIONS.items() if start.startswith(magic)), "")


def _read(path: Path, tar: tarfile.TarFile, reference: Reference) -> ArchiveImage:
    members = {member.name: member for member in tar.getmembers()}
    entries = _list(_ENTRY, parsed(_content(tar, members["manifest.json"]), MOST_DOCUMENT, "manifest.json"), "its list")
    entry = _choose(path, entries, reference)
    config = _content(tar, members[entry["Config"]])
    diff_ids = layers_of(config, "its config")
    if len(diff_ids) != len(entry["Layers"]):
        raise ValueError(f"{len(entry['Layers'])} layers for {len(diff_ids)} DiffIDs")
    files = [_regular(members, members[name]) for name in entry["Layers"]]
    end = max((file.offset_data + file.size for file in files), default=0)
    if end > path.stat().st_size:
        raise EOFError(f"cut off: {path.stat().st_size} of at least {end} bytes")
    return ArchiveImage(
        archive=path,
        tags=tuple(entry.get("RepoTags") or ()),
        config=config,
        digests=frozenset({digest_of(config), *_manifest_digests(tar, members)}),
        layers=tuple(_layer(path, diff_id, file) for diff_id, file in zip(diff_ids, files, strict=True)),
        positions=tuple(file.offset_data for file in files),
    )


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = tar.extractfile(_file(member))
    if stream is None or member.size > MOST_DOCUMENT:
        raise ValueError(f"{member.name} is no document of at most {MOST_DOCUMENT} bytes")
    return stream.read()


def _file(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Its bytes lie in the archive as they are: neither a link nor a file with holes."""
    if not member.isreg() or member.issparse():
        raise ValueError(f"{member.name} is no plain file")
    return member


def _list(spec: Spec, value: Unread | list[Unread], what: str) -> list[Any]:
    return [_of_form(spec, item, what) for item in checked({"type": "list", "max": MOST_LAYERS}, value, what)]


def _regular(members: Mapping[str, tarfile.TarInfo], member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The file itself: before Docker 25, ``docker save`` wrote a layer that occurs twice once, and then links to it."""
    if not member.issym():
        return _file(member)
    return _file(members[str(Path(member.name).parent.parent / member.linkname.removeprefix("../"))])


def _layer(path: Path, diff_id: str, file: tarfile.TarInfo) -> Layer:
    with path.open("rb") as stream:
        stream.seek(file.offset_data)
        compression = compression_of(stream.read(4))
    # Only Docker 25 and newer keep compressed layers, and name them by their digest.
    digest = f"sha256:{Path(file.name).name}" if compression else diff_id
    return Layer(diff_id, digest, file.size, compression)


def _choose(path: Path, entries: Sequence[Mapping[str, Any]], reference: Reference) -> Mapping[str, Any]:
    nameless = [entry for entry in entries if not entry.get("RepoTags")]
    named = [entry for entry in entries if reference in map(parse_reference, entry.get("RepoTags") or ())]
    if named or len(nameless) == len(entries) == 1:
        return (named or nameless)[0]
    tags = sorted(tag for entry in entries for tag in entry.get("RepoTags") or ())
    raise _bad(
        path,
        found=f"holds {', '.join(tags) or 'images without names'}",
        expected=str(reference),
        remedy="name one of those",
    )


def _manifest_digests(tar: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo]) -> Iterator[str]:
    if "index.json" in members:
        index = parsed(_content(tar, members["index.json"]), MOST_DOCUMENT, "index.json")
        manifests: Unread | list[Unread] = index.get("manifests") or [] if is_map(index) else index
        yield from (descriptor["digest"] for descriptor in _list(_DESCRIPTOR, manifests, "index.json"))


def digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def load_stream(
    reference: Reference,
    config: bytes,
    layers: Sequence[Layer],
    chunks: Callable[[Layer], Iterator[bytes]],
    left_out: frozenset[str],
) -> Iterator[bytes]:
    """The tar that makes ``docker load`` add the image under ``reference``, on either store, piece by piece.

    layers: lowest first. chunks: gives a layer's bytes. left_out: digests of layers that the target has already.
    It is an OCI layout (what the containerd store reads) with Docker's ``manifest.json`` (what the graph drivers read).
    """
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, digest_of(config), len(config)),
            "layers": [_descriptor(layer.media_type, layer.digest, layer.size) for layer in layers],
        }
    )
    name = str(reference)
    index = {
        "schemaVersion": 2,
        "mediaType": _INDEX,
        "manifests": [
            {
                **_descriptor(_MANIFEST, digest_of(manifest), len(manifest)),
                "annotations": {
                    "io.containerd.image.name": reference.full_name,
                    "org.opencontainers.image.ref.name": reference.tag,
                },
            }
        ],
    }
    listing = [{"Config": _blob(digest_of(config)), "RepoTags": [name], "Layers": [_blob(x.digest) for x in layers]}]
    for path, content in (
        ("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'),
        ("index.json", _json(index)),
        ("manifest.json", _json(listing)),
        (_blob(digest_of(manifest)), manifest),
        (_blob(digest_of(config)), config),
    ):
        yield _header(path, len(content)) + content + _padding(len(content))
    sent = set(left_out)
    for layer in layers:
        if layer.digest not in sent:
            sent.add(layer.digest)
            yield _header(_blob(layer.digest), layer.size)
            yield from chunks(layer)
            yield _padding(layer.size)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _descriptor(media_type: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest, "size": size}


def _blob(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _header(path: str, size: int) -> bytes:
    member = tarfile.TarInfo(path)
    member.size = size
    return member.tobuf(tarfile.PAX_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)
